//! The events of a run: a page, or a stream that can be resumed after any event.
//!
//! As with a session, a connection knows the number of the last event it sent and continues from there, so a slow
//! client loses nothing and another instance can continue after a break. The log is written by the run's driver, on
//! any instance, so it is always read from the store.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::time::Duration;

use axum::Json;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use contexture_flow::{RunError, RunEvent, RunId, Runtime};
use futures::stream;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::time::Instant;
use utoipa::IntoParams;

use super::events::{ALIVE, sse};
use super::flow_shapes::RunEventFrame;
use super::sessions::limited;
use super::stream_start::StreamStart;
use super::turns::{as_events, wants_events};
use crate::http::input::{PathParam, QueryParams};
use crate::http::params::RunPath;
use crate::http::refusals::{Form, NotThere, Refused};
use crate::http::schemas::returns;
use crate::{App, Caller, Problem};

returns!(RunEventPage);

/// How many events are read per page.
const PAGE: usize = 256;
/// How long a connection waits before it asks a store again that did not answer.
const PAUSE: Duration = Duration::from_millis(300);

/// The events to return.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct RunEventsQuery {
    /// Only events after this one: a number, or `latest` for those to come. `Last-Event-ID` wins. By default all of
    /// them.
    #[param(pattern = "^([0-9]{1,15}|latest)$", nullable = false)]
    after: Option<String>,
    /// How many at most, of a page; a stream has no limit.
    #[param(minimum = 1, maximum = 1000, default = 100, nullable = false)]
    limit: Option<u32>,
}

/// A page of events.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct RunEventPage {
    /// The events, oldest first.
    events: Vec<RunEventView>,
    /// The `after` of the next request, if there may be more by now.
    #[serde(skip_serializing_if = "Option::is_none")]
    after: Option<u64>,
}

/// An event of a run.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "NumberedRunEvent")]
pub(crate) struct RunEventView {
    /// Its number, from 1.
    id: u64,
    /// The event.
    data: RunEvent,
}

/// Read a page of the events of a run.
///
/// `Accept: text/event-stream` has the same effect as `GET …/events/stream`.
#[utoipa::path(
    get, path = "/v1/runs/{id}/events", operation_id = "list_run_events", tag = "flows",
    params(RunPath, RunEventsQuery, ("Last-Event-ID" = Option<String>, Header, description = "The id of the last event that was received; wins over `after` unless it is empty.", pattern = "^([0-9]{1,15}|latest)?$", nullable = false)),
    responses(
        (status = 200, description = "A page of events.", body = RunEventPage),
        Refused, NotThere, Form,
    )
)]
pub(crate) async fn read(
    State(app): State<App>,
    caller: Caller,
    PathParam(run): PathParam<RunId>,
    QueryParams(query): QueryParams<RunEventsQuery>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let (after, as_events) = (StreamStart::read(&headers, query.after.as_deref())?, wants_events(&headers)?);
    let limit = limited(query.limit, 100, 1000)?;
    let runs = app.flow_runs(&caller);
    let is_over = runs.info(&run).await?.status.is_over();
    let extent = runs.extent(&run).await?;
    let after = after.within(extent)?;
    if as_events && is_over && after == extent.last {
        // Browsers reconnect after the end of a stream until they get this status.
        return Ok(StatusCode::NO_CONTENT.into_response());
    }
    if as_events {
        return Ok(FollowRun::new(&app, runs, run, after).response());
    }
    let events = runs.events(&run, after, limit).await?;
    let last = events.last().map_or(after, |it| it.0);
    let after = (!is_over || last < extent.last).then_some(last);
    let events = events.into_iter().map(|(id, data)| RunEventView { id, data }).collect();
    Ok(Json(RunEventPage { events, after }).into_response())
}

/// Follow the events of a run as they happen, until the run is over.
///
/// Each frame has an `id`; pass it as `Last-Event-ID` to continue right after that event, on any instance.
#[utoipa::path(
    get, path = "/v1/runs/{id}/events/stream", operation_id = "follow_run", tag = "flows",
    params(RunPath, RunEventsQuery, ("Last-Event-ID" = Option<String>, Header, description = "The id of the last event that was received; wins over `after` unless it is empty.", pattern = "^([0-9]{1,15}|latest)?$", nullable = false)),
    responses(
        (status = 200, description = "Events as they happen: the `data` of each frame is a `RunEvent`.", body = RunEventFrame, content_type = "text/event-stream"),
        (status = 204, description = "The run is over, and all of its events were received."),
        Refused, NotThere,
    )
)]
pub(crate) async fn follow(
    app: State<App>,
    caller: Caller,
    run: PathParam<RunId>,
    query: QueryParams<RunEventsQuery>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    read(app, caller, run, query, as_events(headers)).await
}

/// A connection that follows a run.
pub(super) struct FollowRun {
    app: App,
    runs: Runtime,
    run: RunId,
    /// The number of the event that was sent last.
    after: u64,
    ready: VecDeque<(u64, RunEvent)>,
    /// Whether it also ends when the run waits for an answer.
    until_it_waits: bool,
    is_over: bool,
    heartbeat: Duration,
    last_sign: Instant,
}

/// Why a connection woke up.
enum Woken {
    Grown,
    Heartbeat,
    Stop,
}

impl FollowRun {
    /// Starts after the event with that number, and ends with the run.
    pub(super) fn new(app: &App, runs: Runtime, run: RunId, after: u64) -> Self {
        Self {
            app: app.clone(),
            runs,
            run,
            after,
            ready: VecDeque::new(),
            until_it_waits: false,
            is_over: false,
            heartbeat: Duration::from_secs(app.0.config.heartbeat_seconds.max(1)),
            last_sign: Instant::now(),
        }
    }

    /// Ends also when the run waits for an answer.
    pub(super) fn until_it_waits(mut self) -> Self {
        self.until_it_waits = true;
        self
    }

    pub(super) fn response(self) -> Response {
        let frames = stream::unfold(self, |mut follow| async move {
            let frame = follow.next().await?;
            follow.last_sign = Instant::now();
            Some((Ok::<_, Infallible>(frame), follow))
        });
        sse(Body::from_stream(frames))
    }

    /// Returns the next frame, or nothing at the end.
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if let Some((number, event)) = self.ready.pop_front() {
                return Some(self.frame(number, &event));
            }
            if self.is_over {
                return None;
            }
            match self.runs.events(&self.run, self.after, PAGE).await {
                Ok(page) if !page.is_empty() => {
                    self.ready.extend(page);
                    continue;
                }
                Ok(_) => {}
                Err(err) => {
                    tracing::warn!(error = %err, "events of a run can't be read yet");
                    tokio::time::sleep(PAUSE).await;
                }
            }
            match self.wait().await {
                Woken::Grown => {}
                Woken::Heartbeat if self.is_gone().await => return None,
                Woken::Heartbeat => return Some(Bytes::from_static(ALIVE)),
                Woken::Stop => return None,
            }
        }
    }

    async fn wait(&self) -> Woken {
        let grown = async {
            if self.runs.grown(&self.run, self.after).await.is_err() {
                tokio::time::sleep(PAUSE).await;
            }
        };
        tokio::select! {
            () = grown => Woken::Grown,
            () = tokio::time::sleep_until(self.last_sign + self.heartbeat) => Woken::Heartbeat,
            () = self.app.0.stop.cancelled() => Woken::Stop,
        }
    }

    /// Whether the run was deleted with its session, so no event follows.
    async fn is_gone(&self) -> bool {
        matches!(self.runs.info(&self.run).await, Err(RunError::NotFound { .. }))
    }

    fn frame(&mut self, number: u64, event: &RunEvent) -> Bytes {
        self.after = number;
        self.is_over = match event {
            RunEvent::RunEnd { .. } => true,
            RunEvent::RunWait { .. } => self.until_it_waits,
            _ => false,
        };
        if self.is_over {
            self.ready.clear();
        }
        let data = serde_json::to_string(event).unwrap_or_default();
        format!("id: {number}\nevent: {}\ndata: {data}\n\n", event.name()).into()
    }
}
