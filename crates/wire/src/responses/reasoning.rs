//! Thinking as OpenAI Responses writes it: a `reasoning` item.
//!
//! The item as a whole, as JSON text, is the signature of a [`Thinking`]; it goes back as it came. Without a stored
//! conversation only an item that brings its own content can be read again, so one with neither encrypted nor open
//! content is not signed.

use contexture_message::Thinking;
use serde_json::{Value, json};

use crate::Target;

/// Reads an item; nothing if there is neither a text nor a signature.
pub(super) fn read(target: &Target, item: &Value) -> Option<Thinking> {
    let (text, signature) = (text(item), signature(item));
    let says = !text.is_empty() || signature.is_some();
    says.then(|| Thinking { text, signature, provider: Some(target.provider.clone()), redacted: false })
}

/// Returns the item as a signature, if it can be sent back.
pub(super) fn signature(item: &Value) -> Option<String> {
    is_replayable(item).then(|| item.to_string())
}

/// Returns the item to send back, or why there is none.
pub(super) fn replay(target: &Target, thinking: &Thinking) -> Result<Value, String> {
    if let Some(other) = thinking.provider.as_ref().filter(|it| **it != target.provider) {
        return Err(format!("made by `{other}`, left out"));
    }
    let Some(signature) = thinking.signature.as_ref().filter(|_| thinking.provider.is_some()) else {
        return Err("unsigned, left out".to_owned());
    };
    let item = serde_json::from_str(signature).ok().filter(is_replayable);
    item.ok_or_else(|| "not signed as an item of this dialect, left out".to_owned())
}

/// Returns the item of an answer of ours, under `id` if it is not the provider's own.
pub(super) fn write(target: &Target, thinking: &Thinking, id: &str) -> Value {
    replay(target, thinking).unwrap_or_else(|_| plain(id, &thinking.text))
}

/// Returns an item that has nothing but its text.
pub(super) fn plain(id: &str, text: &str) -> Value {
    let summary = if text.is_empty() { json!([]) } else { json!([{"type": "summary_text", "text": text}]) };
    json!({"id": id, "type": "reasoning", "summary": summary})
}

/// Whether the item can be read again by a provider that has kept nothing.
fn is_replayable(item: &Value) -> bool {
    let encrypted = item.get("encrypted_content").and_then(Value::as_str).is_some_and(|it| !it.is_empty());
    let open = item.get("content").and_then(Value::as_array).is_some_and(|it| !it.is_empty());
    item.get("type").is_some_and(|it| it == "reasoning") && (encrypted || open)
}

/// The readable text: the summary, or the thinking itself where a model shows it.
pub(super) fn text(item: &Value) -> String {
    let texts = |field: &str| -> Vec<&str> {
        let parts = item.get(field).and_then(Value::as_array).into_iter().flatten();
        parts.filter_map(|it| it.get("text")?.as_str()).collect()
    };
    let (summary, content) = (texts("summary"), texts("content"));
    if summary.is_empty() { content.join("\n\n") } else { summary.join("\n\n") }
}
