//! The start of an event stream: after a number, or with the next event.

use axum::http::HeaderMap;
use contexture_message::ErrorCode;
use contexture_session::records::Extent;

use crate::Problem;
use crate::http::input::shown;

/// The start of an event stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StreamStart {
    /// Behind the event with that number; 0 is before all of them.
    Number(u64),
    /// Behind all that there are now.
    Latest,
}

impl StreamStart {
    /// Reads it from `Last-Event-ID`, or else from the query. Without any it is before all events.
    pub(super) fn read(headers: &HeaderMap, asked: Option<&str>) -> Result<Self, Problem> {
        let header = headers.get("last-event-id").map(|it| it.to_str().unwrap_or("\u{fffd}"));
        let header = header.filter(|it| !it.is_empty()).map(|it| parse(it, "Last-Event-ID")).transpose()?;
        // An invalid value is reported even where it would not be used.
        let asked = asked.map(|it| parse(it, "after")).transpose()?;
        Ok(header.or(asked).unwrap_or(StreamStart::Number(0)))
    }

    /// Returns the number after which the stream starts, or why it can't.
    pub(super) fn within(self, extent: Extent) -> Result<u64, Problem> {
        match self {
            StreamStart::Latest => Ok(extent.last),
            StreamStart::Number(number) if number > extent.last => {
                let text = format!("there is no event {number}: the newest is {}", extent.last);
                Err(Problem::new(ErrorCode::HeaderInvalid, text).at("Last-Event-ID"))
            }
            StreamStart::Number(0) => Ok(extent.forgotten),
            StreamStart::Number(number) if number < extent.forgotten => {
                let text = format!("events up to {} are not kept any more", extent.forgotten);
                Err(Problem::new(ErrorCode::EventsExpired, text)
                    .hint("read the items of the session, and follow with `after=latest`"))
            }
            StreamStart::Number(number) => Ok(number),
        }
    }
}

fn parse(text: &str, place: &str) -> Result<StreamStart, Problem> {
    if text == "latest" {
        return Ok(StreamStart::Latest);
    }
    let is_number = text.bytes().all(|it| it.is_ascii_digit());
    let number = text.parse().ok().filter(|_| is_number);
    number.map(StreamStart::Number).ok_or_else(|| no_number(text, place))
}

fn no_number(text: &str, place: &str) -> Problem {
    let code = if place == "after" { ErrorCode::QueryInvalid } else { ErrorCode::HeaderInvalid };
    Problem::new(code, format!("`{}` is not the id of an event", shown(text))).at(place)
}
