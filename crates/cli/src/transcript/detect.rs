//! Detects the format of a transcript from its content.
//!
//! The first message that only one format allows decides. If all messages are plain text, which every format writes
//! the same way, lines are neutral and lists are OpenAI's.

use serde_json::{Map, Value};

use super::Format;
use super::source::{Layout, Source};

/// Returns the format of a transcript.
pub(crate) fn detect(source: &Source<'_>, messages: &[Map<String, Value>]) -> Format {
    if source.system.is_some() {
        return Format::Anthropic;
    }
    messages.iter().find_map(of_message).unwrap_or(match source.layout {
        Layout::Lines => Format::Neutral,
        Layout::List(_) | Layout::Request { .. } => Format::Openai,
    })
}

fn of_message(message: &Map<String, Value>) -> Option<Format> {
    let has = |key: &str| message.contains_key(key);
    if has("turn") {
        return Some(Format::Neutral);
    }
    if ["tool_calls", "tool_call_id", "function_call", "refusal"].into_iter().any(has) {
        return Some(Format::Openai);
    }
    let role = message.get("role").and_then(Value::as_str);
    if matches!(role, Some("developer" | "function")) {
        return Some(Format::Openai);
    }
    match message.get("content") {
        Some(Value::Array(parts)) => parts.iter().find_map(of_part),
        // Only OpenAI allows an assistant message with null content.
        Some(Value::Null) => Some(Format::Openai),
        _ => None,
    }
}

fn of_part(part: &Value) -> Option<Format> {
    let has = |key: &str| part.get(key).is_some();
    match part.get("type").and_then(Value::as_str)? {
        "tool_call" => Some(Format::Neutral),
        "tool_result" if has("call_id") => Some(Format::Neutral),
        "tool_result" | "tool_use" | "redacted_thinking" | "document" => Some(Format::Anthropic),
        "image" if has("source") => Some(Format::Anthropic),
        "thinking" if has("thinking") => Some(Format::Anthropic),
        "image" | "thinking" => Some(Format::Neutral),
        "image_url" | "input_audio" | "refusal" => Some(Format::Openai),
        "file" if has("file") => Some(Format::Openai),
        "file" => Some(Format::Neutral),
        _ if has("cache_control") => Some(Format::Anthropic),
        _ => None,
    }
}
