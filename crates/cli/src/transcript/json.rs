//! Helpers for reading the JSON of messages in any format.

use contexture_message::Part;
use contexture_wire::{DecodeError, Dialect, Target, decode_request};
use serde_json::{Map, Value, json};

/// Fields with opaque values: inline data, and data that a provider signed or encrypted.
const OPAQUE: [&str; 6] =
    ["data", "file_data", "signature", "encrypted_content", "encrypted_index", "b64_json"];

/// Returns a required text field.
pub(super) fn text<'v>(fields: &'v Map<String, Value>, key: &str) -> Result<&'v str, String> {
    match fields.get(key) {
        Some(Value::String(text)) => Ok(text),
        Some(_) => Err(format!("`{key}` is not a text")),
        None => Err(format!("`{key}` is missing")),
    }
}

/// Returns an optional text field.
pub(super) fn maybe_text<'v>(fields: &'v Map<String, Value>, key: &str) -> Option<&'v str> {
    fields.get(key).and_then(Value::as_str)
}

/// Decodes the parts of a content that is a text or a list of blocks: one part per block, in the same order.
pub(super) fn parts(
    content: &Value,
    block: impl Fn(&str, &Map<String, Value>) -> Result<Part, String>,
) -> Result<Vec<Part>, String> {
    match content {
        Value::String(text) => Ok(vec![Part::text(text)]),
        Value::Array(items) => items
            .iter()
            .enumerate()
            .map(|(idx, item)| {
                let read = match item {
                    Value::Object(fields) => text(fields, "type").and_then(|kind| block(kind, fields)),
                    _ => Err("it is not an object".to_owned()),
                };
                read.map_err(|what| format!("part {} of `content`: {what}", idx + 1))
            })
            .collect(),
        _ => Err("`content` is neither a text nor a list".to_owned()),
    }
}

/// Decodes one block of a message by the provider's dialect. A block of an unknown kind is read as text.
pub(super) fn block(dialect: Dialect, role: &str, block: &Map<String, Value>) -> Result<Part, String> {
    let part = decoded(dialect, json!({"role": role, "content": [block]}))?;
    Ok(part.unwrap_or_else(|| unknown(block)))
}

/// Decodes a message that has a single part; returns `None` if the dialect does not know its kind.
pub(super) fn decoded(dialect: Dialect, message: Value) -> Result<Option<Part>, String> {
    let provider = match dialect {
        Dialect::Anthropic => "anthropic",
        Dialect::Openai | Dialect::OpenaiResponses | Dialect::Gemini => "openai",
    };
    let target = Target::new(dialect, provider, "");
    match decode_request(&target, &json!({"messages": [message]})) {
        Ok(decoded) => {
            let message = decoded.value.messages.into_iter().next();
            Ok(message.and_then(|it| it.content.first().cloned()))
        }
        Err(DecodeError { at, reason }) => {
            let at = ["messages[0].", "content[0].", "tool_calls[0]."]
                .iter()
                .fold(at.as_str(), |at, prefix| at.strip_prefix(prefix).unwrap_or(at));
            Err(format!("`{at}` {reason}"))
        }
    }
}

/// Returns a block of an unknown kind as text: it costs what its JSON costs without inline data.
fn unknown(fields: &Map<String, Value>) -> Part {
    Part::text(readable(&Value::Object(fields.clone())).to_string())
}

fn readable(value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            let fields = fields.iter().filter(|(key, _)| !OPAQUE.contains(&key.as_str()));
            fields.map(|(key, value)| (key.clone(), readable(value))).collect::<Map<_, _>>().into()
        }
        Value::Array(items) => items.iter().map(readable).collect(),
        Value::String(text) if text.starts_with("data:") => json!("data:"),
        other => other.clone(),
    }
}

/// Returns a message with only the given parts in its `content`.
pub(super) fn with_parts(fields: &Map<String, Value>, parts: &[usize]) -> Map<String, Value> {
    with_content(fields, parts.iter().filter_map(|it| part_at(fields, *it)).collect())
}

/// Returns a message with its `content` replaced.
pub(super) fn with_content(fields: &Map<String, Value>, content: Vec<Value>) -> Map<String, Value> {
    let mut fields = fields.clone();
    fields.insert("content".to_owned(), Value::Array(content));
    fields
}

/// Returns one part of a `content`.
pub(super) fn part_at(fields: &Map<String, Value>, idx: usize) -> Option<Value> {
    fields.get("content")?.as_array()?.get(idx).cloned()
}
