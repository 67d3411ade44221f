//! The errors of a run.

use contexture_message::ErrorCode;
use contexture_model::ModelError;
use contexture_session::SessionError;

/// Why a run failed. Everything up to then is in the log, unless the log can't be written.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// The prompt can't be resolved.
    #[error(transparent)]
    Compose(#[from] contexture_compose::Error),
    /// The thread can't be read or written.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// The end of the turn could not be recorded. The turn is open until another writer closes it, or another writer
    /// took it over and closed it.
    #[error("the end of the turn is not on record: {0}")]
    Unrecorded(#[source] SessionError),
    /// The model did not answer.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// A decision was rejected.
    #[error(transparent)]
    Approval(#[from] ApprovalError),
    /// The client's tools or results were rejected.
    #[error(transparent)]
    ClientTool(#[from] ClientToolError),
    /// The run names a tool that the agent does not have. Nothing was written.
    #[error("the agent has no tool `{tool}`")]
    NoSuchTool {
        /// The name of the tool.
        tool: String,
    },
    /// The run names a knowledge base that does not exist. Nothing was written.
    #[error("there is no knowledge base `{base}`")]
    NoSuchBase {
        /// The name of the base.
        base: String,
    },
    /// The run names a skill that does not exist. Nothing was written.
    #[error("there is no skill `{skill}`")]
    NoSuchSkill {
        /// The name of the skill.
        skill: String,
    },
    /// A skill can't be loaded. Nothing was written.
    #[error("skill `{skill}`: {reason}")]
    SkillUnreadable {
        /// The name of the skill.
        skill: String,
        /// What its source says.
        reason: String,
    },
    /// The request breaks a rule. Nothing was written.
    #[error("`{at}` of the request: {reason}")]
    RequestInvalid {
        /// The field.
        at: String,
        /// The rule it breaks.
        reason: String,
    },
    /// The entries of the caller can't be read. Nothing was written.
    #[error("the entries of the caller can't be read: {0}")]
    Entries(#[source] SessionError),
    /// The prompt offers a tool that nothing can run. The model was not called, and nothing was written.
    #[error(
        "nothing can run the tool `{tool}` that the prompt offers: give it with its function, or as the agent's executor"
    )]
    NoExecutor {
        /// The name of the tool.
        tool: String,
    },
    /// Neither the run, the thread, the prompt nor the configuration names a model.
    #[error("no model is named: neither by the call, nor by the thread, the prompt or the configuration")]
    NoModel,
    /// A guardrail blocked the input or the output.
    #[error("guardrail `{id}` blocked the {side}: {reason}")]
    Blocked {
        /// The id of the guardrail.
        id: String,
        /// `input` or `output`.
        side: &'static str,
        /// The reason that the guardrail gave.
        reason: String,
    },
    /// The answer still fails constraints after all retries.
    #[error("the answer fails {} after {attempts} attempts", listed(.failures))]
    Constraints {
        /// The failed constraints.
        failures: Vec<ConstraintFailure>,
        /// How often the model tried.
        attempts: u32,
        /// The last answer.
        output: String,
    },
    /// The answer still does not match its schema after all repairs.
    #[error("the answer does not fit its schema after {attempts} attempts: {}", .faults.join("; "))]
    OutputInvalid {
        /// What is wrong with it.
        faults: Vec<String>,
        /// How often the model tried.
        attempts: u32,
        /// The last answer.
        output: String,
    },
    /// The run ended without an answer.
    #[error("the run ended without an answer: {ended}")]
    NoAnswer {
        /// Why it ended, such as `suspended`.
        ended: &'static str,
    },
    /// A check, guardrail, middleware or schema is unknown or invalid.
    #[error("{source_of}: {reason}")]
    Unknown {
        /// What it is, such as `constraint:short`.
        source_of: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A model, check or entry panicked. The panic message is left out, because it may contain anything.
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
    pub fn code(&self) -> ErrorCode {
        match self {
            AgentError::Compose(err) => err.code(),
            AgentError::Session(err) | AgentError::Unrecorded(err) | AgentError::Entries(err) => err.code(),
            AgentError::RequestInvalid { .. } => ErrorCode::BodyInvalid,
            AgentError::Model(err) => err.kind().code(),
            AgentError::Approval(err) => err.code(),
            AgentError::ClientTool(err) => err.code(),
            AgentError::NoSuchTool { .. } | AgentError::NoExecutor { .. } => ErrorCode::ToolUnknown,
            AgentError::NoSuchBase { .. } | AgentError::NoSuchSkill { .. } => ErrorCode::UnknownEntry,
            AgentError::SkillUnreadable { .. } => ErrorCode::FileInvalid,
            AgentError::NoModel => ErrorCode::ModelMissing,
            AgentError::Blocked { .. } => ErrorCode::GuardrailBlocked,
            AgentError::Constraints { .. } => ErrorCode::ConstraintFailed,
            AgentError::OutputInvalid { .. } => ErrorCode::OutputInvalid,
            AgentError::NoAnswer { .. } => ErrorCode::NoAnswer,
            AgentError::Unknown { .. } => ErrorCode::CheckUnknown,
            AgentError::Panicked => ErrorCode::Panicked,
            AgentError::Cancelled => ErrorCode::Cancelled,
        }
    }

    /// Whether the run was cancelled, as opposed to failed.
    pub fn is_cancelled(&self) -> bool {
        matches!(self, AgentError::Cancelled)
    }
}

/// Why a decision was rejected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ApprovalError {
    /// No turn of the thread waits for this approval.
    #[error("nothing waits for approval `{approval}` on thread `{thread}`")]
    NotWaiting {
        /// The id of the request.
        approval: String,
        /// The id of the thread.
        thread: String,
    },
    /// The token does not belong to the request.
    #[error("the token does not belong to approval `{approval}`")]
    Forged {
        /// The id of the request.
        approval: String,
    },
    /// The request was already decided.
    #[error("approval `{approval}` is already decided")]
    Decided {
        /// The id of the request.
        approval: String,
    },
    /// Another prompt began the turn.
    #[error("the suspended turn belongs to prompt `{theirs}`, not to `{ours}`")]
    OtherPrompt {
        /// The prompt that began the turn.
        theirs: String,
        /// The prompt that was given.
        ours: String,
    },
}

impl ApprovalError {
    /// Returns the stable code of the error.
    pub fn code(&self) -> ErrorCode {
        match self {
            ApprovalError::NotWaiting { .. } => ErrorCode::ApprovalNotWaiting,
            ApprovalError::Forged { .. } => ErrorCode::ApprovalForged,
            ApprovalError::Decided { .. } => ErrorCode::ApprovalDecided,
            ApprovalError::OtherPrompt { .. } => ErrorCode::ApprovalOtherPrompt,
        }
    }
}

/// Why the client's tools or results were rejected. Nothing was written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ClientToolError {
    /// Another tool has that name, or the client offers it twice.
    #[error("there is another tool `{tool}`: the client can't offer one of this name")]
    Collision {
        /// The name of the tool.
        tool: String,
    },
    /// No turn of the thread waits for client tools.
    #[error("no turn of thread `{thread}` waits for results of tools")]
    NotWaiting {
        /// The id of the thread.
        thread: String,
    },
    /// The call is unknown or already has its result.
    #[error("nothing waits for a result of call `{call}` on thread `{thread}`")]
    Unexpected {
        /// The id of the call.
        call: String,
        /// The id of the thread.
        thread: String,
    },
    /// Another prompt began the turn.
    #[error("the suspended turn belongs to prompt `{theirs}`, not to `{ours}`")]
    OtherPrompt {
        /// The prompt that began the turn.
        theirs: String,
        /// The prompt that was given.
        ours: String,
    },
}

impl ClientToolError {
    /// Returns the stable code of the error.
    pub fn code(&self) -> ErrorCode {
        match self {
            ClientToolError::Collision { .. } => ErrorCode::ToolCollision,
            ClientToolError::NotWaiting { .. } | ClientToolError::Unexpected { .. } => {
                ErrorCode::ToolResultUnexpected
            }
            ClientToolError::OtherPrompt { .. } => ErrorCode::ToolResultOtherPrompt,
        }
    }
}

/// A constraint that an answer fails.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConstraintFailure {
    /// The id of the constraint.
    pub id: String,
    /// What is wrong with the answer, as reported to the model.
    pub feedback: String,
}
