//! Encodes parts as items and their content.

use contexture_message::{Part, Role};
use serde_json::{Value, json};

use crate::openai::encode_parts::Shown;

pub(super) fn message(role: Role, content: Value) -> Value {
    json!({"type": "message", "role": role.as_str(), "content": content})
}

/// Returns whether a part becomes an item that a `reasoning` item can precede.
pub(super) fn leads_on(part: &Part) -> bool {
    match part {
        Part::Text { .. } | Part::Image(_) | Part::File(_) | Part::Evidence(_) | Part::ToolCall(_) => true,
        Part::Thinking(_) | Part::ToolResult(_) => false,
    }
}

pub(super) fn image_part(url: &str) -> Value {
    json!({"type": "input_image", "image_url": url, "detail": "auto"})
}

pub(super) fn file_part(file: &Shown<'_>) -> Value {
    match file {
        Shown::Data { name, data } => json!({"type": "input_file", "filename": name, "file_data": data}),
        Shown::Url(url) => json!({"type": "input_file", "file_url": url}),
        Shown::Id(id) => json!({"type": "input_file", "file_id": id}),
    }
}
