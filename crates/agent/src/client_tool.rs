//! Tools that the client runs: their results, and the errors about them.
//!
//! A call to such a tool suspends its turn like one that needs approval: durably, with everything another process
//! needs to continue. The results arrive with [`Agent::answer`](crate::Agent::answer), each once.

use std::collections::BTreeSet;

use contexture_history::Item;
use contexture_message::{ErrorCode, Settings, ToolCall, ToolDefinition, ToolOutput};
use tokio_util::sync::CancellationToken;

use crate::approval::Waiting;

/// The results of calls that the client ran.
#[derive(Clone, Debug, Default)]
pub struct AnswerRequest {
    /// The results by call id, in any order. Some may follow later: the turn waits for them.
    pub results: Vec<(String, ToolOutput)>,
    /// The tools that the client offers from now on; by default the same as before.
    pub client_tools: Option<Vec<ToolDefinition>>,
    /// The model to use from now on; by default that of the suspended run.
    pub model: Option<String>,
    /// The settings to use from now on; by default those of the suspended run.
    pub settings: Option<Settings>,
    /// Stops the run when cancelled.
    pub cancel: CancellationToken,
}

impl AnswerRequest {
    /// Returns a request with one result.
    pub fn result(call_id: impl Into<String>, output: ToolOutput) -> Self {
        Self { results: vec![(call_id.into(), output)], ..Self::default() }
    }
}

/// Returns the calls of a suspended turn that the client must run, read from the turn's items.
///
/// ```
/// assert!(contexture_agent::waiting_calls(&[]).is_empty());
/// ```
pub fn waiting_calls(items: &[Item]) -> Vec<ToolCall> {
    Waiting::read(items).client
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
    #[error("the turn that waits was begun by prompt `{theirs}`, not by `{ours}`")]
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

/// Returns an error if the turn does not wait for these results, or has two for the same call.
pub(crate) fn admit(
    waiting: &Waiting,
    results: &[(String, ToolOutput)],
    thread: &str,
) -> Result<(), ClientToolError> {
    if waiting.run.client_calls.is_empty() {
        return Err(ClientToolError::NotWaiting { thread: thread.to_owned() });
    }
    let mut missing: BTreeSet<&str> = waiting.client.iter().map(|it| it.id.as_str()).collect();
    match results.iter().find(|(call, _)| !missing.remove(call.as_str())) {
        Some((call, _)) => Err(ClientToolError::Unexpected { call: call.clone(), thread: thread.to_owned() }),
        None => Ok(()),
    }
}
