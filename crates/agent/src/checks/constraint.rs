//! Constraints: checks of the model's final answer. All run at once; failing asserts have the answer made again.

use std::fmt;
use std::sync::Arc;

use contexture_compose::{BoxFuture, Constraint, ConstraintMode, Runner};
use contexture_message::Message;
use futures::future::join_all;
use serde_json::{Map, Value};

use super::rules::Rules;
use crate::AgentError;

/// An answer, as constraints see it.
#[derive(Clone, Debug)]
pub struct Checked {
    /// The whole text.
    pub text: Arc<str>,
    /// The answer as a value, where the prompt has an output schema.
    pub value: Option<Arc<Value>>,
    /// The message itself.
    pub message: Arc<Message>,
}

/// Checks an answer; the error is the feedback that the model gets.
pub trait ConstraintCheck: Send + Sync {
    /// Returns what is wrong with the answer, in words for the model, if anything is.
    fn check(&self, answer: Checked) -> BoxFuture<'static, Result<(), String>>;
}

impl<F, R> ConstraintCheck for F
where
    F: Fn(Checked) -> R + Send + Sync,
    R: Future<Output = Result<(), String>> + Send + 'static,
{
    fn check(&self, answer: Checked) -> BoxFuture<'static, Result<(), String>> {
        Box::pin(self(answer))
    }
}

/// Returns a constraint with the function that checks it: a prompt that has it needs nothing from the agent. An answer that
/// fails is made again; set [`mode`](Constraint::mode) where a remark is enough.
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

/// A constraint that an answer does not meet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConstraintFailure {
    /// The constraint.
    pub id: String,
    /// What is wrong, in words for the model.
    pub feedback: String,
}

/// The constraints of a run, ready to check.
#[derive(Default)]
pub(crate) struct Constraints(Vec<(String, ConstraintMode, Arc<dyn ConstraintCheck>)>);

impl fmt::Debug for Constraints {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.iter().map(|(id, ..)| id)).finish()
    }
}

/// What the constraints say about an answer.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    /// Failing asserts: the answer does not stand.
    pub(crate) failures: Vec<ConstraintFailure>,
    /// Failing suggestions: the answer stands.
    pub(crate) suggestions: Vec<ConstraintFailure>,
}

impl Constraints {
    /// Whether an answer may have to be made again.
    pub(crate) fn asserts(&self) -> bool {
        self.0.iter().any(|(_, mode, _)| *mode == ConstraintMode::Assert)
    }

    /// Checks an answer, everything at once; findings are in the order of the definitions.
    pub(crate) async fn check(&self, answer: &Checked) -> Findings {
        let checks = self.0.iter().map(|(_, _, check)| check.check(answer.clone()));
        let mut findings = Findings::default();
        for ((id, mode, _), result) in self.0.iter().zip(join_all(checks).await) {
            let Err(feedback) = result else { continue };
            let failure = ConstraintFailure { id: id.clone(), feedback };
            match mode {
                ConstraintMode::Assert => findings.failures.push(failure),
                ConstraintMode::Suggest => findings.suggestions.push(failure),
            }
        }
        findings
    }
}

/// Finds what definitions stand for.
pub(crate) fn constraints(
    definitions: &[Constraint],
    known: impl Fn(&str) -> Option<Arc<dyn ConstraintCheck>>,
) -> Result<Constraints, AgentError> {
    let each = definitions.iter().map(|it| {
        let brought = it.runner.as_ref().and_then(Runner::get::<Arc<dyn ConstraintCheck>>);
        let check = match brought.cloned().or_else(|| known(&it.id)) {
            Some(check) => check,
            None => Arc::new(SpelledOut::new(it).map_err(|reason| AgentError::Unknown {
                source_of: format!("constraint:{}", it.id),
                reason,
            })?),
        };
        Ok((it.id.clone(), it.mode, check))
    });
    each.collect::<Result<_, AgentError>>().map(Constraints)
}

/// Checks a definition that spells out its rules, such as when a project is loaded. Others are known by their id when
/// they are run.
pub fn check_constraint(definition: &Constraint) -> Result<(), String> {
    match definition.spec.is_empty() {
        true => Ok(()),
        false => SpelledOut::new(definition).map(drop),
    }
}

struct SpelledOut {
    rules: Rules,
    feedback: Option<String>,
}

impl SpelledOut {
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

impl ConstraintCheck for SpelledOut {
    fn check(&self, answer: Checked) -> BoxFuture<'static, Result<(), String>> {
        let broken = self.rules.broken(&answer.text);
        let result = match (broken.is_empty(), &self.feedback) {
            (true, _) => Ok(()),
            (false, Some(feedback)) => Err(feedback.clone()),
            (false, None) => Err(broken.join("; ")),
        };
        Box::pin(async { result })
    }
}
