//! The events of a session, as a stream that can be taken up again behind any of them.
//!
//! A connection knows one thing: the number of the event it sent last. It reads what comes after it, from what is at hand
//! or from the store, as fast as its client takes it, and waits when there is nothing. So a slow client costs no memory and
//! loses nothing, and another instance can go on where one broke off.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::Response;
use contexture_agent::{AgentError, Event, Outcome};
use contexture_session::records::StreamKey;
use contexture_session::{SessionId, SessionKey};
use futures::stream;
use serde::Deserialize;
use serde_json::Value;
use tokio::sync::oneshot;
use tokio::time::Instant;
use tokio_util::sync::DropGuard;
use utoipa::IntoParams;

use crate::input::{Asked, Id, shown};
use crate::openapi::params::SessionPath;
use crate::openapi::refusals::{Expired, NotThere, Refused};
use crate::openapi::shapes;
use crate::runs::{Began, Tokens};
use crate::scribe::events_after;
use crate::told::{Telling, Told, events_of};
use crate::{App, Caller, Problem};

/// How many events are read at once.
const PAGE: usize = 256;

/// Where a stream begins.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct EventsQuery {
    /// Only events after this one: a number, or `latest` for those to come. `Last-Event-ID` wins. By default everything
    /// that is kept.
    #[param(pattern = "^([0-9]{1,15}|latest)$", nullable = false)]
    after: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum After {
    Number(u64),
    Latest,
}

/// Follow the events of a session.
///
/// Each frame has an `id`; with it as `Last-Event-ID` the stream goes on exactly behind that event, on any instance.
#[utoipa::path(
    get, path = "/v1/sessions/{id}/events", operation_id = "follow_events", tag = "turns",
    params(SessionPath, EventsQuery, ("Last-Event-ID" = Option<String>, Header, description = "The id of the last event that was heard; wins over `after`.", pattern = "^([0-9]{1,15}|latest)$", nullable = false)),
    responses(
        (status = 200, description = "Events as they happen; the `data` of each frame is a `SessionEvent`.", body = shapes::EventFrame, content_type = "text/event-stream"),
        Refused, NotThere, Expired,
    )
)]
pub(crate) async fn follow(
    State(app): State<App>,
    caller: Caller,
    Id(id): Id<SessionId>,
    Asked(query): Asked<EventsQuery>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let after = after(&headers, query.after.as_deref())?;
    app.sessions(&caller).open(&id).await?;
    let session = SessionKey { tenant: caller.tenant.clone(), session: id };
    let extent = app.0.records.extent(events_of(&session)).await?;
    let after = match after {
        After::Latest => extent.last,
        After::Number(number) if number > extent.last => {
            let text = format!("there is no event {number} in this session: the newest is {}", extent.last);
            return Err(Problem::new("header_invalid", text).at("Last-Event-ID"));
        }
        After::Number(0) => extent.forgotten,
        After::Number(number) if number < extent.forgotten => {
            let text = format!("events up to {} are not kept any more", extent.forgotten);
            return Err(Problem::new("events_expired", text)
                .hint("read the items of the session, and follow with `after=latest`"));
        }
        After::Number(number) => number,
    };
    Ok(Follow::new(&app, session, After::Number(after)).response())
}

fn after(headers: &HeaderMap, asked: Option<&str>) -> Result<After, Problem> {
    let header = headers.get("last-event-id").map(|it| it.to_str().unwrap_or("\u{fffd}"));
    let (text, place) = match (header.filter(|it| !it.is_empty()), asked) {
        (Some(text), _) => (text, "Last-Event-ID"),
        (None, Some(text)) => (text, "after"),
        (None, None) => return Ok(After::Number(0)),
    };
    match text {
        "latest" => Ok(After::Latest),
        text if text.bytes().all(|it| it.is_ascii_digit()) => match text.parse() {
            Ok(number) => Ok(After::Number(number)),
            Err(_) => Err(no_number(text, place)),
        },
        text => Err(no_number(text, place)),
    }
}

fn no_number(text: &str, place: &str) -> Problem {
    let code = if place == "after" { "query_invalid" } else { "header_invalid" };
    Problem::new(code, format!("`{}` is not the id of an event", shown(text))).at(place)
}

/// A connection that follows a session, or one turn of it.
pub(crate) struct Follow {
    app: App,
    session: SessionKey,
    stream: StreamKey,
    /// The number of the event that was sent last.
    after: u64,
    ready: VecDeque<Told>,
    turn: Option<OfTurn>,
    heartbeat: Duration,
    last_sign: Instant,
}

/// What a connection needs that follows one turn to its end.
struct OfTurn {
    began: Began,
    /// Comes when everything the turn said is written.
    outcome: Option<oneshot::Receiver<Result<Outcome, AgentError>>>,
    tokens: Tokens,
    /// Stops the turn when the connection is dropped before its end.
    guard: Option<DropGuard>,
}

/// What a connection woke up for.
enum Woken {
    Grown,
    TurnOver,
    Heartbeat,
    Stop,
}

impl Follow {
    pub(crate) fn new(app: &App, session: SessionKey, after: After) -> Self {
        let After::Number(after) = after else {
            return Self::new(app, session, After::Number(0));
        };
        Self {
            app: app.clone(),
            stream: events_of(&session),
            session,
            after,
            ready: VecDeque::new(),
            turn: None,
            heartbeat: Duration::from_secs(app.0.config.heartbeat_seconds.max(1)),
            last_sign: Instant::now(),
        }
    }

    /// Follows one turn only, to its end.
    pub(crate) fn of_turn(
        mut self,
        began: Began,
        outcome: oneshot::Receiver<Result<Outcome, AgentError>>,
        tokens: Tokens,
        guard: Option<DropGuard>,
    ) -> Self {
        self.turn = Some(OfTurn { began, outcome: Some(outcome), tokens, guard });
        self
    }

    pub(crate) fn response(self) -> Response {
        let frames = stream::unfold(self, |mut follow| async move {
            let frame = follow.next().await?;
            Some((Ok::<_, Infallible>(frame), follow))
        });
        sse(Body::from_stream(frames))
    }

    /// Returns the next frame, or nothing at the end.
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            while let Some(told) = self.ready.pop_front() {
                self.after = told.number;
                if let Some(frame) = self.frame(&told) {
                    self.last_sign = Instant::now();
                    return Some(frame.into());
                }
            }
            let is_over = self.turn.as_ref().is_some_and(|it| it.outcome.is_none());
            let page = events_after(&self.app.0.scribe, &self.session, &self.stream, self.after, PAGE).await;
            match page {
                Ok(page) if !page.is_empty() => self.ready.extend(page),
                // Everything a turn said is written before it is over.
                Ok(_) if is_over => {
                    if let Some(guard) = self.turn.as_mut().and_then(|it| it.guard.take()) {
                        guard.disarm();
                    }
                    return None;
                }
                Ok(_) => match self.wait().await {
                    Woken::Grown => {}
                    Woken::TurnOver => {
                        if let Some(turn) = &mut self.turn {
                            turn.outcome = None;
                        }
                    }
                    Woken::Heartbeat => {
                        self.last_sign = Instant::now();
                        return Some(Bytes::from_static(b": alive\n\n"));
                    }
                    Woken::Stop => return None,
                },
                Err(err) => {
                    tracing::warn!(error = %err, "events can't be read yet");
                    tokio::time::sleep(Duration::from_millis(300)).await;
                    if self.last_sign.elapsed() >= self.heartbeat {
                        self.last_sign = Instant::now();
                        return Some(Bytes::from_static(b": alive\n\n"));
                    }
                }
            }
        }
    }

    async fn wait(&mut self) -> Woken {
        let grown = self.app.0.records.grown(self.stream.clone(), self.after);
        let over = async {
            match self.turn.as_mut().and_then(|it| it.outcome.as_mut()) {
                Some(outcome) => drop(outcome.await),
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            grown = grown => {
                if grown.is_err() {
                    tokio::time::sleep(Duration::from_millis(300)).await;
                }
                Woken::Grown
            }
            () = over => Woken::TurnOver,
            () = tokio::time::sleep_until(self.last_sign + self.heartbeat) => Woken::Heartbeat,
            () = self.app.0.stop.cancelled() => Woken::Stop,
        }
    }

    /// Returns the frame of an event, if this connection is told of it.
    fn frame(&self, told: &Told) -> Option<String> {
        let Some(turn) = &self.turn else { return Some(told.frame()) };
        let label = told.label();
        let is_mine = label.thread.as_deref() == Some(turn.began.thread.as_str())
            && label.turn.as_deref() == Some(turn.began.turn.as_str());
        if !is_mine {
            return None;
        }
        match label.kind == "approval.required" {
            true => Some(told.frame_with(&label.kind, &with_token(&told.data, &turn.tokens))),
            false => Some(told.frame_with(&label.kind, &told.data)),
        }
    }
}

/// Adds the token to a request for approval: it is for whoever runs the turn, and in no log.
fn with_token(data: &str, tokens: &Tokens) -> String {
    let Ok(mut value) = serde_json::from_str::<Value>(data) else { return data.to_owned() };
    let token = value["approval"]["id"].as_str().and_then(|it| tokens.get(it));
    if let (Some(token), Some(approval)) = (token, value["approval"].as_object_mut()) {
        approval.insert("token".to_owned(), token.into());
    }
    value.to_string()
}

/// Answers with what a turn came to that had its time before: its events are not told again.
pub(crate) async fn replayed(app: &App, session: SessionKey, outcome: Outcome) -> Response {
    let _ = app;
    let telling = |event: Event| Telling {
        thread: outcome.thread.clone(),
        turn: Some(outcome.turn.to_string()),
        event,
    };
    let start = Event::TurnStart { thread: outcome.thread.to_string(), turn: outcome.turn.to_string() };
    let text = outcome.text();
    let said = (!text.is_empty()).then_some(Event::TextDelta { text });
    let end = Event::TurnEnd { status: outcome.status, reason: None, usage: outcome.usage };
    let events = [Some(start), said, Some(end)].into_iter().flatten();
    // Without ids: they are no events of the log.
    let frames = events.map(|event| {
        let data = telling(event).data();
        let kind = serde_json::from_str::<Value>(&data).ok();
        let kind = kind.and_then(|it| it["type"].as_str().map(str::to_owned)).unwrap_or_default();
        Ok::<_, Infallible>(Bytes::from(format!("event: {kind}\ndata: {data}\n\n")))
    });
    drop(session);
    sse(Body::from_stream(stream::iter(frames.collect::<Vec<_>>())))
}

fn sse(body: Body) -> Response {
    let mut response = Response::new(body);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    // Proxies that collect answers would hold events back.
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}
