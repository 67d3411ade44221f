//! Encodes tool outputs as text, the only form that OpenAI's dialects accept.
//!
//! A structured value becomes its JSON, a denial a sentence. Content becomes its texts, separated by newlines, with a
//! reference in place of everything that is not text; each reference is a loss.

use contexture_message::{Part, ToolOutput};

use crate::loss::Losses;
use crate::reference;

/// Returns the text of the output at `at`.
pub(crate) fn text(output: &ToolOutput, at: &str, losses: &mut Losses) -> String {
    match output {
        ToolOutput::Text(text) | ToolOutput::ErrorText(text) => text.clone(),
        ToolOutput::Json(value) | ToolOutput::ErrorJson(value) => value.to_string(),
        ToolOutput::ExecutionDenied { reason } => reference::denial(reason.as_deref()),
        ToolOutput::Content(parts) => content(parts, at, losses),
    }
}

fn content(parts: &[Part], at: &str, losses: &mut Losses) -> String {
    let mut lines = Vec::with_capacity(parts.len());
    for (idx, part) in parts.iter().enumerate() {
        if !matches!(part, Part::Text { .. }) {
            losses.add(format!("{at}.output[{idx}]"), "tool results take text only, sent as a reference");
        }
        lines.push(reference::part(part));
    }
    lines.join("\n")
}
