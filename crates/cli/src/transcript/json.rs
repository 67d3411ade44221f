//! Helpers for reading the JSON of messages in any format.

use contexture_message::{File, Image, MediaSource, Part};
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

/// Returns a required object field.
pub(super) fn object<'v>(
    fields: &'v Map<String, Value>,
    key: &str,
) -> Result<&'v Map<String, Value>, String> {
    match fields.get(key) {
        Some(Value::Object(object)) => Ok(object),
        Some(_) => Err(format!("`{key}` is not an object")),
        None => Err(format!("`{key}` is missing")),
    }
}

/// Returns the parts of a content that is a text or a list of objects with a `type`.
pub(super) fn parts(
    content: &Value,
    part: impl Fn(&str, &Map<String, Value>) -> Result<Part, String>,
) -> Result<Vec<Part>, String> {
    match content {
        Value::String(text) => Ok(vec![Part::text(text)]),
        Value::Array(items) => items
            .iter()
            .enumerate()
            .map(|(idx, item)| {
                let read = match item {
                    Value::Object(fields) => text(fields, "type").and_then(|kind| part(kind, fields)),
                    _ => Err("it is not an object".to_owned()),
                };
                read.map_err(|what| format!("part {} of `content`: {what}", idx + 1))
            })
            .collect(),
        _ => Err("`content` is neither a text nor a list".to_owned()),
    }
}

/// Returns an image at a URL, which may be a data URL.
pub(super) fn image_at(url: &str) -> Part {
    let (source, media_type) = media_at(url);
    Part::Image(Image { source, media_type })
}

/// Returns a file at a URL, which may be a data URL.
pub(super) fn file_at(url: &str, name: Option<&str>) -> Part {
    let (source, media_type) = media_at(url);
    Part::File(File { source, media_type, name: name.map(str::to_owned) })
}

fn media_at(url: &str) -> (MediaSource, Option<String>) {
    match url.strip_prefix("data:").and_then(|it| it.split_once(',')) {
        Some((kind, data)) => {
            let media_type = kind.split(';').next().filter(|it| !it.is_empty());
            (MediaSource::Data(data.to_owned()), media_type.map(str::to_owned))
        }
        None => (MediaSource::Url(url.to_owned()), None),
    }
}

/// Returns a part of an unknown kind as text: it costs what its JSON costs without inline data.
pub(super) fn unknown(fields: &Map<String, Value>) -> Part {
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
