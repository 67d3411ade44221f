//! The outcome of a run.

use std::sync::Arc;

use contexture_compose::Pass;
use contexture_history::{TurnNo, TurnStatus};
use contexture_message::{Citation, Message, ToolCall, Usage};
use contexture_session::ThreadId;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::AgentError;
use crate::event::{ApprovalRequest, CheckReport, CompactionReport, Remark};

/// The outcome of a run.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The id of the thread.
    pub thread: ThreadId,
    /// The number of the turn.
    pub turn: TurnNo,
    /// The status of the turn.
    pub status: TurnStatus,
    /// Why the loop ended.
    pub ended: Ended,
    /// The model's last message, if there is one.
    pub message: Option<Arc<Message>>,
    /// The structured answer, if the prompt has an output schema and the model answered.
    pub output: Option<Value>,
    /// What the answer cites, with spans in its text. The message has the same citations in its parts.
    pub citations: Vec<Citation>,
    /// What checks report about the answer.
    pub reports: Vec<CheckReport>,
    /// The number of model calls.
    pub steps: u32,
    /// The total usage of all calls.
    pub usage: Usage,
    /// The total cost, if the prices are known.
    pub cost: Option<f64>,
    /// Warnings of checks and of the engine.
    pub remarks: Vec<Remark>,
    /// The pending approvals with the tokens that decide them. They are returned once: for a replayed turn, or one
    /// that still waits after one of several decisions, see [`Pending::of`](crate::Pending::of).
    pub approvals: Vec<ApprovalRequest>,
    /// The calls that the client must run; pass their results to [`Agent::answer`](crate::Agent::answer).
    pub client_calls: Vec<ToolCall>,
    /// Every pass of the run: what the model saw and why.
    pub passes: Vec<Pass>,
    /// The compactions made for the run.
    pub compactions: Vec<CompactionReport>,
}

impl Outcome {
    /// Returns the text of the model's last message.
    pub fn text(&self) -> String {
        self.message.as_deref().map(Message::joined_text).unwrap_or_default()
    }

    /// Deserializes the answer: into the type of the prompt's output schema, or a `String` if it has none.
    pub fn parse<T: DeserializeOwned>(&self) -> Result<T, AgentError> {
        if self.message.is_none() || !matches!(self.ended, Ended::Answered | Ended::Replayed) {
            return Err(AgentError::NoAnswer { ended: self.ended.as_str() });
        }
        let value = self.output.clone().unwrap_or_else(|| Value::String(self.text()));
        serde_json::from_value(value).map_err(|err| AgentError::OutputInvalid {
            faults: vec![err.to_string()],
            attempts: self.steps,
            output: self.text(),
        })
    }
}

/// Why the loop ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The model answered.
    Answered,
    /// The run reached this limit on steps.
    MaxSteps(u32),
    /// The model called this tool, which ends the run.
    ToolCalled(String),
    /// The run reached its token limit.
    MaxTokens,
    /// The run reached its cost limit.
    MaxCost,
    /// A person must decide about a call.
    Suspended,
    /// The client must run tools. A person may have to decide as well.
    ClientTools,
    /// An earlier run with the same idempotency key had this outcome; nothing ran.
    Replayed,
}

impl Ended {
    /// Returns the stable name of the reason, such as `answered`.
    pub fn as_str(&self) -> &'static str {
        match self {
            Ended::Answered => "answered",
            Ended::MaxSteps(_) => "max_steps",
            Ended::ToolCalled(_) => "tool_called",
            Ended::MaxTokens => "max_tokens",
            Ended::MaxCost => "max_cost",
            Ended::Suspended => "suspended",
            Ended::ClientTools => "client_tools",
            Ended::Replayed => "replayed",
        }
    }
}
