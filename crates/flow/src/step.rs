//! What a node's step comes to, and what it asks of the outside.

use std::sync::Arc;

use contexture_agent::{AgentError, ToolCallError};
use contexture_message::ErrorCode;
use contexture_session::{SessionError, StoreError, ThreadId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{PortValue, PortValues};

/// The result of one step of a node.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// It is done; an output that is not named gives nothing.
    Done(PortValues),
    /// It waits for an answer, and is called again with it.
    Wait(Question),
    /// It needs lazy inputs, and is called again with them.
    Pull(Vec<String>),
}

impl Step {
    /// Returns what a node gives.
    pub fn done<N: Into<String>>(outputs: impl IntoIterator<Item = (N, PortValue)>) -> Self {
        Step::Done(outputs.into_iter().map(|(name, value)| (name.into(), value)).collect())
    }
}

/// A question to a person or program outside the run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Question {
    /// The kind of answer.
    pub kind: QuestionKind,
    /// The question as text.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// The JSON Schema that an answer fits.
    pub schema: Value,
    /// The subject, such as the tool call that needs approval.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub about: Value,
}

/// The kind of answer that a node waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum QuestionKind {
    /// Free input.
    Input,
    /// Whether a tool may be called.
    Approval,
}

/// The answer to a question.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Answer {
    /// The id of the wait.
    pub wait: String,
    /// The question.
    pub asked: Question,
    /// The value of the answer.
    pub value: Value,
}

/// Why a node failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error, JsonSchema)]
#[error("{message}")]
pub struct NodeError {
    /// A stable code. `store_unavailable` means that the run's store can't be reached: the driver leaves the run, and
    /// the node is repeated when the run is driven again. Do not use it for other errors.
    pub code: String,
    /// The error message.
    pub message: String,
}

impl NodeError {
    /// Returns an error with a code and a message.
    pub fn new(code: impl Into<String>, message: impl Into<String>) -> Self {
        Self { code: code.into(), message: message.into() }
    }

    pub(crate) fn cancelled() -> Self {
        Self::new(ErrorCode::Cancelled, "the run was cancelled")
    }
}

macro_rules! node_error_from {
    ($($err:ty),*) => {
        $(
            impl From<$err> for NodeError {
                fn from(err: $err) -> Self {
                    Self::new(err.code(), err.to_string())
                }
            }
        )*
    };
}

node_error_from!(AgentError, SessionError, StoreError, ToolCallError);

/// Names a turn of a thread.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TurnRef {
    /// The thread's id.
    pub thread: ThreadId,
    /// The turn, such as `t1`.
    pub turn: Arc<str>,
}
