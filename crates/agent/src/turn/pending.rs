//! What a suspended turn waits for, for display.

use contexture_history::{TurnNo, TurnStatus};
use contexture_message::ToolCall;
use contexture_session::Thread;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use super::items_since;
use super::waiting::Waiting;
use crate::AgentError;

/// What a suspended turn waits for.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Pending {
    /// The number of the turn.
    #[serde(skip)]
    pub turn: TurnNo,
    /// The prompt that began the turn; only the same prompt can continue it.
    pub prompt: String,
    /// The approvals that the turn was suspended for.
    pub approvals: Vec<PendingApproval>,
    /// Calls whose results the client has not sent yet.
    pub client_calls: Vec<ToolCall>,
}

/// A call that needs a person's decision. The token that decides it was returned once and is not stored.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct PendingApproval {
    /// The id of the request.
    pub id: String,
    /// The id of the waiting call.
    pub call_id: String,
    /// The name of the tool.
    pub tool: String,
    /// The arguments of the call.
    pub arguments: Value,
    /// Whether it is decided. The turn continues once nothing is pending.
    pub decided: bool,
}

impl Pending {
    /// Returns what the thread's suspended turn waits for, or `None` if no turn is suspended.
    pub async fn of(thread: &Thread) -> Result<Option<Pending>, AgentError> {
        let snapshot = thread.refresh().await?;
        let open = snapshot.state().open.filter(|it| it.status == TurnStatus::Suspended);
        let Some(open) = open else { return Ok(None) };
        let waiting = Waiting::read(&items_since(thread, open.began).await?);
        let approvals = waiting.approvals.iter().map(|it| PendingApproval {
            id: it.id().to_owned(),
            call_id: it.call().id.clone(),
            tool: it.call().name.clone(),
            arguments: it.call().arguments.clone(),
            decided: it.verdict.is_some(),
        });
        Ok(Some(Pending {
            turn: open.turn,
            prompt: waiting.run.prompt.clone(),
            approvals: approvals.collect(),
            client_calls: waiting.client.clone(),
        }))
    }
}
