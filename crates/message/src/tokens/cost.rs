//! The costs of messages, tools and requests, with any counter.
//!
//! A cost is the tokens of the texts that the model reads, plus the counter's [`Framing`](super::Framing). Media
//! have a typical cost for their kind; base64 is never counted as text.

use serde_json::Value;

use super::{TokenCounter, Tokens};
use crate::{Evidence, File, MediaSource, Message, Part, Request, ToolDefinition, ToolOutput};

/// Providers read a PDF as text and an image of each page; Anthropic documents 1,500 to 3,000 tokens a page.
const PDF_PAGE: u32 = 2_000;
/// The assumed bytes per PDF page, rather low: a scan has more, a page of plain text has about as many.
const PDF_PAGE_BYTES: usize = 50_000;
/// The words around a reference to a file or around the reason for a denial.
const SENTENCE: Tokens = Tokens(12);
/// The tag around a search result, with the names of its attributes.
const SEARCH_RESULT: Tokens = Tokens(24);

/// Returns the cost of a whole request: its messages, tools and output schema, with all framing.
pub fn request_tokens(counter: &dyn TokenCounter, request: &Request) -> Tokens {
    let messages: Tokens = request.messages.iter().map(|it| message_tokens(counter, it)).sum();
    let tools: Tokens = request.tools.iter().map(|it| tool_tokens(counter, it)).sum();
    let output = request.output.as_deref().map_or(Tokens(0), |it| schema_tokens(counter, it));
    Tokens(counter.profile().framing.request) + messages + tools + output
}

/// Returns the cost of a message: its parts and the framing around it.
///
/// Each tool call and each tool result is framed like a message, since some providers send each as a separate
/// message.
pub fn message_tokens(counter: &dyn TokenCounter, message: &Message) -> Tokens {
    let framing = counter.profile().framing;
    let framed = message.content.iter().filter(|it| matches!(it, Part::ToolCall(_) | Part::ToolResult(_)));
    let frames = u32::try_from(framed.count()).unwrap_or(u32::MAX).max(1);
    let parts: Tokens = message.content.iter().map(|it| cost_of(counter, framing.image, it)).sum();
    let name = message.name.as_deref().map_or(Tokens(0), |it| counter.count(it) + Tokens(1));
    Tokens(framing.message.saturating_mul(frames)) + parts + name
}

/// Returns the cost of a part alone, without the message around it.
pub fn part_tokens(counter: &dyn TokenCounter, part: &Part) -> Tokens {
    cost_of(counter, counter.profile().framing.image, part)
}

/// Returns the cost of a tool's definition, with its framing.
pub fn tool_tokens(counter: &dyn TokenCounter, tool: &ToolDefinition) -> Tokens {
    Tokens(counter.profile().framing.tool)
        + counter.count(&tool.name)
        + counter.count(&tool.description)
        + schema_tokens(counter, &tool.parameters)
}

/// Returns the cost of a JSON Schema, or of any value, written without whitespace.
pub fn schema_tokens(counter: &dyn TokenCounter, schema: &Value) -> Tokens {
    match schema {
        Value::Null => counter.count("null"),
        // Calls without arguments are common, and need no allocated text.
        Value::Object(fields) if fields.is_empty() => counter.count("{}"),
        value => counter.count(&value.to_string()),
    }
}

fn cost_of(counter: &dyn TokenCounter, image: u32, part: &Part) -> Tokens {
    match part {
        // Providers do not count citations that are sent back.
        Part::Text { text, .. } => counter.count(text),
        Part::Image(_) => Tokens(image),
        Part::File(file) => file_tokens(counter, image, file),
        Part::Evidence(evidence) => evidence_tokens(counter, evidence),
        // The signature is opaque, so its cost is unknown and not counted.
        Part::Thinking(thinking) => counter.count(&thinking.text),
        Part::ToolCall(call) => counter.count(&call.name) + schema_tokens(counter, &call.arguments),
        Part::ToolResult(result) => output_tokens(counter, image, &result.output),
    }
}

fn output_tokens(counter: &dyn TokenCounter, image: u32, output: &ToolOutput) -> Tokens {
    match output {
        ToolOutput::Text(text) | ToolOutput::ErrorText(text) => counter.count(text),
        ToolOutput::Json(value) | ToolOutput::ErrorJson(value) => schema_tokens(counter, value),
        ToolOutput::ExecutionDenied { reason } => {
            SENTENCE + reason.as_deref().map_or(Tokens(0), |it| counter.count(it))
        }
        ToolOutput::Content(parts) => parts.iter().map(|it| cost_of(counter, image, it)).sum(),
    }
}

/// Counts a search result: its texts and what names it, with the tag that some dialects write around it.
fn evidence_tokens(counter: &dyn TokenCounter, evidence: &Evidence) -> Tokens {
    let Evidence { chunk, source, title, text, citations: _ } = evidence;
    let names = [chunk.as_str(), source, title.as_deref().unwrap_or_default()];
    let texts = text.iter().map(String::as_str);
    SEARCH_RESULT + names.into_iter().chain(texts).map(|it| counter.count(it)).sum()
}

fn file_tokens(counter: &dyn TokenCounter, image: u32, file: &File) -> Tokens {
    let address = match &file.source {
        MediaSource::Url(url) if !url.starts_with("data:") => url,
        MediaSource::Id(id) => id,
        MediaSource::Data(_) | MediaSource::Url(_) => "",
    };
    let media_type = file.media_type.as_deref().unwrap_or_default();
    match media_type {
        "application/pdf" => {
            let inline = match &file.source {
                MediaSource::Data(data) | MediaSource::Url(data) => data.len() / 4 * 3,
                MediaSource::Id(_) => 0,
            };
            let pages = u32::try_from(inline.div_ceil(PDF_PAGE_BYTES)).unwrap_or(u32::MAX).max(1);
            Tokens(PDF_PAGE.saturating_mul(pages))
        }
        it if it.starts_with("image/") => Tokens(image),
        _ => {
            let name = file.name.as_deref().unwrap_or_default();
            SENTENCE + [name, media_type, address].into_iter().map(|it| counter.count(it)).sum()
        }
    }
}
