//! Tools that the client runs: what it hands in, and what is refused.
//!
//! A call of such a tool suspends its turn like one that needs approval: durably, with all that another process needs to
//! go on. The results come with [`Agent::answer`](crate::Agent::answer), each once.

use std::collections::BTreeSet;

use contexture_history::Item;
use contexture_message::{Settings, ToolCall, ToolDefinition, ToolOutput};
use tokio_util::sync::CancellationToken;

use crate::approval::Waiting;

/// Results for calls that the client ran.
#[derive(Clone, Debug, Default)]
pub struct AnswerRequest {
    /// The results by the ids of their calls, in any order. Some may come later: the turn waits for them.
    pub results: Vec<(String, ToolOutput)>,
    /// The tools that the client offers from now on; by default those that it offered before.
    pub client_tools: Option<Vec<ToolDefinition>>,
    /// The model from now on; by default the one of the run that waits.
    pub model: Option<String>,
    /// The settings from now on; by default those of the run that waits.
    pub settings: Option<Settings>,
    /// Stops the run when it is cancelled.
    pub cancel: CancellationToken,
}

impl AnswerRequest {
    /// Returns a request with one result.
    pub fn result(call_id: impl Into<String>, output: ToolOutput) -> Self {
        Self { results: vec![(call_id.into(), output)], ..Self::default() }
    }
}

/// Returns the calls of a suspended turn that wait for the client, read from the turn's items.
///
/// ```
/// assert!(contexture_agent::waiting_calls(&[]).is_empty());
/// ```
pub fn waiting_calls(items: &[Item]) -> Vec<ToolCall> {
    Waiting::read(items).client
}

/// Why the client's tools or their results were refused. Nothing was written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ClientToolError {
    /// A tool of that name runs here, or the client names it twice.
    #[error("there is another tool `{tool}`: the client can't offer one of this name")]
    Collision {
        /// The tool.
        tool: String,
    },
    /// No turn of the thread waits for tools of the client.
    #[error("no turn of thread `{thread}` waits for results of tools")]
    NotWaiting {
        /// The thread.
        thread: String,
    },
    /// The call is unknown, or has its result.
    #[error("nothing waits for a result of call `{call}` on thread `{thread}`")]
    Unexpected {
        /// The call.
        call: String,
        /// The thread.
        thread: String,
    },
    /// The turn was begun by another prompt.
    #[error("the turn that waits was begun by prompt `{theirs}`, not by `{ours}`")]
    OtherPrompt {
        /// The prompt of the turn.
        theirs: String,
        /// The prompt that was given.
        ours: String,
    },
}

impl ClientToolError {
    /// Returns the stable code of the error.
    pub fn code(&self) -> &'static str {
        match self {
            ClientToolError::Collision { .. } => "tool_collision",
            ClientToolError::NotWaiting { .. } | ClientToolError::Unexpected { .. } => {
                "tool_result_unexpected"
            }
            ClientToolError::OtherPrompt { .. } => "tool_result_other_prompt",
        }
    }
}

/// Says why results change nothing, if so: each call gets one.
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
