//! Why a run did not come to its end.

use contexture_model::ModelError;
use contexture_session::SessionError;

use crate::{ApprovalError, ClientToolError, ConstraintFailure};

/// Why a run did not come to its end. Whatever was said until then is in the log, unless the log can't be written.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// The prompt can't be resolved.
    #[error(transparent)]
    Compose(#[from] contexture_compose::Error),
    /// The thread can't be read or written.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// The end of the turn could not be recorded, so the turn is open until another writer closes it; or it was taken over,
    /// and another writer has closed it.
    #[error("the end of the turn is not on record: {0}")]
    Unrecorded(#[source] SessionError),
    /// The model did not answer.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// A decision was refused.
    #[error(transparent)]
    Approval(#[from] ApprovalError),
    /// The client's tools or their results were refused.
    #[error(transparent)]
    ClientTool(#[from] ClientToolError),
    /// The run names a tool that the agent does not have. Nothing was written.
    #[error("the agent has no tool `{tool}`")]
    NoSuchTool {
        /// The tool.
        tool: String,
    },
    /// The prompt offers a tool that nothing can run. The model was not called, and nothing was written.
    #[error(
        "nothing can run the tool `{tool}` that the prompt offers: give it with its function, or as the agent's executor"
    )]
    NoExecutor {
        /// The tool.
        tool: String,
    },
    /// Nothing says which model to call.
    #[error("no model is named: neither by the call, nor by the thread, the prompt or the configuration")]
    NoModel,
    /// A guardrail blocked what went in or came out.
    #[error("guardrail `{id}` blocked the {side}: {reason}")]
    Blocked {
        /// The guardrail.
        id: String,
        /// `input` or `output`.
        side: &'static str,
        /// Why.
        reason: String,
    },
    /// The answer still fails checks after all retries.
    #[error("the answer fails {} after {attempts} attempts", listed(.failures))]
    Constraints {
        /// What failed.
        failures: Vec<ConstraintFailure>,
        /// How often the model tried.
        attempts: u32,
        /// The last answer.
        output: String,
    },
    /// The answer still does not fit its schema after all repairs.
    #[error("the answer does not fit its schema after {attempts} attempts: {}", .faults.join("; "))]
    OutputInvalid {
        /// What is wrong with it.
        faults: Vec<String>,
        /// How often the model tried.
        attempts: u32,
        /// The last answer.
        output: String,
    },
    /// The run ended without the answer that was asked for.
    #[error("the run ended without an answer: {ended}")]
    NoAnswer {
        /// Why it ended, such as `suspended`.
        ended: &'static str,
    },
    /// A check, guardrail, middleware or schema that nobody can run.
    #[error("{source_of}: {reason}")]
    Unknown {
        /// What it is, such as `constraint:short`.
        source_of: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A model, check or entry panicked. What it said then is not told: it may quote anything.
    #[error("a model, check or entry panicked")]
    Panicked,
    /// The run was cancelled.
    #[error("the run was cancelled")]
    Cancelled,
}

fn listed(failures: &[ConstraintFailure]) -> String {
    let each = failures.iter().map(|it| format!("constraint `{}` ({})", it.id, it.feedback));
    each.collect::<Vec<_>>().join(", ")
}

impl AgentError {
    /// Returns the stable code of the error.
    pub fn code(&self) -> &'static str {
        match self {
            AgentError::Compose(err) => err.code(),
            AgentError::Session(err) | AgentError::Unrecorded(err) => err.code(),
            AgentError::Model(err) => err.kind().code(),
            AgentError::Approval(err) => err.code(),
            AgentError::ClientTool(err) => err.code(),
            AgentError::NoSuchTool { .. } | AgentError::NoExecutor { .. } => "tool_unknown",
            AgentError::NoModel => "model_missing",
            AgentError::Blocked { .. } => "guardrail_blocked",
            AgentError::Constraints { .. } => "constraint_failed",
            AgentError::OutputInvalid { .. } => "output_invalid",
            AgentError::NoAnswer { .. } => "no_answer",
            AgentError::Unknown { .. } => "check_unknown",
            AgentError::Panicked => "panicked",
            AgentError::Cancelled => "cancelled",
        }
    }

    /// Whether a stop was asked for, as opposed to something that broke.
    pub fn is_cancelled(&self) -> bool {
        matches!(self, AgentError::Cancelled)
    }
}
