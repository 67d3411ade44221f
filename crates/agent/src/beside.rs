//! What the log keeps beside its items for the sake of events: events that have no other trace, such as warnings and
//! usage, and what an event adds to the item that follows.

use std::collections::BTreeMap;

use contexture_history::{Body, Item, Visibility};
use contexture_message::{Message, ToolCall};
use contexture_session::NewItem;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::event::{Event, RunsOn};

/// The kind of the items that record an event.
pub(crate) const EVENT: &str = "contexture.event";
/// The kind of the items that record what an event adds to the next item.
pub(crate) const BESIDE: &str = "contexture.beside";

/// Returns the item that records an event.
pub(crate) fn event_record(event: &Event) -> NewItem {
    NewItem::application(EVENT, json!(event)).visibility(Visibility::NONE)
}

/// Returns the event that an item records.
pub(crate) fn recorded_event(item: &Item) -> Option<Event> {
    match &item.body {
        Body::Application(it) if it.kind == EVENT => Event::deserialize(&it.value).ok(),
        _ => None,
    }
}

/// Whether an item records what an event adds to the next one.
pub(crate) fn is_beside(item: &Item) -> bool {
    matches!(&item.body, Body::Application(it) if it.kind == BESIDE)
}

/// What an event adds to its item.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Beside {
    /// The ids of calls that the client runs.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) on_client: Vec<String>,
    /// The raw values of tool results, by call.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) raw: BTreeMap<String, Value>,
    /// The calls that a suspended turn expects the client to run.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) client_calls: Vec<ToolCall>,
}

impl Beside {
    /// Returns the item that records it, unless there is nothing to record. It goes right before its item.
    pub(crate) fn record(&self) -> Option<NewItem> {
        let item = || NewItem::application(BESIDE, json!(self)).visibility(Visibility::NONE);
        (*self != Self::default()).then(item)
    }
}

/// Returns the event that tells what an answer cites, if it cites anything.
pub(crate) fn citations_event(message: &Message) -> Option<Event> {
    let citations = message.citations();
    (!citations.is_empty()).then_some(Event::Citations { citations })
}

/// Returns the event of a call.
pub(crate) fn call_event(call: &ToolCall, is_of_client: bool) -> Event {
    let ToolCall { id, name, arguments } = call.clone();
    let runs = if is_of_client { RunsOn::Client } else { RunsOn::Server };
    Event::ToolCall { id, name, arguments, runs }
}
