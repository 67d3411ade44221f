//! What a suspended turn waits for, for whoever wants to show it.

use contexture_history::{TurnNo, TurnStatus};
use contexture_message::ToolCall;
use contexture_session::Thread;
use serde::Serialize;
use serde_json::Value;

use crate::AgentError;
use crate::approval::Waiting;
use crate::resume::items_since;

/// What a suspended turn waits for.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Pending {
    /// The turn.
    #[serde(skip)]
    pub turn: TurnNo,
    /// The prompt that began it; only with it the turn can go on.
    pub prompt: String,
    /// What a person must decide.
    pub approvals: Vec<PendingApproval>,
    /// Calls whose results the client has not sent yet.
    pub client_calls: Vec<ToolCall>,
}

/// A call that a person must decide about. The token that decides it was told once and is stored nowhere.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PendingApproval {
    /// Names the request.
    pub id: String,
    /// The call that waits.
    pub call_id: String,
    /// Its tool.
    pub tool: String,
    /// Its arguments.
    pub arguments: Value,
    /// Whether it was decided; the turn goes on once all are.
    pub decided: bool,
}

impl Pending {
    /// Reads what a thread's suspended turn waits for; nothing if none is.
    pub async fn of(thread: &Thread) -> Result<Option<Pending>, AgentError> {
        let snapshot = thread.refresh().await?;
        let open = snapshot.state().open.filter(|it| it.status == TurnStatus::Suspended);
        let Some(open) = open else { return Ok(None) };
        let waiting = Waiting::read(&items_since(thread, open.began).await?);
        let approvals = waiting.asked.iter().map(|it| PendingApproval {
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
