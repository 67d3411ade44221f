//! `read_tool_result`: reads a range of a result's full text, or searches it.

use contexture_compose::BoxError;
use contexture_message::TokenCounter;
use regex::RegexBuilder;
use serde_json::Value;

use super::log::{Lookup, result};
use super::range::{Range, Room, byte_at};
use super::{definition, position};
use crate::text::fill;
use crate::tools::tool::{Invocation, Tool, ToolRefused};

/// How many characters are returned by default, and at most.
const DEFAULT_CHARS: usize = 6_000;
const MAX_CHARS: usize = 20_000;
/// How many matches are returned, and how many characters around each.
const MAX_PLACES: usize = 10;
const BEFORE: usize = 80;
const AFTER: usize = 160;

pub(super) fn tool(room: Room) -> Result<Tool, ToolRefused> {
    let tool = definition(include_str!("templates/read_tool_result.json"))?;
    Tool::new(tool, move |invocation: Invocation| async move {
        read(&invocation, &room.within(invocation.result_tokens)).await.map(Value::String)
    })
}

async fn read(invocation: &Invocation, room: &Room) -> Result<String, BoxError> {
    let (thread, arguments) = (&invocation.log, &invocation.call.arguments);
    let handle = arguments.get("handle").and_then(Value::as_str).unwrap_or_default();
    let (name, text) = match result(thread, handle).await? {
        Lookup::Found { name, text } => (name, text),
        Lookup::Missing(others) => return Err(missing(handle, &others).into()),
    };
    let what = fill(include_str!("templates/result.txt"), &[("name", &name), ("handle", handle)]);
    let offset = position(arguments, "offset").unwrap_or(0);
    let counter = thread.counter();
    match arguments.get("search").and_then(Value::as_str).filter(|it| !it.is_empty()) {
        Some(search) => Places::of(&text, search, offset)?.render(search, &what, room, &*counter),
        None => {
            let limit = position(arguments, "limit").unwrap_or(DEFAULT_CHARS).min(MAX_CHARS);
            Ok(Range::of(&text, offset, limit, room, &*counter).render(&what))
        }
    }
}

fn missing(handle: &str, others: &[(String, String)]) -> String {
    let names: Vec<String> = others.iter().map(|(id, name)| format!("\"{id}\" (of `{name}`)")).collect();
    match names.is_empty() {
        true => format!("there is no result with the handle \"{handle}\", nor any other"),
        false => format!(
            "there is no result with the handle \"{handle}\"; the newest handles are {}",
            names.join(", ")
        ),
    }
}

/// The matches of a search in a result. Positions are in characters.
struct Places<'a> {
    offset: usize,
    total: usize,
    /// The position of each match, and the text around it.
    found: Vec<(usize, &'a str)>,
    /// The position of the first match that is not shown.
    next: Option<usize>,
}

impl<'a> Places<'a> {
    /// Searches for a text from an offset, ignoring case.
    fn of(text: &'a str, search: &str, offset: usize) -> Result<Self, BoxError> {
        let pattern = RegexBuilder::new(&regex::escape(search)).case_insensitive(true).build()?;
        let mut found = Vec::new();
        let mut next = None;
        let total = text.chars().count();
        let (from, mut chars) = (byte_at(text, offset), offset.min(total));
        let mut seen = from;
        for hit in pattern.find_iter(&text[from..]) {
            let at = from + hit.start();
            chars += text[seen..at].chars().count();
            seen = at;
            if found.len() == MAX_PLACES {
                next = Some(chars);
                break;
            }
            found.push((chars, around(text, at)));
        }
        Ok(Self { offset, total, found, next })
    }

    /// Renders the matches, as many as fit.
    fn render(
        mut self,
        search: &str,
        what: &str,
        room: &Room,
        counter: &dyn TokenCounter,
    ) -> Result<String, BoxError> {
        let mut rendered = self.text(search, what);
        while self.found.len() > 1 && !room.fits(&rendered, counter) {
            self.next = self.found.pop().map(|(offset, _)| offset);
            rendered = self.text(search, what);
        }
        Ok(rendered)
    }

    fn text(&self, search: &str, what: &str) -> String {
        let place = |(offset, text): &(usize, &str)| {
            let (offset, text) = (offset.to_string(), text.replace(['\n', '\r'], " "));
            fill(include_str!("templates/place.txt"), &[("offset", &offset), ("text", &text)])
        };
        let places = self.found.iter().map(place).collect::<Vec<_>>().join("\n");
        let template = match self.found.is_empty() {
            true => include_str!("templates/no_place.txt"),
            false => include_str!("templates/places.txt"),
        };
        let values = [
            ("search", search),
            ("what", what),
            ("offset", &self.offset.to_string()),
            ("total", &self.total.to_string()),
            ("next", &self.next.map_or_else(|| "none".to_owned(), |it| it.to_string())),
            ("places", &places),
        ];
        fill(template, &values)
    }
}

/// Returns the text around a position.
fn around(text: &str, at: usize) -> &str {
    let before = text[..at].char_indices().rev().take(BEFORE).last().map_or(at, |(start, _)| start);
    &text[before..at + byte_at(&text[at..], AFTER)]
}
