//! What a log is made of.
#![expect(dead_code, reason = "they describe, and are never made")]

use serde_json::Value;
use utoipa::ToSchema;

use super::message::Message;

/// The status of a turn.
#[derive(ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum TurnStatus {
    /// It runs.
    InFlight,
    /// It completed.
    Completed,
    /// Something broke.
    Failed,
    /// Someone stopped it, or its server was lost.
    Interrupted,
    /// It waits for an answer from outside.
    Suspended,
}

/// An item, or, in the view `history`, a turn.
#[derive(ToSchema)]
#[serde(untagged)]
pub(crate) enum ItemOrTurn {
    Item(LogItem),
    Turn(HistoryTurn),
}

/// One entry of a thread's log.
#[derive(ToSchema)]
pub(crate) struct LogItem {
    /// `THREAD:SEQ`.
    id: String,
    /// Its position in the log.
    seq: u64,
    /// The turn it belongs to, such as `t7`.
    turn: String,
    /// `user`, `assistant`, `tool`, `system_event`, `envelope`, `summary`, `application`, `turn_began`, `turn_ended`,
    /// …
    kind: String,
    /// When it was appended.
    #[schema(format = DateTime)]
    at: String,
    /// What it costs the model, counted once.
    tokens: u64,
    /// The counter.
    counter: String,
    /// Who can see it.
    visibility: Visibility,
    /// The author, if the application names one.
    #[schema(required)]
    author: Option<String>,
    /// What it says: one field, such as `message`, with the content.
    #[schema(value_type = Object, example = json!({"message": {"role": "user", "content": "Hello"}}))]
    body: Value,
}

/// Who can see an item.
#[derive(ToSchema)]
pub(crate) struct Visibility {
    /// What a user interface shows.
    client: bool,
    /// What the model sees.
    history: bool,
}

/// A turn as the model reads it.
#[derive(ToSchema)]
pub(crate) struct HistoryTurn {
    /// Such as `t7`.
    turn: String,
    /// The status of the turn.
    status: TurnStatus,
    /// What the model reads of it.
    messages: Vec<Message>,
}
