//! The events of a session, as a stream that can be resumed after any event.

use axum::http::HeaderMap;
use axum::response::Response;
use contexture_message::ErrorCode;
use contexture_session::SessionId;
use serde::Deserialize;
use utoipa::IntoParams;

use super::follow::{Follow, SessionScope};
use super::turn_shapes::TurnEventFrame;
use crate::Problem;
use crate::app::Access;
use crate::events::cursor::Cursor;
use crate::http::input::{PathParam, QueryParams, shown};
use crate::http::params::{LastEventId, SessionPath};
use crate::http::refusals::{NotThere, Refused};

/// The start of the stream.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct EventsQuery {
    /// Only events after this one: the id of an event, or `latest` for future events. `Last-Event-ID` takes
    /// precedence. The default is all events.
    #[param(pattern = r"^([0-9]{1,15}(\+[0-9]{1,15})?(~[0-9.,]+)?|latest)$")]
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
    access: Access,
    PathParam(id): PathParam<SessionId>,
    QueryParams(query): QueryParams<EventsQuery>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let start = StreamStart::read(&headers, query.after.as_deref())?;
    access.sessions.open(&id).await?;
    let session = access.key(&id);
    let cursor = start.within(access.store().feed_end(session.clone()).await?)?;
    Ok(Follow::new(&access, session, cursor, SessionScope).await?.respond())
}

/// Where an event stream starts.
pub(super) struct StreamStart {
    /// Behind the event with this id, or (`None`) behind all that there are now.
    cursor: Option<Cursor>,
    /// What the request is refused with if that is wrong.
    code: ErrorCode,
    /// Where the request says so.
    place: &'static str,
}

impl StreamStart {
    /// Reads the start from `Last-Event-ID`, or else from the query. Without any it is before all events.
    pub(super) fn read(headers: &HeaderMap, asked: Option<&str>) -> Result<Self, Problem> {
        let parse = |text: &str, code, place| match text {
            "latest" => Ok(Self { cursor: None, code, place }),
            id => id.parse().map(|it| Self { cursor: Some(it), code, place }).map_err(|()| {
                Problem::new(code, format!("`{}` is not the id of an event", shown(text))).at(place)
            }),
        };
        let header = headers.get("last-event-id").map(|it| it.to_str().unwrap_or("\u{fffd}"));
        let header = header.filter(|it| !it.is_empty());
        let header = header.map(|it| parse(it, ErrorCode::HeaderInvalid, "Last-Event-ID")).transpose()?;
        // An invalid value is reported even where it would not be used.
        // In a query, a plus that was not encoded is read as a space.
        let asked = asked.unwrap_or("0").replace(' ', "+");
        let asked = parse(&asked, ErrorCode::QueryInvalid, "after")?;
        Ok(header.unwrap_or(asked))
    }

    /// Returns the id behind which the stream starts, or why it can't: `last` is the number of the newest item.
    pub(super) fn within(self, last: u64) -> Result<Cursor, Problem> {
        let cursor = self.cursor.unwrap_or_else(|| Cursor::at(last));
        if cursor.number <= last {
            return Ok(cursor);
        }
        let text = format!("there is no event {}: the newest is {last}", cursor.number);
        Err(Problem::new(self.code, text).at(self.place))
    }
}
