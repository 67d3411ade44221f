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
    /// Where the request says so.
    place: StartPlace,
}

#[derive(Clone, Copy)]
enum StartPlace {
    Header,
    Query,
}

impl StreamStart {
    /// Reads the start from `Last-Event-ID`, or else from the query. Without any it is before all events.
    pub(super) fn read(headers: &HeaderMap, asked: Option<&str>) -> Result<Self, Problem> {
        let header = headers.get("last-event-id").map(|it| it.to_str().unwrap_or("\u{fffd}"));
        let header = header.filter(|it| !it.is_empty()).map(|it| StartPlace::Header.parse(it)).transpose()?;
        // An invalid value is reported even where it would not be used.
        // In a query, a plus that was not encoded is read as a space.
        let asked = asked.map(|it| StartPlace::Query.parse(&it.replace(' ', "+"))).transpose()?;
        let before_all = Self { cursor: Some(Cursor::default()), place: StartPlace::Query };
        Ok(header.or(asked).unwrap_or(before_all))
    }

    /// Returns the id behind which the stream starts, or why it can't: `last` is the number of the newest item.
    pub(super) fn within(self, last: u64) -> Result<Cursor, Problem> {
        let cursor = self.cursor.unwrap_or_else(|| Cursor::at(last));
        match cursor.number <= last {
            true => Ok(cursor),
            false => {
                let text = format!("there is no event {}: the newest is {last}", cursor.number);
                Err(self.place.problem(text))
            }
        }
    }
}

impl StartPlace {
    fn parse(self, text: &str) -> Result<StreamStart, Problem> {
        let cursor = match text {
            "latest" => Ok(None),
            id => id.parse().map(Some),
        };
        let invalid = |()| self.problem(format!("`{}` is not the id of an event", shown(text)));
        Ok(StreamStart { cursor: cursor.map_err(invalid)?, place: self })
    }

    fn problem(self, text: String) -> Problem {
        match self {
            StartPlace::Header => Problem::new(ErrorCode::HeaderInvalid, text).at("Last-Event-ID"),
            StartPlace::Query => Problem::new(ErrorCode::QueryInvalid, text).at("after"),
        }
    }
}
