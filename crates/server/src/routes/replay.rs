//! Repeated turns with the same key: their events are read from the log.

use std::convert::Infallible;

use axum::body::{Body, Bytes};
use axum::response::Response;
use contexture_agent::{Event, Outcome};
use contexture_history::TurnStatus;
use contexture_session::{Records, SessionKey, StoreError, Thread};
use futures::stream;
use serde_json::Value;

use super::events::{Follow, sse};
use crate::event_log::{StoredEvent, TurnEvent, events_of};
use crate::running_turns::TurnKey;
use crate::{App, Problem};

/// How many events are read per page.
const PAGE: usize = 256;
/// How many pages are searched for a turn; an older one is replayed in short form.
const PAGES: usize = 40;

/// Responds with the events of the turn that a key began before, from its first event; if the turn still runs, as they
/// happen. Returns `None` if there is no such turn or its events can't be found.
pub(crate) async fn replay_events(
    app: &App,
    session: &SessionKey,
    thread: &Thread,
    key: &str,
) -> Result<Option<Response>, Problem> {
    let Some(outcome) = thread.outcome(key).await? else { return Ok(None) };
    let turn_key = TurnKey { thread: thread.id().clone(), turn: outcome.turn.to_string() };
    let Some((first, last)) = event_range(&*app.0.records, session, &turn_key).await? else {
        return Ok(None);
    };
    let last = (outcome.status != TurnStatus::InFlight).then_some(last);
    let follow = Follow::new(app, session.clone(), first - 1);
    Ok(Some(follow.of_finished_turn(turn_key, last).response()))
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

/// Responds with the outcome of an old turn; its events are not replayed.
pub(crate) fn replayed(session: &SessionKey, outcome: &Outcome) -> Response {
    let turn_key = TurnKey { thread: outcome.thread.clone(), turn: outcome.turn.to_string() };
    let turn_event = |event: Event| TurnEvent { session: session.clone(), turn_key: turn_key.clone(), event };
    let start = Event::TurnStart { thread: outcome.thread.to_string(), turn: outcome.turn.to_string() };
    let text = outcome.text();
    let said = (!text.is_empty()).then_some(Event::TextDelta { text });
    let end = Event::TurnEnd {
        status: outcome.status,
        reason: None,
        usage: outcome.usage,
        client_calls: outcome.client_calls.clone(),
    };
    let events = [Some(start), said, Some(end)].into_iter().flatten();
    // Without ids, since they are not events of the log.
    let frames = events.map(|event| {
        let data = turn_event(event).data();
        let kind = serde_json::from_str::<Value>(&data).ok();
        let kind = kind.and_then(|it| it["type"].as_str().map(str::to_owned)).unwrap_or_default();
        Ok::<_, Infallible>(Bytes::from(format!("event: {kind}\ndata: {data}\n\n")))
    });
    sse(Body::from_stream(stream::iter(frames.collect::<Vec<_>>())))
}
