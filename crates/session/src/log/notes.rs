//! Notes that the engine itself keeps in a log: idempotency keys, requests to stop, and messages prepended to the
//! history.

use std::sync::Arc;

use contexture_history::{Application, Body, Change, Cost, Turn, Visibility};
use contexture_message::{Message, Tokens};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::NewItem;

/// The note that takes a key where no turn begins. Only the newest is remembered; the store knows all keys.
const ADDED: &str = "contexture.added";

/// Returns the record that a key is taken, where no turn begins with it.
pub(crate) fn taken(key: &str) -> NewItem {
    NewItem::note(ADDED, Some(Value::from(key)))
}

/// Returns the key that a change takes without beginning a turn.
pub(crate) fn key_of(change: &Change) -> Option<&str> {
    match change {
        Change::Noted { key, value: Some(value) } if key == ADDED => value.as_str(),
        Change::Noted { key, value: Some(value) } if key == PREPENDED => value.get(0)?.get("key")?.as_str(),
        _ => None,
    }
}

/// The kind of the items with which anyone asks the writer of a turn to stop.
const STOP: &str = "contexture.stop";

/// Returns the request to stop the turn that it is added to.
pub(crate) fn stop_request() -> NewItem {
    NewItem::application(STOP, Value::Null).visibility(Visibility::NONE)
}

/// Whether an item asks for a stop.
pub(crate) fn is_stop_request(body: &Body) -> bool {
    matches!(body, Body::Application(Application { kind, .. }) if kind == STOP)
}

/// The note with the prepended messages.
pub(crate) const PREPENDED: &str = "contexture.prepended";

/// The messages of one prepend call.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Prepended {
    pub(crate) key: String,
    /// The name of the counter that counted the messages.
    pub(crate) counter: Arc<str>,
    pub(crate) messages: Vec<CountedMessage>,
}

#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct CountedMessage {
    pub(crate) message: Message,
    pub(crate) tokens: Tokens,
}

/// Reads the note with the prepended messages. A foreign note is ignored.
pub(crate) fn read_prepended(note: &Value) -> Vec<Prepended> {
    Vec::deserialize(note).unwrap_or_default()
}

/// Returns the turn made of the prepended messages, unless there are none.
pub(crate) fn prepended_turn(note: &Value) -> Option<Arc<Turn>> {
    let messages = read_prepended(note).into_iter().flat_map(|Prepended { counter, messages, .. }| {
        let cost = move |tokens| Cost { counter: Arc::clone(&counter), tokens };
        messages.into_iter().map(move |it| (it.message, cost(it.tokens)))
    });
    let turn = Turn::leading(messages);
    (!turn.messages().is_empty()).then(|| Arc::new(turn))
}
