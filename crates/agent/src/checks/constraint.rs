//! Constraints: checks of the model's final answer. They run concurrently; a failed assert makes the model try again.

use std::fmt;
use std::sync::Arc;

use contexture_compose::{BoxFuture, Constraint, ConstraintMode, Pass, Runner};
use contexture_message::{Citation, Message};
use futures::future::join_all;
use serde_json::{Map, Value};

use super::rules::Rules;
use crate::error::{AgentError, ConstraintFailure};
use crate::event::CheckReport;

/// An answer, as constraints see it.
#[derive(Clone, Debug)]
pub struct Checked {
    /// The whole text.
    pub text: Arc<str>,
    /// The structured answer, if the prompt has an output schema.
    pub value: Option<Arc<Value>>,
    /// The complete message.
    pub message: Arc<Message>,
    /// What the model saw when it answered: the request, and every Segment with its fate.
    pub pass: Pass,
}

/// What a check says about an answer.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CheckOutcome {
    /// What is wrong with the answer, in words for the model; `None` if nothing is.
    pub feedback: Option<String>,
    /// The citations that the check found, with spans in the whole text. If the answer is accepted, they replace those of
    /// the provider.
    pub citations: Vec<Citation>,
    /// What the check reports to the application.
    pub report: Option<Value>,
}

/// Most checks say only what is wrong.
impl From<Result<(), String>> for CheckOutcome {
    fn from(result: Result<(), String>) -> Self {
        Self { feedback: result.err(), ..Self::default() }
    }
}

/// Checks an answer. Any function of a [`Checked`] to a future is a check if what comes out becomes a [`CheckOutcome`],
/// as `Result<(), String>` does.
pub trait ConstraintCheck: Send + Sync {
    /// Returns what is wrong with the answer, if anything is, and what else the check found.
    fn check(&self, answer: Checked) -> BoxFuture<'static, CheckOutcome>;
}

impl<F, R, O> ConstraintCheck for F
where
    F: Fn(Checked) -> R + Send + Sync,
    R: Future<Output = O> + Send + 'static,
    O: Into<CheckOutcome>,
{
    fn check(&self, answer: Checked) -> BoxFuture<'static, CheckOutcome> {
        let checking = self(answer);
        Box::pin(async { checking.await.into() })
    }
}

/// Returns a constraint with the function that checks it, so that the prompt needs nothing from the agent. A failed
/// check makes the model try again; set [`mode`](Constraint::mode) if a remark is enough.
///
/// ```
/// use contexture_agent::{Checked, constraint};
/// use contexture_compose::Prompt;
///
/// let brief = constraint("brief", |answer: Checked| async move {
///     if answer.text.len() < 200 { Ok(()) } else { Err("Be brief.".to_owned()) }
/// });
/// let prompt = Prompt::builder("p").constraint(brief).build()?;
/// # Ok::<(), contexture_compose::Error>(())
/// ```
pub fn constraint(id: impl Into<String>, check: impl ConstraintCheck + 'static) -> Constraint {
    let check: Arc<dyn ConstraintCheck> = Arc::new(check);
    Constraint {
        id: id.into(),
        mode: ConstraintMode::default(),
        spec: Map::new(),
        runner: Some(Runner::new(check)),
    }
}

/// The constraints of a run, ready to run.
#[derive(Default)]
pub(crate) struct Constraints(Vec<(String, ConstraintMode, Arc<dyn ConstraintCheck>)>);

impl fmt::Debug for Constraints {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.iter().map(|(id, ..)| id)).finish()
    }
}

/// The results of the constraints for an answer.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    /// Failed asserts: the answer is rejected.
    pub(crate) failures: Vec<ConstraintFailure>,
    /// Failed suggestions: the answer is accepted.
    pub(crate) suggestions: Vec<ConstraintFailure>,
    /// The citations that the checks found.
    pub(crate) citations: Vec<Citation>,
    pub(crate) reports: Vec<CheckReport>,
}

impl Constraints {
    /// Whether any constraint can reject an answer.
    pub(crate) fn asserts(&self) -> bool {
        self.0.iter().any(|(_, mode, _)| *mode == ConstraintMode::Assert)
    }

    /// Runs all checks concurrently. Findings are in the order of the definitions.
    pub(crate) async fn check(&self, answer: &Checked) -> Findings {
        let checks = self.0.iter().map(|(_, _, check)| check.check(answer.clone()));
        let mut findings = Findings::default();
        for ((id, mode, _), result) in self.0.iter().zip(join_all(checks).await) {
            let CheckOutcome { feedback, citations, report } = result;
            findings.citations.extend(citations);
            let source = || format!("constraint:{id}");
            findings.reports.extend(report.map(|report| CheckReport { source: source(), report }));
            let Some(feedback) = feedback else { continue };
            let failure = ConstraintFailure { id: id.clone(), feedback };
            match mode {
                ConstraintMode::Assert => findings.failures.push(failure),
                ConstraintMode::Suggest => findings.suggestions.push(failure),
            }
        }
        findings
    }
}

/// Returns the checks for these definitions.
pub(crate) fn constraints(
    definitions: &[Constraint],
    known: impl Fn(&str) -> Option<Arc<dyn ConstraintCheck>>,
) -> Result<Constraints, AgentError> {
    let each = definitions.iter().map(|it| {
        let carried = it.runner.as_ref().and_then(Runner::get::<Arc<dyn ConstraintCheck>>);
        let check = match carried.cloned().or_else(|| known(&it.id)) {
            Some(check) => check,
            None => Arc::new(InlineConstraint::new(it).map_err(|reason| AgentError::Unknown {
                source_of: format!("constraint:{}", it.id),
                reason,
            })?),
        };
        Ok((it.id.clone(), it.mode, check))
    });
    each.collect::<Result<_, AgentError>>().map(Constraints)
}

/// Validates a definition with inline rules, for example when a project is loaded. Definitions without rules are
/// looked up by id at run time.
pub fn check_constraint(definition: &Constraint) -> Result<(), String> {
    match definition.spec.is_empty() {
        true => Ok(()),
        false => InlineConstraint::new(definition).map(drop),
    }
}

struct InlineConstraint {
    rules: Rules,
    feedback: Option<String>,
}

impl InlineConstraint {
    fn new(definition: &Constraint) -> Result<Self, String> {
        let mut spec = definition.spec.clone();
        let feedback = match spec.shift_remove("feedback") {
            None => None,
            Some(Value::String(text)) => Some(text),
            Some(_) => return Err("`feedback` is not a text".to_owned()),
        };
        Ok(Self { rules: Rules::new(spec)?, feedback })
    }
}

impl ConstraintCheck for InlineConstraint {
    fn check(&self, answer: Checked) -> BoxFuture<'static, CheckOutcome> {
        let broken = self.rules.broken(&answer.text);
        let result: Result<(), String> = match (broken.is_empty(), &self.feedback) {
            (true, _) => Ok(()),
            (false, Some(feedback)) => Err(feedback.clone()),
            (false, None) => Err(broken.join("; ")),
        };
        Box::pin(async { result.into() })
    }
}
