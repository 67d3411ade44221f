//! Renders tool outputs as text.

use contexture_message::{Part, ToolOutput};

use crate::text::fill;

/// Returns the text of an output: JSON is serialised, and notes replace the media in a list of parts.
pub(super) fn text_of(output: &ToolOutput) -> String {
    match output {
        ToolOutput::Text(text) | ToolOutput::ErrorText(text) => text.clone(),
        ToolOutput::Json(value) | ToolOutput::ErrorJson(value) => value.to_string(),
        ToolOutput::ExecutionDenied { reason } => reason.clone().unwrap_or_default(),
        ToolOutput::Content(parts) => parts.iter().filter_map(part_text).collect::<Vec<_>>().join("\n"),
    }
}

fn part_text(part: &Part) -> Option<String> {
    match part {
        Part::Text { text } => Some(text.clone()),
        Part::Image(_) => Some(media("image")),
        Part::File(_) => Some(media("file")),
        // Tools never return these parts.
        Part::Thinking(_) | Part::ToolCall(_) | Part::ToolResult(_) => None,
    }
}

fn media(kind: &str) -> String {
    fill(include_str!("templates/media.txt"), &[("kind", kind)])
}
