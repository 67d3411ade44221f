//! The hidden envelope of the user message.

use std::borrow::Cow;

use contexture_history::neutral::neutralise;
use contexture_history::{Envelope, EnvelopeTag, envelope_part};
use contexture_message::{Message, Part, Role};

/// Returns the envelope with these pieces, each on separate lines.
pub(crate) fn envelope(pieces: &[&str]) -> Envelope {
    Envelope { tag: EnvelopeTag::SystemContext, text: pieces.join("\n") }
}

/// Returns the text of the envelope with these pieces.
pub(crate) fn envelope_text(pieces: &[&str]) -> String {
    match envelope_part(&envelope(pieces)) {
        Part::Text { text } => text,
        _ => String::new(),
    }
}

/// Returns whether the user wrote the message: it is not the engine's and contains no tool results.
pub(crate) fn is_of_the_user(message: &Message) -> bool {
    let is_result = |it: &Part| matches!(it, Part::ToolResult(_));
    message.role == Role::User
        && !message.content.iter().any(is_result)
        && !message.content.iter().all(is_engines)
}

/// Returns whether the engine created a part. In all other parts the engine's tags were neutralised before.
pub(crate) fn is_engines(part: &Part) -> bool {
    matches!(part, Part::Text { text } if matches!(neutralise(text), Cow::Owned(_)))
}
