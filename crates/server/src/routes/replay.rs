//! Repeated turns with the same key: their events are read from the log.

use std::convert::Infallible;

use axum::body::{Body, Bytes};
use axum::response::Response;
use contexture_agent::{Event, Outcome};
use contexture_history::TurnStatus;
use contexture_session::{SessionKey, Thread};
use futures::stream;
use serde_json::Value;

use super::events::{Follow, sse};
use crate::events::log::{TurnEvent, TurnKey, event_range};
use crate::{App, Problem};

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
