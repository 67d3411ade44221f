//! Where a stream of events begins: behind a number, or with what comes next.

use axum::http::HeaderMap;
use contexture_session::records::Extent;

use crate::Problem;
use crate::input::shown;

/// Where a stream of events begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum After {
    /// Behind the event with that number; 0 is before all of them.
    Number(u64),
    /// Behind all that there are now.
    Latest,
}

impl After {
    /// Reads it from `Last-Event-ID`, or else from the query. Without any it is before all events.
    pub(super) fn read(headers: &HeaderMap, asked: Option<&str>) -> Result<Self, Problem> {
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

    /// Returns the number behind which it begins in a log, or says why it can't.
    pub(super) fn within(self, extent: Extent) -> Result<u64, Problem> {
        match self {
            After::Latest => Ok(extent.last),
            After::Number(number) if number > extent.last => {
                let text = format!("there is no event {number}: the newest is {}", extent.last);
                Err(Problem::new("header_invalid", text).at("Last-Event-ID"))
            }
            After::Number(0) => Ok(extent.forgotten),
            After::Number(number) if number < extent.forgotten => {
                let text = format!("events up to {} are not kept any more", extent.forgotten);
                Err(Problem::new("events_expired", text)
                    .hint("read the items of the session, and follow with `after=latest`"))
            }
            After::Number(number) => Ok(number),
        }
    }
}

fn no_number(text: &str, place: &str) -> Problem {
    let code = if place == "after" { "query_invalid" } else { "header_invalid" };
    Problem::new(code, format!("`{}` is not the id of an event", shown(text))).at(place)
}
