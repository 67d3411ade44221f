//! The events of a session, as a stream that can be resumed after any event.
//!
//! The state of a connection is the number of the last event it sent. It reads later events, from memory or from the
//! store, as fast as its client accepts them, and waits when there are none. So a slow client costs no memory and
//! loses nothing, and another instance can continue after a break.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;
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
use tokio::sync::futures::Notified;
use tokio::sync::oneshot;
use tokio::time::Instant;
use tokio_util::sync::DropGuard;
use utoipa::IntoParams;

use super::stream_start::StreamStart;
use super::turn_shapes::TurnEventFrame;
use crate::events::log::{StoredEvent, TurnKey, events_of};
use crate::events::subscribers::Subscription;
use crate::events::writer::events_after;
use crate::http::input::{PathParam, QueryParams};
use crate::http::params::SessionPath;
use crate::http::refusals::{Expired, NotThere, Refused};
use crate::running_turns::ApprovalTokens;
use crate::{App, Caller, Problem};

/// How many events are read per page.
const PAGE: usize = 256;
/// The heartbeat of a connection.
pub(super) const ALIVE: &[u8] = b": alive\n\n";
/// How long a stream whose events come from this instance waits before it checks for events of other instances.
const LOCAL_WAIT: Duration = Duration::from_millis(250);

/// The start of the stream.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct EventsQuery {
    /// Only events after this one: a number, or `latest` for future events. `Last-Event-ID` takes precedence. The
    /// default is all stored events.
    #[param(pattern = "^([0-9]{1,15}|latest)$", nullable = false)]
    after: Option<String>,
}

/// Follow the events of a session.
///
/// Each frame has an `id`; pass it as `Last-Event-ID` to continue right after that event, on any instance.
#[utoipa::path(
    get, path = "/v1/sessions/{id}/events", operation_id = "follow_events", tag = "turns",
    params(SessionPath, EventsQuery, ("Last-Event-ID" = Option<String>, Header, description = "The id of the last event that was received; wins over `after` unless it is empty.", pattern = "^([0-9]{1,15}|latest)?$", nullable = false)),
    responses(
        (status = 200, description = "Events as they happen: the `data` of each frame is a `TurnEvent`.", body = TurnEventFrame, content_type = "text/event-stream"),
        Refused, NotThere, Expired,
    )
)]
pub(crate) async fn follow(
    State(app): State<App>,
    caller: Caller,
    PathParam(id): PathParam<SessionId>,
    QueryParams(query): QueryParams<EventsQuery>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let after = StreamStart::read(&headers, query.after.as_deref())?;
    app.sessions(&caller).open(&id).await?;
    let session = SessionKey { tenant: caller.tenant.clone(), session: id };
    let after = after.within(app.0.records.extent(events_of(&session)).await?)?;
    Ok(Follow::new(&app, session, after).response())
}

/// A connection that follows a session, or one turn of it.
pub(crate) struct Follow {
    app: App,
    session: SessionKey,
    stream: StreamKey,
    /// The number of the event that was sent last.
    after: u64,
    ready: VecDeque<StoredEvent>,
    turn: Option<TurnFilter>,
    /// Notified of events written here.
    subscription: Arc<Subscription>,
    /// Whether the last events read were written here.
    is_local: bool,
    heartbeat: Duration,
    last_sent: Instant,
}

/// The state of a connection that follows one turn to its end.
struct TurnFilter {
    turn_key: TurnKey,
    stream_end: StreamEnd,
    /// Whether an error event of the turn was sent.
    has_failed: bool,
    tokens: ApprovalTokens,
    /// Stops the turn when the connection is dropped before its end.
    guard: Option<DropGuard>,
}

/// When a connection that follows one turn ends.
enum StreamEnd {
    /// After everything that is written when this resolves.
    With(oneshot::Receiver<Result<Outcome, AgentError>>),
    /// After everything written so far, and this frame: the turn's end is not on record and can't be published.
    Now(Option<String>),
    /// Behind the end of the turn.
    AtItsEnd,
    /// Behind the event with this number.
    Behind(u64),
}

/// Why a connection woke up.
enum Woken {
    Grown,
    TurnOver(Option<String>),
    Heartbeat,
    Stop,
}

impl Follow {
    /// Starts after the event with that number.
    pub(crate) fn new(app: &App, session: SessionKey, after: u64) -> Self {
        let subscription = app.0.event_writer.subscribe(&session);
        Self {
            app: app.clone(),
            stream: events_of(&session),
            session,
            after,
            ready: VecDeque::new(),
            turn: None,
            subscription: Arc::new(subscription),
            is_local: false,
            heartbeat: Duration::from_secs(app.0.config.heartbeat_seconds.max(1)),
            last_sent: Instant::now(),
        }
    }

    /// Follows one turn only, to its end.
    pub(crate) fn of_turn(
        mut self,
        turn_key: TurnKey,
        outcome: oneshot::Receiver<Result<Outcome, AgentError>>,
        tokens: ApprovalTokens,
        guard: Option<DropGuard>,
    ) -> Self {
        self.turn = Some(TurnFilter {
            turn_key,
            stream_end: StreamEnd::With(outcome),
            has_failed: false,
            tokens,
            guard,
        });
        self
    }

    /// Follows a turn that was published before: to its last event, or to its end if it still runs.
    pub(crate) fn of_finished_turn(mut self, turn_key: TurnKey, last: Option<u64>) -> Self {
        let stream_end = last.map_or(StreamEnd::AtItsEnd, StreamEnd::Behind);
        self.turn = Some(TurnFilter {
            turn_key,
            stream_end,
            has_failed: false,
            tokens: ApprovalTokens::default(),
            guard: None,
        });
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
            while let Some(event) = self.ready.pop_front() {
                self.after = event.number;
                if let Some(frame) = self.frame(&event) {
                    self.last_sent = Instant::now();
                    return Some(frame.into());
                }
            }
            let stream_end = self.turn.as_ref().map(|it| &it.stream_end);
            if matches!(stream_end, Some(StreamEnd::Behind(last)) if self.after >= *last) {
                return None;
            }
            let is_over = matches!(stream_end, Some(StreamEnd::Now(_)));
            let subscription = Arc::clone(&self.subscription);
            let notified = subscription.notified();
            let page =
                events_after(&self.app.0.event_writer, &self.session, &self.stream, self.after, PAGE).await;
            match page {
                Ok(page) if !page.events.is_empty() => {
                    self.is_local = page.is_recent;
                    self.ready.extend(page.events);
                }
                // Everything a turn said is written before it is over.
                Ok(_) if is_over => {
                    let turn = self.turn.as_mut()?;
                    turn.guard.take().map(DropGuard::disarm);
                    let StreamEnd::Now(last) = &mut turn.stream_end else { return None };
                    return last.take().filter(|_| !turn.has_failed).map(Bytes::from);
                }
                Ok(_) => match self.wait(notified).await {
                    Woken::Grown => {}
                    Woken::TurnOver(last) => {
                        if let Some(turn) = &mut self.turn {
                            turn.stream_end = StreamEnd::Now(last);
                        }
                    }
                    Woken::Heartbeat => {
                        self.last_sent = Instant::now();
                        return Some(Bytes::from_static(ALIVE));
                    }
                    Woken::Stop => return None,
                },
                Err(err) => {
                    tracing::warn!(error = %err, "events can't be read yet");
                    tokio::time::sleep(Duration::from_millis(300)).await;
                    if self.last_sent.elapsed() >= self.heartbeat {
                        self.last_sent = Instant::now();
                        return Some(Bytes::from_static(ALIVE));
                    }
                }
            }
        }
    }

    async fn wait(&mut self, notified: Notified<'_>) -> Woken {
        let (records, stream, after) = (&self.app.0.records, self.stream.clone(), self.after);
        let is_local = self.turn.is_some() || self.is_local;
        let grown = async move {
            if is_local {
                // The next events are probably written here too, and then the store need not be queried.
                tokio::time::sleep(LOCAL_WAIT).await;
            }
            records.grown(stream, after).await
        };
        let over = async {
            match self.turn.as_mut().map(|it| &mut it.stream_end) {
                Some(StreamEnd::With(outcome)) => {
                    outcome.await.ok().and_then(|it| unrecorded_frame(it.err()?))
                }
                _ => std::future::pending().await,
            }
        };
        tokio::select! {
            () = notified => Woken::Grown,
            grown = grown => {
                if grown.is_err() {
                    tokio::time::sleep(Duration::from_millis(300)).await;
                }
                Woken::Grown
            }
            last = over => Woken::TurnOver(last),
            () = tokio::time::sleep_until(self.last_sent + self.heartbeat) => Woken::Heartbeat,
            () = self.app.0.stop.cancelled() => Woken::Stop,
        }
    }

    /// Returns the frame of an event, if this connection should send it.
    fn frame(&mut self, event: &StoredEvent) -> Option<String> {
        let Some(turn) = &mut self.turn else { return Some(event.frame()) };
        let label = event.label();
        let is_mine = label.thread.as_deref() == Some(turn.turn_key.thread.as_str())
            && label.turn.as_deref() == Some(turn.turn_key.turn.as_str());
        if !is_mine {
            return None;
        }
        turn.has_failed |= label.kind == "error";
        if label.kind == "turn.end" && matches!(turn.stream_end, StreamEnd::AtItsEnd) {
            turn.stream_end = StreamEnd::Behind(event.number);
        }
        match label.kind == "approval.required" {
            true => Some(event.frame_with(&label.kind, &with_token(&event.data, &turn.tokens))),
            false => Some(event.frame_with(&label.kind, &event.data)),
        }
    }
}

/// Returns the last frame of a turn whose end is not on record. It has no id, since it is not an event of the log.
fn unrecorded_frame(err: AgentError) -> Option<String> {
    let AgentError::Unrecorded(_) = &err else { return None };
    let event = Event::Error { code: err.code().into(), message: err.to_string() };
    Some(format!("event: error\ndata: {}\n\n", serde_json::to_value(event).ok()?))
}

/// Adds the token to a request for approval: only the client of the turn gets it, and it is never logged.
fn with_token(data: &str, tokens: &ApprovalTokens) -> String {
    let Ok(mut value) = serde_json::from_str::<Value>(data) else { return data.to_owned() };
    let token = value["approval"]["id"].as_str().and_then(|it| tokens.get(it));
    if let (Some(token), Some(approval)) = (token, value["approval"].as_object_mut()) {
        approval.insert("token".to_owned(), token.into());
    }
    value.to_string()
}

pub(super) fn sse(body: Body) -> Response {
    let mut response = Response::new(body);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    // Proxies that collect answers would hold events back.
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}
