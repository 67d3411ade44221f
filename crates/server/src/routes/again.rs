//! Turns that are asked for again with the same key: their events come from the log.

use std::convert::Infallible;

use axum::body::{Body, Bytes};
use axum::response::Response;
use contexture_agent::{Event, Outcome};
use contexture_history::TurnStatus;
use contexture_session::{Records, SessionKey, StoreError, Thread};
use futures::stream;
use serde_json::Value;

use super::events::{Follow, sse};
use crate::runs::Began;
use crate::told::{Telling, Told, events_of};
use crate::{App, Problem};

/// How many events are read at once.
const PAGE: usize = 256;
/// How many pages are looked through for a turn; one that is older is told in short.
const PAGES: usize = 40;

/// Answers with the events of the turn that a key began before, from its first one on; if it still runs, as they come.
/// Nothing if there is no such turn, or its events are not to be found.
pub(crate) async fn told_again(
    app: &App,
    session: &SessionKey,
    thread: &Thread,
    key: &str,
) -> Result<Option<Response>, Problem> {
    let Some(outcome) = thread.outcome(key).await? else { return Ok(None) };
    let began = Began { thread: thread.id().clone(), turn: outcome.turn.to_string() };
    let Some((first, last)) = place_of(&*app.0.records, session, &began).await? else { return Ok(None) };
    let last = (outcome.status != TurnStatus::InFlight).then_some(last);
    let follow = Follow::new(app, session.clone(), first - 1);
    Ok(Some(follow.of_told_turn(began, last).response()))
}

/// Finds the first and the last event of a turn.
///
/// An instance that was held up tells what it has of a turn behind what another one told of the next: turns of one thread can
/// be told at the same time. What stands before the start of a turn and is of an earlier one ends the search.
pub(crate) async fn place_of(
    records: &dyn Records,
    session: &SessionKey,
    began: &Began,
) -> Result<Option<(u64, u64)>, StoreError> {
    let (mut place, mut before, mut has_start) = (None, None, false);
    for _ in 0..PAGES {
        let page = records.read_back(events_of(session), before, PAGE).await?;
        let is_last = page.len() < PAGE;
        before = page.last().map(|it| it.number);
        for told in page.into_iter().map(Told::from) {
            let label = told.label();
            if label.thread.as_deref() != Some(began.thread.as_str()) {
                continue;
            }
            match label.turn.as_deref() {
                Some(turn) if turn == began.turn => {
                    place = Some((told.number, place.map_or(told.number, |(_, last)| last)));
                    has_start |= label.kind == "turn.start";
                }
                Some(turn) if has_start && turn_no(turn) < turn_no(&began.turn) => return Ok(place),
                _ => {}
            }
        }
        if is_last {
            break;
        }
    }
    Ok(place)
}

fn turn_no(turn: &str) -> u64 {
    turn.strip_prefix('t').and_then(|it| it.parse().ok()).unwrap_or(0)
}

/// Answers with what a turn came to that had its time before: its events are not told again.
pub(crate) fn replayed(session: &SessionKey, outcome: &Outcome) -> Response {
    let began = Began { thread: outcome.thread.clone(), turn: outcome.turn.to_string() };
    let telling = |event: Event| Telling { session: session.clone(), began: began.clone(), event };
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
    // Without ids: they are no events of the log.
    let frames = events.map(|event| {
        let data = telling(event).data();
        let kind = serde_json::from_str::<Value>(&data).ok();
        let kind = kind.and_then(|it| it["type"].as_str().map(str::to_owned)).unwrap_or_default();
        Ok::<_, Infallible>(Bytes::from(format!("event: {kind}\ndata: {data}\n\n")))
    });
    sse(Body::from_stream(stream::iter(frames.collect::<Vec<_>>())))
}
