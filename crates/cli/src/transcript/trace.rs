//! Follows messages through windowing and repair, so that kept messages can be printed unchanged.
//!
//! The engine gets a sketch of each message: its calls and results with their ids, and for other content only whether
//! there is any. A sketch has the index of its message as its id, and each result has its position as its output,
//! which the engine does not inspect.

use contexture_message::{Message, Part, ToolCall, ToolOutput, ToolResult};
use serde_json::{Value, json};

/// A piece of output: an original message, a part of one, or an addition.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Piece {
    /// An original message.
    Whole(usize),
    /// The given parts of a message; its other parts, which are results, are removed.
    Rest(usize, Vec<usize>),
    /// Results as a separate message.
    Results(Vec<Answer>),
}

/// A result that was moved or added.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Answer {
    /// The given part of the given message.
    Moved(usize, usize),
    /// A result that the repair made up for a missing one.
    New(ToolResult),
}

/// Returns the sketch of a message.
pub(crate) fn sketch(number: usize, message: &Message) -> Message {
    let parts = message.content.iter().enumerate().map(|(idx, part)| match part {
        Part::ToolCall(ToolCall { id, name, .. }) => {
            Part::ToolCall(ToolCall { id: id.clone(), name: name.clone(), arguments: Value::Null })
        }
        Part::ToolResult(ToolResult { call_id, name, .. }) => {
            let output = ToolOutput::Json(json!([number, idx]));
            Part::ToolResult(ToolResult { call_id: call_id.clone(), name: name.clone(), output })
        }
        Part::Text { text, .. } if text.trim().is_empty() => Part::text(""),
        Part::Text { .. } | Part::Image(_) | Part::File(_) | Part::Evidence(_) | Part::Thinking(_) => {
            Part::text("said")
        }
    });
    Message::parts(message.role, parts.collect()).with_id(number.to_string())
}

/// Returns the index of the message that a sketch stands for.
pub(crate) fn number(sketch: &Message) -> Option<usize> {
    sketch.id.as_ref()?.parse().ok()
}

/// Returns the piece that a sketch stands for after the repair. `content` returns the parts of a message by its index.
pub(crate) fn piece<'e>(sketch: &Message, content: impl Fn(usize) -> &'e [Part]) -> Piece {
    let results = sketch.content.iter().filter_map(|it| match it {
        Part::ToolResult(result) => Some(answer(result)),
        _ => None,
    });
    let Some(number) = number(sketch) else { return Piece::Results(results.collect()) };
    let content = content(number);
    if sketch.content.len() == content.len() {
        return Piece::Whole(number);
    }
    let there: Vec<Answer> = results.collect();
    let stays = |(idx, part): &(usize, &Part)| {
        !matches!(part, Part::ToolResult(_)) || there.contains(&Answer::Moved(number, *idx))
    };
    Piece::Rest(number, content.iter().enumerate().filter(stays).map(|(idx, _)| idx).collect())
}

fn answer(result: &ToolResult) -> Answer {
    let place = match &result.output {
        ToolOutput::Json(Value::Array(place)) => place.iter().map(Value::as_u64).collect(),
        _ => Vec::new(),
    };
    let index = |it: u64| usize::try_from(it).unwrap_or(usize::MAX);
    match place.as_slice() {
        [Some(message), Some(part)] => Answer::Moved(index(*message), index(*part)),
        _ => Answer::New(result.clone()),
    }
}
