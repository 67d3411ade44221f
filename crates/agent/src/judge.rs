//! Judges a final answer: against the output schema first, then against the constraints.
//!
//! An answer is accepted or retried with feedback, a bounded number of times and within the limits of the run; after
//! that the run fails with the last answer. All failed asserts are reported in one message. Failed suggestions become
//! remarks and change nothing.

use std::sync::Arc;

use contexture_compose::{Constraint, Pass, SchemaValidator};
use contexture_message::Answer;
use serde_json::Value;

use crate::agent::Inner;
use crate::checks::{Checked, Constraints, constraints};
use crate::offload::{Offload, offloaded};
use crate::outcome::Remark;
use crate::{AgentError, ConstraintFailure, output};

/// The checks of a run, and how often answers have failed them.
pub(crate) struct Judge {
    schema: Option<(Arc<Value>, SchemaValidator)>,
    offload: Arc<dyn Offload>,
    definitions: Vec<Constraint>,
    constraints: Constraints,
    repairs: Tries,
    retries: Tries,
}

/// The verdict about a final answer.
pub(crate) enum Judged {
    /// The answer is accepted, with its value if there is a schema.
    Stands(Option<Value>),
    /// The model must try again, with this feedback.
    Again(String),
}

impl Judge {
    /// Returns the judge of a run. It has the output schema, but no constraints yet.
    pub(crate) async fn new(agent: &Inner, pass: &Pass) -> Result<Self, AgentError> {
        let config = &agent.config;
        let schema = pass.request().output.clone();
        let validator = match &schema {
            Some(schema) => Some(compiled(schema, &*agent.offload).await?),
            None => None,
        };
        Ok(Self {
            schema: schema.zip(validator),
            offload: Arc::clone(&agent.offload),
            definitions: Vec::new(),
            constraints: Constraints::default(),
            repairs: Tries::new(config.output_repairs),
            retries: Tries::new(config.constraint_retries),
        })
    }

    /// Loads the constraints of a pass, which may differ from those of the step before.
    pub(crate) fn follow(&mut self, agent: &Inner, pass: &Pass) -> Result<(), AgentError> {
        let definitions = &pass.extras().constraints;
        if *definitions != self.definitions {
            let known = |id: &str| agent.constraints.get(id).cloned();
            self.constraints = constraints(definitions, known)?;
            self.definitions.clone_from(definitions);
        }
        Ok(())
    }

    /// Whether a well-formed answer may still be rejected. If so, it must not be streamed before it is judged.
    pub(crate) fn asserts(&self) -> bool {
        self.constraints.asserts()
    }

    /// Judges an answer and returns the remarks of suggestions. If no further step is allowed (`may_repeat`), a
    /// rejected answer is an error.
    pub(crate) async fn judge(
        &mut self,
        answer: &Answer,
        may_repeat: bool,
    ) -> Result<(Judged, Vec<Remark>), AgentError> {
        let text = answer.joined_text();
        let value = match &self.schema {
            None => None,
            Some((schema, validator)) => match output::checked(validator, &text, &*self.offload).await {
                Ok(value) => Some(value),
                Err(faults) => {
                    let feedback = output::feedback(&faults, schema);
                    let again = |attempts| AgentError::OutputInvalid { faults, attempts, output: text };
                    return self.repairs.again(may_repeat, feedback, again).map(|it| (it, Vec::new()));
                }
            },
        };
        let message = Arc::new(answer.message.clone());
        let checked = Checked { text: text.as_str().into(), value: value.clone().map(Arc::new), message };
        let findings = self.constraints.check(&checked).await;
        let remarks = findings.suggestions.into_iter().map(remark).collect();
        if findings.failures.is_empty() {
            return Ok((Judged::Stands(value), remarks));
        }
        let failures = findings.failures;
        let feedback = feedback(&failures);
        let again = |attempts| AgentError::Constraints { failures, attempts, output: text };
        self.retries.again(may_repeat, feedback, again).map(|it| (it, remarks))
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

/// How often an answer was retried, and the limit.
struct Tries {
    made: u32,
    most: u32,
}

impl Tries {
    fn new(most: u32) -> Self {
        Self { made: 0, most }
    }

    /// Lets the model try again, or fails once the limit is reached.
    fn again(
        &mut self,
        may_repeat: bool,
        feedback: String,
        give_up: impl FnOnce(u32) -> AgentError,
    ) -> Result<Judged, AgentError> {
        if self.made >= self.most || !may_repeat {
            return Err(give_up(self.made + 1));
        }
        self.made += 1;
        Ok(Judged::Again(feedback))
    }
}
