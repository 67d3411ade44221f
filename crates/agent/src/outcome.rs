//! What a run came to.

use std::sync::Arc;

use contexture_compose::Pass;
use contexture_history::{TurnNo, TurnStatus};
use contexture_message::{Message, ToolCall, Usage};
use contexture_session::ThreadId;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::{AgentError, ApprovalRequest, CompactionReport};

/// What a run came to.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The thread it ran on.
    pub thread: ThreadId,
    /// Its turn.
    pub turn: TurnNo,
    /// What became of the turn.
    pub status: TurnStatus,
    /// Why the loop ended.
    pub ended: Ended,
    /// The model's last message, if it said anything.
    pub message: Option<Arc<Message>>,
    /// The answer as a value, where the prompt has an output schema and the model answered.
    pub output: Option<Value>,
    /// How often the model was called.
    pub steps: u32,
    /// What all calls cost together.
    pub usage: Usage,
    /// The same in money, if the prices are known.
    pub cost: Option<f64>,
    /// What checks had to say.
    pub remarks: Vec<Remark>,
    /// What waits for a decision, with the tokens that decide it. They are told once: where a turn is replayed, or waits on
    /// after one of several decisions, see [`Pending::of`](crate::Pending::of).
    pub approvals: Vec<ApprovalRequest>,
    /// Calls that the client runs; [`Agent::answer`](crate::Agent::answer) takes their results.
    pub client_calls: Vec<ToolCall>,
    /// Every pass of the run: what the model saw, and why.
    pub passes: Vec<Pass>,
    /// What was summarised to make room.
    pub compactions: Vec<CompactionReport>,
}

impl Outcome {
    /// Returns the text of the model's last message.
    pub fn text(&self) -> String {
        self.message.as_deref().map(crate::words::text_of).unwrap_or_default()
    }

    /// Returns the answer as a type: that of the prompt's output schema, or a `String` where it has none.
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
    /// The most steps were made.
    MaxSteps(u32),
    /// A tool was called that ends the run.
    ToolCalled(String),
    /// The most tokens were used.
    MaxTokens,
    /// The most money was spent.
    MaxCost,
    /// A person must decide.
    Suspended,
    /// The client must run tools; a person may have to decide as well.
    ClientTools,
    /// The same idempotency key had its turn before; nothing was run.
    Replayed,
}

impl Ended {
    /// Returns the reason in a word, such as `answered`.
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

/// What a check had to say about a run that went on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remark {
    /// Who says it, such as `constraint:short`.
    pub source: String,
    /// What it says.
    pub message: String,
}
