//! Splits the text of a transcript into messages, without changing them.
//!
//! Three layouts: JSON lines, a list, and a whole request with the list in `messages`. A text that is one object
//! without `messages` is a transcript of one message.

use contexture_message::ErrorCode;
use std::borrow::Cow;

use serde::Deserialize;
use serde_json::error::Category;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::error::Failure;

/// Original JSON, or rewritten JSON.
pub(crate) type Json<'t> = Cow<'t, RawValue>;

/// A transcript whose messages are not interpreted yet.
#[derive(Debug)]
pub(crate) struct Source<'t> {
    name: &'t str,
    text: &'t str,
    pub(crate) layout: Layout<'t>,
    pub(crate) messages: Vec<&'t RawValue>,
    /// The `system` field of a request.
    pub(crate) system: Option<&'t RawValue>,
    /// The `model` field of a request.
    pub(crate) model: Option<String>,
}

/// The layout of the messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Layout<'t> {
    /// One per line.
    Lines,
    /// A list.
    List(&'t str),
    /// A list inside a request.
    Request { before: &'t str, list: &'t str, after: &'t str },
}

/// The fields of a request that matter here.
#[derive(Deserialize)]
struct Outline<'t> {
    #[serde(borrow)]
    messages: Option<&'t RawValue>,
    #[serde(borrow)]
    system: Option<&'t RawValue>,
    #[serde(borrow)]
    model: Option<&'t RawValue>,
}

impl<'t> Source<'t> {
    /// Finds the messages in `text`; `name` is used in errors.
    pub(crate) fn read(text: &'t str, name: &'t str) -> Result<Self, Failure> {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let source =
            Source { name, text, layout: Layout::Lines, messages: Vec::new(), system: None, model: None };
        match text.trim_start().bytes().next() {
            Some(b'[') => source.list(text, Layout::List(text.trim())),
            Some(b'{') => source.object(),
            _ => source.lines(),
        }
    }

    /// Finds one message per line.
    pub(crate) fn read_lines(text: &'t str, name: &'t str) -> Result<Self, Failure> {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        Source { name, text, layout: Layout::Lines, messages: Vec::new(), system: None, model: None }.lines()
    }

    fn list(self, list: &'t str, layout: Layout<'t>) -> Result<Self, Failure> {
        let messages = serde_json::from_str(list).map_err(|err| self.not_json(list, &err))?;
        Ok(Source { layout, messages, ..self })
    }

    fn object(self) -> Result<Self, Failure> {
        let text = self.text;
        let outline: Outline<'t> = match serde_json::from_str(text) {
            Ok(outline) => outline,
            Err(err) if err.classify() == Category::Data || !self.first_line_is_whole() => {
                return Err(self.not_json(text, &err));
            }
            Err(_) => return self.lines(),
        };
        let Some(messages) = outline.messages else {
            let message = serde_json::from_str(text).map_err(|err| self.not_json(text, &err))?;
            return Ok(Source { messages: vec![message], ..self });
        };
        let list = messages.get();
        if !list.starts_with('[') {
            return Err(Source { layout: Layout::List(list), ..self }.wrong("`messages` is not a list", list));
        }
        let start = self.offset(list);
        let (before, after) = (text[..start].trim_start(), text[start + list.len()..].trim_end());
        let model = outline.model.and_then(|it| serde_json::from_str(it.get()).ok());
        let source = Source { system: outline.system.filter(|it| it.get() != "null"), model, ..self };
        source.list(list, Layout::Request { before, list, after })
    }

    fn lines(mut self) -> Result<Self, Failure> {
        for line in self.text.lines().filter(|it| !it.trim().is_empty()) {
            self.messages.push(serde_json::from_str(line).map_err(|err| self.not_json(line, &err))?);
        }
        Ok(self)
    }

    fn first_line_is_whole(&self) -> bool {
        let first = self.text.lines().find(|it| !it.trim().is_empty());
        first.is_some_and(|it| serde_json::from_str::<&RawValue>(it).is_ok())
    }

    /// Parses a message.
    pub(crate) fn fields(&self, message: &'t RawValue) -> Result<Map<String, Value>, Failure> {
        match serde_json::from_str(message.get()).map_err(|err| self.not_json(message.get(), &err))? {
            Value::Object(fields) => Ok(fields),
            _ => Err(self.wrong("a message is a JSON object", message.get())),
        }
    }

    /// Returns the error for a message that is valid JSON but not a valid message.
    pub(crate) fn wrong(&self, what: impl Into<String>, json: &str) -> Failure {
        let (line, column) = self.place(self.offset(json));
        let place = match self.layout {
            Layout::Lines => format!("{}:{line}", self.name),
            Layout::List(_) | Layout::Request { .. } => format!("{}:{line}:{column}", self.name),
        };
        Failure::new(ErrorCode::MessageInvalid, what).at(place)
    }

    fn not_json(&self, json: &str, err: &serde_json::Error) -> Failure {
        let message = err.to_string();
        let fault = match message.rsplit_once(" at line ").map_or(message.as_str(), |(fault, _)| fault) {
            "recursion limit exceeded" => "lists and objects are nested more than 127 deep",
            other => other,
        };
        let (line, column) = self.place(self.offset(json));
        let (line, column) = match err.line() {
            0 | 1 => (line, column + err.column().saturating_sub(1)),
            further => (line + further - 1, err.column()),
        };
        let failure = Failure::input(format!("{} is not valid JSON: {fault}", self.name));
        failure.at(format!("{}:{line}:{column}", self.name))
    }

    /// Returns the offset of a piece in the text.
    fn offset(&self, piece: &str) -> usize {
        (piece.as_ptr() as usize).saturating_sub(self.text.as_ptr() as usize).min(self.text.len())
    }

    /// Returns the line and column of an offset, starting at 1. Columns count bytes, as in other JSON errors.
    fn place(&self, offset: usize) -> (usize, usize) {
        let before = &self.text.as_bytes()[..offset];
        let line = before.iter().filter(|it| **it == b'\n').count() + 1;
        let column = before.iter().rev().take_while(|it| **it != b'\n').count() + 1;
        (line, column)
    }
}

impl Layout<'_> {
    /// Writes messages in this layout. `is_same` means that they are all the original messages, unchanged.
    pub(crate) fn written(self, messages: &[Json<'_>], is_same: bool) -> String {
        match self {
            Layout::Lines => messages.iter().map(|it| on_one_line(it)).collect::<Vec<_>>().join("\n"),
            Layout::List(list) => listed(list, messages, is_same),
            Layout::Request { before, list, after } => {
                format!("{before}{}{after}", listed(list, messages, is_same))
            }
        }
    }
}

fn listed(list: &str, messages: &[Json<'_>], is_same: bool) -> String {
    match (is_same, messages) {
        (true, _) => list.to_owned(),
        (false, []) => "[]".to_owned(),
        (false, messages) => {
            let messages: Vec<&str> = messages.iter().map(|it| it.get()).collect();
            format!("[\n{}\n]", messages.join(",\n"))
        }
    }
}

/// Rewrites a message of several lines on one; it can only be the single message of its transcript.
fn on_one_line(message: &RawValue) -> Cow<'_, str> {
    let text = message.get();
    match text.contains('\n').then(|| serde_json::from_str::<Value>(text)) {
        Some(Ok(value)) => Cow::Owned(value.to_string()),
        _ => Cow::Borrowed(text),
    }
}
