//! The events of a session, as a stream that can be resumed after any event.

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use contexture_session::{SessionId, SessionKey};
use serde::Deserialize;
use utoipa::IntoParams;

use super::follow::{Follow, Scope};
use super::stream_start::StreamStart;
use super::turn_shapes::TurnEventFrame;
use crate::http::input::{PathParam, QueryParams};
use crate::http::params::{LastEventId, SessionPath};
use crate::http::refusals::{NotThere, Refused};
use crate::{App, Caller, Problem};

/// The start of the stream.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct EventsQuery {
    /// Only events after this one: the id of an event, or `latest` for future events. `Last-Event-ID` takes
    /// precedence. The default is all events.
    #[param(pattern = r"^([0-9]{1,15}(\+[0-9]{1,15})?(~[0-9.,]+)?|latest)$", nullable = false)]
    after: Option<String>,
}

/// Follow the events of a session.
///
/// Each frame has an `id`; pass it as `Last-Event-ID` to continue right after that event, on any instance, also in the
/// middle of an answer.
#[utoipa::path(
    get, path = "/v1/sessions/{id}/events", operation_id = "follow_events", tag = "turns",
    params(SessionPath, EventsQuery, LastEventId),
    responses(
        (status = 200, description = "Events as they happen: the `data` of each frame is a `TurnEvent`.", body = TurnEventFrame, content_type = "text/event-stream"),
        Refused, NotThere,
    )
)]
pub(crate) async fn follow(
    State(app): State<App>,
    caller: Caller,
    PathParam(id): PathParam<SessionId>,
    QueryParams(query): QueryParams<EventsQuery>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let start = StreamStart::read(&headers, query.after.as_deref())?;
    app.sessions(&caller).open(&id).await?;
    let session = SessionKey { tenant: caller.tenant.clone(), session: id };
    let cursor = start.within(app.0.sessions.store().feed_end(session.clone()).await?)?;
    Ok(Follow::start(&app, session, cursor, Scope::Session).await?.response())
}
