//! Follows messages through the window and the repair, so that what is kept can be printed as it came.
//!
//! The engine gets a sketch of each message: its calls and results under their ids, and of everything else only whether it
//! says something. A sketch carries the message's number as its id, and each result its place as its output, which
//! nobody looks at on the way.

use contexture_message::{Message, Part, ToolCall, ToolOutput, ToolResult};
use serde_json::{Value, json};

/// What goes along of the messages that came, or is added to them.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Piece {
    /// A message as it came.
    Whole(usize),
    /// These parts of a message; results are missing.
    Rest(usize, Vec<usize>),
    /// Results as a message of their own.
    Results(Vec<Answer>),
}

/// A result that was not where it is now.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Answer {
    /// This part of this message.
    Moved(usize, usize),
    /// What the repair says in the place of a result.
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
        Part::Text { text } if text.trim().is_empty() => Part::text(""),
        Part::Text { .. } | Part::Image(_) | Part::File(_) | Part::Thinking(_) => Part::text("said"),
    });
    Message::parts(message.role, parts.collect()).with_id(number.to_string())
}

/// Returns the number of the message that this is the sketch of.
pub(crate) fn number(sketch: &Message) -> Option<usize> {
    sketch.id.as_ref()?.parse().ok()
}

/// Returns what a sketch stands for after the repair. `content` gives the parts of a message by its number.
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
