//! The events of a run: a page, or a stream that can be resumed after any event.
//!
//! They have the numbers that the items of the run's log have in their session, so a stream of a run also tells the
//! events of its turns, and continues in the middle of an answer as that of a session does.

use axum::Json;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use contexture_flow::{RunEvent, RunId};
use contexture_history::{Application, Body, Seq};
use contexture_session::{ThreadKey, pages};
use futures::TryStreamExt as _;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use utoipa::IntoParams;

use super::events::StreamStart;
use super::follow::{Follow, RunScope};
use super::sessions::limited;
use super::turns::wants_events;
use crate::Problem;
use crate::app::Access;
use crate::events::cursor::Cursor;
use crate::http::input::{PathParam, QueryParams};
use crate::http::params::{LastEventId, RunPath};
use crate::http::refusals::{Form, NotThere, Refused};
use crate::http::schemas::{Frame, returns};

returns!(RunEventPage, RunEventFrame = Frame<RunEvent>);

/// How many items are read at once for a page.
const PAGE: usize = 256;

/// The events to return.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct RunEventsQuery {
    /// Only events after this one: the id of an event, or `latest` for those to come. `Last-Event-ID` wins. By default
    /// all of them.
    #[param(pattern = r"^([0-9]{1,15}(\+[0-9]{1,15})?(~[0-9.,]+)?|latest)$")]
    after: Option<String>,
    /// How many at most, of a page; a stream has no limit.
    #[param(minimum = 1, maximum = 1000, default = 100)]
    limit: Option<u32>,
}

/// A page of events.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct RunEventPage {
    /// The events, oldest first.
    events: Vec<NumberedRunEvent>,
    /// The `after` of the next request, if there may be more by now.
    #[serde(skip_serializing_if = "Option::is_none")]
    after: Option<u64>,
}

/// An event of a run.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct NumberedRunEvent {
    /// Its number in the session.
    id: u64,
    /// The event.
    data: RunEvent,
}

/// Read a page of the events of a run.
///
/// `Accept: text/event-stream` has the same effect as `GET …/events/stream`.
#[utoipa::path(
    get, path = "/v1/runs/{id}/events", operation_id = "list_run_events", tag = "flows",
    params(RunPath, RunEventsQuery, LastEventId),
    responses(
        (status = 200, description = "A page of events.", body = RunEventPage),
        Refused, NotThere, Form,
    )
)]
pub(crate) async fn read(
    access: Access,
    PathParam(run): PathParam<RunId>,
    QueryParams(query): QueryParams<RunEventsQuery>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let start = StreamStart::read(&headers, query.after.as_deref())?;
    let as_events = wants_events(&headers)?;
    let limit = limited(query.limit, 100, 1000)?;
    let info = access.flow_runs().info(&run).await?;
    let (session, log, store) = (access.key(run.session()), log_of(&access, &run), access.store());
    let cursor = start.within(store.feed_end(session.clone()).await?)?;
    let end = store.head(log.clone()).await?.map_or(0, |it| it.info.items);
    let last = store.number_at(log.clone(), Seq(end)).await?.unwrap_or(0);
    if as_events && info.status.is_over() && cursor.number >= last {
        // Browsers reconnect after the end of a stream until they get this status.
        return Ok(StatusCode::NO_CONTENT.into_response());
    }
    if as_events {
        return follow_run(&access, &run, cursor, false).await;
    }
    let first = store.number_at(log.clone(), Seq(1)).await?.unwrap_or(1);
    let mut events = Vec::new();
    let mut after = cursor.number.max(first - 1);
    while events.len() < limit && after < last {
        let page = store.feed(session.clone(), after, PAGE).await?;
        let Some(newest) = page.last() else { break };
        after = newest.number;
        let own = page.iter().filter(|it| it.thread == log.thread);
        events.extend(
            own.filter_map(|it| Some(NumberedRunEvent { id: it.number, data: event_in(&it.item.body)? })),
        );
    }
    events.truncate(limit);
    let newest = events.last().map_or(cursor.number, |it| it.id);
    let after = (!info.status.is_over() || newest < last).then_some(newest);
    Ok(Json(RunEventPage { events, after }).into_response())
}

fn log_of(access: &Access, run: &RunId) -> ThreadKey {
    ThreadKey { tenant: access.caller.tenant.clone(), thread: run.session().run(run.name()) }
}

/// Returns the event that an item of a run's log is.
fn event_in(body: &Body) -> Option<RunEvent> {
    match body {
        Body::Application(Application { value, .. }) => RunEvent::deserialize(value).ok(),
        _ => None,
    }
}

/// Responds with the events of a run behind an id, until the run ends, or `until_it_waits`.
pub(super) async fn follow_run(
    access: &Access,
    run: &RunId,
    mut cursor: Cursor,
    until_it_waits: bool,
) -> Result<Response, Problem> {
    let (log, store) = (log_of(access, run), access.store());
    let first = store.number_at(log.clone(), Seq(1)).await?.unwrap_or(1);
    let unlogged = access.live.subscribe_to_runs(&access.key(run.session()));
    let mut scope = RunScope::new(run.clone(), log.thread.clone(), unlogged, until_it_waits);
    if cursor.number < first {
        cursor = Cursor::at(first - 1);
    } else {
        // The turns that it has had so far may continue.
        let mut items = pages::items_after(&**store, log, Seq(0));
        while let Some(item) = items.try_next().await? {
            event_in(&item.body).iter().for_each(|it| scope.note(it));
        }
        scope.note_begun(&**store, &access.caller.tenant).await?;
    }
    Ok(Follow::new(access, access.key(run.session()), cursor, scope).await?.respond())
}
