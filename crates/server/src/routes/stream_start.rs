//! The start of an event stream: behind an event, or with the next one.

use axum::http::HeaderMap;
use contexture_message::ErrorCode;

use crate::Problem;
use crate::events::cursor::Cursor;
use crate::http::input::shown;

/// The start of an event stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum StreamStart {
    /// Behind the event with that id; 0 is before all of them.
    Behind(Cursor),
    /// Behind all that there are now.
    Latest,
}

impl StreamStart {
    /// Reads it from `Last-Event-ID`, or else from the query. Without any it is before all events.
    pub(super) fn read(headers: &HeaderMap, asked: Option<&str>) -> Result<Self, Problem> {
        let header = headers.get("last-event-id").map(|it| it.to_str().unwrap_or("\u{fffd}"));
        let header = header.filter(|it| !it.is_empty()).map(|it| parse(it, "Last-Event-ID")).transpose()?;
        // An invalid value is reported even where it would not be used.
        // In a query, a plus that was not encoded is read as a space.
        let asked = asked.map(|it| parse(&it.replace(' ', "+"), "after")).transpose()?;
        Ok(header.or(asked).unwrap_or(StreamStart::Behind(Cursor::default())))
    }

    /// Returns the id behind which the stream starts, or why it can't: `last` is the number of the newest item.
    pub(super) fn within(self, last: u64) -> Result<Cursor, Problem> {
        match self {
            StreamStart::Latest => Ok(Cursor::at(last)),
            StreamStart::Behind(cursor) if cursor.number > last => {
                let text = format!("there is no event {}: the newest is {last}", cursor.number);
                Err(Problem::new(ErrorCode::HeaderInvalid, text).at("Last-Event-ID"))
            }
            StreamStart::Behind(cursor) => Ok(cursor),
        }
    }
}

fn parse(text: &str, place: &str) -> Result<StreamStart, Problem> {
    if text == "latest" {
        return Ok(StreamStart::Latest);
    }
    text.parse().map(StreamStart::Behind).map_err(|()| no_id(text, place))
}

fn no_id(text: &str, place: &str) -> Problem {
    let code = if place == "after" { ErrorCode::QueryInvalid } else { ErrorCode::HeaderInvalid };
    Problem::new(code, format!("`{}` is not the id of an event", shown(text))).at(place)
}
