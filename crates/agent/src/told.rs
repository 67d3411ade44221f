//! Events as a view of the log: what clients are told about an item.
//!
//! Most items say it themselves; the rest is recorded [beside](crate::beside) them.

use contexture_history::{Application, Body, Change, Item, TurnStatus};
use contexture_message::{Message, Part, Role, ToolCall};
use contexture_session::ThreadId;
use serde::Deserialize as _;

use crate::beside::{BESIDE, Beside, EVENT, call_event, citations_event};
use crate::event::{ApprovalRequest, Event};
use crate::turn::{Attempt, answer_in, requested_approval};

/// Tells the events of a thread's items, one item after the other.
///
/// ```
/// use contexture_agent::{Event, EventView};
/// use contexture_history::{Body, Change};
/// # use contexture_history::{Cost, Item, Seq, Timestamp, TurnNo, Visibility};
/// # use contexture_message::Tokens;
/// # use contexture_session::ThreadId;
/// # let thread = ThreadId::parse("shop")?;
/// # let cost = Cost { counter: "c".into(), tokens: Tokens(0) };
/// # let (turn, at, author) = (TurnNo(1), Timestamp(0), None);
/// # let body = Body::Change(Change::began(None));
/// # let item = Item { seq: Seq(1), turn, visibility: Visibility::NONE, cost, author, at, body };
/// let told = EventView::default().events(&thread, &item);
/// assert_eq!(told, [Event::TurnStart { thread: "shop".into(), turn: "t1".into() }]);
/// # Ok::<(), contexture_session::IdInvalid>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct EventView {
    beside: Beside,
}

impl EventView {
    /// Returns the events of an item. It always has the same number of events.
    pub fn events(&mut self, thread: &ThreadId, item: &Item) -> Vec<Event> {
        let beside = std::mem::take(&mut self.beside);
        match &item.body {
            Body::Message(message) if message.role == Role::Assistant => answer_events(message, &beside),
            Body::Message(message) => results(message, beside),
            Body::Application(Application { kind, value }) if kind == EVENT => {
                Event::deserialize(value).into_iter().collect()
            }
            Body::Application(Application { kind, value }) if kind == BESIDE => {
                self.beside = Beside::deserialize(value).unwrap_or_default();
                Vec::new()
            }
            Body::Application(_) => application_events(item),
            Body::Change(Change::TurnBegan { .. } | Change::TurnResumed) => {
                vec![Event::TurnStart { thread: thread.to_string(), turn: item.turn.to_string() }]
            }
            Body::Change(Change::TurnEnded { status, reason, code, usage }) => {
                let message = reason.clone().unwrap_or_default();
                let error = code.clone().map(|code| Event::Error { code, message });
                let (status, reason, usage) = (*status, reason.clone(), usage.unwrap_or_default());
                let end = Event::TurnEnd { status, reason, usage, client_calls: beside.client_calls };
                error.into_iter().chain([end]).collect()
            }
            Body::Change(_) | Body::SystemEvent(_) | Body::Envelope(_) | Body::Summary(_) => Vec::new(),
        }
    }
}

/// Whether an item holds a whole answer of a model: its text was streamed while it grew.
pub fn is_answer(item: &Item) -> bool {
    answer_in(&item.body).is_some()
}

/// Whether an item ends its turn.
pub fn ends_turn(item: &Item) -> Option<TurnStatus> {
    match &item.body {
        Body::Change(Change::TurnEnded { status, .. }) => Some(*status),
        _ => None,
    }
}

fn answer_events(message: &Message, beside: &Beside) -> Vec<Event> {
    let mut events = spoken_events(message, beside);
    events.extend(citations_event(message));
    events
}

fn spoken_events(message: &Message, beside: &Beside) -> Vec<Event> {
    let event = |part: &Part| match part {
        Part::Text { text, .. } if !text.is_empty() => Some(Event::TextDelta { text: text.clone() }),
        Part::Thinking(it) if !it.text.is_empty() => Some(Event::ThinkingDelta { text: it.text.clone() }),
        Part::ToolCall(call) => Some(call_event(call, beside.on_client.contains(&call.id))),
        Part::Text { .. }
        | Part::Thinking(_)
        | Part::Image(_)
        | Part::File(_)
        | Part::Evidence(_)
        | Part::ToolResult(_) => None,
    };
    message.content.iter().filter_map(event).collect()
}

fn results(message: &Message, mut beside: Beside) -> Vec<Event> {
    let event = |part: &Part| match part {
        Part::ToolResult(it) => {
            let (id, name, output) = (it.call_id.clone(), it.name.clone(), it.output.clone());
            Some(Event::ToolResult { raw: beside.raw.remove(&id), id, name, output })
        }
        _ => None,
    };
    message.content.iter().filter_map(event).collect()
}

fn application_events(item: &Item) -> Vec<Event> {
    if let Some(attempt) = Attempt::of(&item.body) {
        let spoken = || spoken_events(&attempt.message, &Beside::default());
        let shown = if attempt.is_shown { spoken() } else { Vec::new() };
        let discarded = Event::AttemptDiscarded { reason: attempt.feedback };
        return shown.into_iter().chain([discarded]).collect();
    }
    let approval = |(id, call): (String, ToolCall)| {
        let ToolCall { id: call_id, name: tool, arguments } = call;
        let approval = ApprovalRequest { id, token: String::new(), call_id, tool, arguments };
        Event::ApprovalRequired { approval }
    };
    requested_approval(&item.body).map(approval).into_iter().collect()
}
