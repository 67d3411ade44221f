//! The events of a session, numbered, as stored.

use std::sync::Arc;

use contexture_session::records::{DocumentKey, Record, Records, StreamKey};
use contexture_session::{SessionKey, StoreError, ThreadId};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The kind of the streams that hold events.
pub(crate) const EVENTS: &str = "events";

/// How many events are read per page.
const PAGE: usize = 256;
/// How many pages are searched for a turn; an older one is replayed in short form.
const PAGES: usize = 40;

/// The kind of the documents that mark running turns. An instance that finds one with a lost writer ends its turn.
pub(crate) const RUNNING: &str = "running";

/// The key of a turn, known once it has begun.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct TurnKey {
    pub(crate) thread: ThreadId,
    pub(crate) turn: String,
}

/// Returns the key of a document about a turn.
pub(crate) fn key_of(session: &SessionKey, kind: &str, turn_key: &TurnKey) -> DocumentKey {
    let name = format!("{}:{}", turn_key.thread, turn_key.turn);
    DocumentKey::of_session(&session.tenant, &session.session, kind, name)
}

/// Returns the session and the turn that a document is about.
pub(crate) fn turn_of(key: &DocumentKey) -> Option<(SessionKey, TurnKey)> {
    let (thread, turn) = key.name.rsplit_once(':')?;
    let session = SessionKey { tenant: key.tenant.clone(), session: key.session.clone()? };
    Some((session, TurnKey { thread: ThreadId::parse(thread).ok()?, turn: turn.to_owned() }))
}

/// Returns the stream of a session's events.
pub(crate) fn events_of(session: &SessionKey) -> StreamKey {
    StreamKey::of_session(&session.tenant, &session.session, EVENTS)
}

/// A stored event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StoredEvent {
    /// Its number in the session.
    pub(crate) number: u64,
    /// The event as JSON: its `type`, its content, and its thread and turn.
    pub(crate) data: Arc<str>,
}

/// The fields of an event that are needed to filter it.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct EventLabel {
    #[serde(rename = "type", default)]
    pub(crate) kind: String,
    #[serde(default)]
    pub(crate) thread: Option<String>,
    #[serde(default)]
    pub(crate) turn: Option<String>,
}

impl From<Record> for StoredEvent {
    fn from(record: Record) -> Self {
        Self { number: record.number, data: record.data.into() }
    }
}

impl StoredEvent {
    pub(crate) fn label(&self) -> EventLabel {
        serde_json::from_str(&self.data).unwrap_or_default()
    }

    /// Returns the event itself.
    pub(crate) fn event(&self) -> Option<contexture_agent::Event> {
        serde_json::from_str(&self.data).ok()
    }

    /// Returns the event as a server-sent event. JSON contains no line breaks.
    pub(crate) fn frame(&self) -> String {
        self.frame_with(&self.label().kind, &self.data)
    }

    pub(crate) fn frame_with(&self, kind: &str, data: &str) -> String {
        format!("id: {}\nevent: {kind}\ndata: {data}\n\n", self.number)
    }
}

/// An event on its way to the log.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct TurnEvent {
    /// The session that receives the event.
    pub(crate) session: SessionKey,
    /// The turn it is about.
    pub(crate) turn_key: TurnKey,
    /// The agent's event.
    pub(crate) event: contexture_agent::Event,
}

impl TurnEvent {
    /// Merges another event into this one if both are deltas of one text, so bursts become one event.
    pub(crate) fn absorb(&mut self, other: &TurnEvent) -> bool {
        use contexture_agent::Event::{TextDelta, ThinkingDelta};
        if self.session != other.session || self.turn_key != other.turn_key {
            return false;
        }
        match (&mut self.event, &other.event) {
            (TextDelta { text }, TextDelta { text: more })
            | (ThinkingDelta { text }, ThinkingDelta { text: more }) => {
                text.push_str(more);
                true
            }
            _ => false,
        }
    }

    /// Whether nothing of the turn follows, unless it is resumed later.
    pub(crate) fn is_end(&self) -> bool {
        matches!(self.event, contexture_agent::Event::TurnEnd { .. })
    }

    /// Returns the key of the document that marks the turn as running.
    pub(crate) fn running(&self) -> DocumentKey {
        key_of(&self.session, RUNNING, &self.turn_key)
    }

    /// Returns the event as stored. The token of an approval is sent to the client of the turn only, and never stored.
    pub(crate) fn data(&self) -> String {
        let mut object = match serde_json::to_value(&self.event) {
            Ok(Value::Object(object)) => object,
            _ => Map::new(),
        };
        if let Some(Value::Object(approval)) = object.get_mut("approval") {
            approval.remove("token");
        }
        object.insert("thread".to_owned(), Value::from(self.turn_key.thread.as_str()));
        object.insert("turn".to_owned(), self.turn_key.turn.as_str().into());
        Value::Object(object).to_string()
    }
}

/// Finds the first and the last event of a turn.
///
/// A stalled instance may publish events of a turn after another instance has published events of the next turn, so
/// turns of one thread can overlap. An event of an earlier turn before the start of this one ends the search.
pub(crate) async fn event_range(
    records: &dyn Records,
    session: &SessionKey,
    turn_key: &TurnKey,
) -> Result<Option<(u64, u64)>, StoreError> {
    let (mut range, mut before, mut has_start) = (None, None, false);
    for _ in 0..PAGES {
        let page = records.read_back(events_of(session), before, PAGE).await?;
        let is_last = page.len() < PAGE;
        before = page.last().map(|it| it.number);
        for event in page.into_iter().map(StoredEvent::from) {
            let label = event.label();
            if label.thread.as_deref() != Some(turn_key.thread.as_str()) {
                continue;
            }
            match label.turn.as_deref() {
                Some(turn) if turn == turn_key.turn => {
                    range = Some((event.number, range.map_or(event.number, |(_, last)| last)));
                    has_start |= label.kind == "turn.start";
                }
                Some(turn) if has_start && turn_no(turn) < turn_no(&turn_key.turn) => return Ok(range),
                _ => {}
            }
        }
        if is_last {
            break;
        }
    }
    Ok(range)
}

fn turn_no(turn: &str) -> u64 {
    turn.strip_prefix('t').and_then(|it| it.parse().ok()).unwrap_or(0)
}
