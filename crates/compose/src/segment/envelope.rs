//! The hidden envelope of the user message.

use std::borrow::Cow;

use contexture_history::neutral::neutralise_envelopes;
use contexture_history::{Envelope, EnvelopeTag, envelope_parts};
use contexture_message::{Evidence, Message, Part, Role};

/// Returns the envelope with these pieces, each on separate lines, and with this evidence.
pub(crate) fn envelope(tag: EnvelopeTag, pieces: &[&str], evidence: Vec<Evidence>) -> Envelope {
    Envelope { tag, text: pieces.join("\n"), evidence }
}

/// Returns the text of an envelope with these pieces.
pub(crate) fn envelope_text(tag: EnvelopeTag, pieces: &[&str]) -> String {
    envelope_parts(&envelope(tag, pieces, Vec::new()))
        .into_iter()
        .filter_map(|it| if let Part::Text { text, .. } = it { Some(text) } else { None })
        .collect()
}

/// Returns whether the user wrote the message: it is not the engine's and contains no tool results.
pub(crate) fn is_of_the_user(message: &Message) -> bool {
    let is_result = |it: &Part| matches!(it, Part::ToolResult(_));
    message.role == Role::User
        && !message.content.iter().any(is_result)
        && !message.content.iter().all(is_engines)
}

/// Returns whether the engine created a part. In all other parts the engine's tags were neutralised before. Evidence is
/// not what a user says, whoever added it.
pub(crate) fn is_engines(part: &Part) -> bool {
    match part {
        Part::Text { text, .. } => matches!(neutralise_envelopes(text), Cow::Owned(_)),
        Part::Evidence(_) => true,
        _ => false,
    }
}
