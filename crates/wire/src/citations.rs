//! What the dialects have in common about citations.

use contexture_message::{Citation, CitationOrigin, Message, Part};

use crate::loss::Losses;

/// Returns the citations of a message as its parts have them.
pub(crate) fn citations_of(message: &Message) -> impl Iterator<Item = &Citation> {
    let citations = message.content.iter().filter_map(|it| match it {
        Part::Text { citations, .. } => Some(citations),
        Part::Image(_)
        | Part::File(_)
        | Part::Evidence(_)
        | Part::Thinking(_)
        | Part::ToolCall(_)
        | Part::ToolResult(_) => None,
    });
    citations.flatten()
}

/// Reports citations that a request of the dialect cannot carry. Those in the text itself are sent with it.
pub(crate) fn report_unsent(citations: &[Citation], at: &str, losses: &mut Losses) {
    if citations.iter().any(|it| it.origin == CitationOrigin::Provider) {
        losses.add(format!("{at}.citations"), "citations can't be sent back, left out");
    }
}
