//! Judges a final answer: against the output schema first, then against the constraints.
//!
//! All failed asserts are reported in one message. Failed suggestions become remarks and change nothing.

use std::sync::Arc;

use contexture_compose::{Constraint, Pass, SchemaValidator};
use contexture_message::{Citation, Message};
use serde_json::Value;

use super::constraint::{Checked, ConstraintCheck, Constraints, Findings, constraints};
use super::output;
use crate::error::{AgentError, ConstraintFailure};
use crate::event::{CheckReport, Remark};
use crate::ports::{Offload, offloaded};

/// The checks of a run.
pub(crate) struct Judge {
    schema: Option<(Arc<Value>, SchemaValidator)>,
    offload: Arc<dyn Offload>,
    definitions: Vec<Constraint>,
    constraints: Constraints,
}

/// The judgement of a final answer.
#[derive(Debug)]
pub(crate) enum Judgement {
    /// The answer is accepted, with its value if there is a schema.
    Accepted(Option<Value>),
    /// The answer does not match its schema.
    Misfit { faults: Vec<String>, feedback: String },
    /// The answer fails constraints.
    Failed { failures: Vec<ConstraintFailure>, feedback: String },
}

/// The judgement of a final answer, and what the checks found on the way.
#[derive(Debug)]
pub(crate) struct Judged {
    pub(crate) judgement: Judgement,
    /// The remarks of suggestions.
    pub(crate) remarks: Vec<Remark>,
    pub(crate) citations: Vec<Citation>,
    pub(crate) reports: Vec<CheckReport>,
}

impl From<Judgement> for Judged {
    fn from(judgement: Judgement) -> Self {
        Self { judgement, remarks: Vec::new(), citations: Vec::new(), reports: Vec::new() }
    }
}

impl Judgement {
    /// Returns the feedback for the model, if the answer is rejected.
    pub(crate) fn feedback(&self) -> Option<String> {
        match self {
            Judgement::Accepted(_) => None,
            Judgement::Misfit { feedback, .. } | Judgement::Failed { feedback, .. } => Some(feedback.clone()),
        }
    }
}

impl Judge {
    /// Returns the judge of a run. It has the output schema, but no constraints yet.
    pub(crate) async fn new(offload: Arc<dyn Offload>, pass: &Pass) -> Result<Self, AgentError> {
        let schema = pass.request().output.clone();
        let validator = match &schema {
            Some(schema) => Some(compiled(schema, &*offload).await?),
            None => None,
        };
        Ok(Self {
            schema: schema.zip(validator),
            offload,
            definitions: Vec::new(),
            constraints: Constraints::default(),
        })
    }

    /// Loads the constraints of a pass, which may differ from those of the step before. `known` returns the agent's
    /// checks by id.
    pub(crate) fn follow(
        &mut self,
        pass: &Pass,
        known: impl Fn(&str) -> Option<Arc<dyn ConstraintCheck>>,
    ) -> Result<(), AgentError> {
        let definitions = &pass.extras().constraints;
        if *definitions != self.definitions {
            self.constraints = constraints(definitions, known)?;
            self.definitions.clone_from(definitions);
        }
        Ok(())
    }

    /// Whether a well-formed answer may still be rejected. If so, it must not be streamed before it is judged.
    pub(crate) fn asserts(&self) -> bool {
        self.constraints.asserts()
    }

    /// Judges an answer to the request of `pass`.
    pub(crate) async fn judge(&self, answer: &Arc<Message>, pass: &Pass) -> Judged {
        let text = answer.joined_text();
        let value = match &self.schema {
            None => None,
            Some((schema, validator)) => match output::checked(validator, &text, &*self.offload).await {
                Ok(value) => Some(value),
                Err(faults) => {
                    let feedback = output::feedback(&faults, schema);
                    return Judgement::Misfit { faults, feedback }.into();
                }
            },
        };
        let message = Arc::clone(answer);
        let value_of = value.clone().map(Arc::new);
        let checked = Checked { text: text.into(), value: value_of, message, pass: pass.clone() };
        let Findings { failures, suggestions, citations, reports } = self.constraints.check(&checked).await;
        let remarks = suggestions.into_iter().map(remark).collect();
        let judgement = match failures.is_empty() {
            true => Judgement::Accepted(value),
            false => Judgement::Failed { feedback: feedback(&failures), failures },
        };
        Judged { judgement, remarks, citations, reports }
    }
}

fn remark(failure: ConstraintFailure) -> Remark {
    Remark { source: format!("constraint:{}", failure.id), message: failure.feedback }
}

fn feedback(failures: &[ConstraintFailure]) -> String {
    let each: Vec<String> = failures.iter().map(|it| it.feedback.clone()).collect();
    let template = include_str!("templates/constraint_feedback.txt").trim_end();
    template.replacen("{failures}", &output::listed(&each), 1)
}

/// Compiles a schema. A large one is offloaded, so that it does not block other turns on this thread.
async fn compiled(schema: &Arc<Value>, offload: &dyn Offload) -> Result<SchemaValidator, AgentError> {
    const SMALL: usize = 16 * 1024;
    let refused = |reason: String| AgentError::Unknown { source_of: "output".to_owned(), reason };
    if schema.to_string().len() <= SMALL {
        return SchemaValidator::new(schema).map_err(|err| refused(err.to_string()));
    }
    let compile = {
        let schema = Arc::clone(schema);
        move || SchemaValidator::new(&schema)
    };
    let late = || refused("it could not be compiled in time".to_owned());
    offloaded(offload, compile).await.ok_or_else(late)?.map_err(|err| refused(err.to_string()))
}
