//! Encodes and decodes thinking as `reasoning` items.
//!
//! The signature of a [`Thinking`] is the whole item as JSON text, which is sent back unchanged. Since no
//! conversation is stored, the provider can only read an item that includes its content. So an item with neither
//! encrypted nor plain content gets no signature.

use contexture_message::Thinking;
use serde_json::{Value, json};

use crate::Target;

/// Decodes an item; returns `None` if it has neither text nor a signature.
pub(super) fn read(target: &Target, item: &Value) -> Option<Thinking> {
    let (text, signature) = (text(item), signature(item));
    let says = !text.is_empty() || signature.is_some();
    says.then(|| Thinking { text, signature, provider: Some(target.provider.clone()), redacted: false })
}

/// Returns the item as a signature, if it can be sent back.
pub(super) fn signature(item: &Value) -> Option<String> {
    is_replayable(item).then(|| item.to_string())
}

/// Returns the item to send back, or the reason why there is none.
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

/// Encodes thinking in an answer, under `id` if it cannot be replayed as the provider's item.
pub(super) fn write(target: &Target, thinking: &Thinking, id: &str) -> Value {
    replay(target, thinking).unwrap_or_else(|_| plain(id, &thinking.text))
}

/// Returns an item that has only a text.
pub(super) fn plain(id: &str, text: &str) -> Value {
    let summary = if text.is_empty() { json!([]) } else { json!([{"type": "summary_text", "text": text}]) };
    json!({"id": id, "type": "reasoning", "summary": summary})
}

/// Returns whether a provider that stored nothing can read the item again.
fn is_replayable(item: &Value) -> bool {
    let encrypted = item.get("encrypted_content").and_then(Value::as_str).is_some_and(|it| !it.is_empty());
    let open = item.get("content").and_then(Value::as_array).is_some_and(|it| !it.is_empty());
    item.get("type").is_some_and(|it| it == "reasoning") && (encrypted || open)
}

/// Returns the readable text: the summary, or the thinking itself if the model shows it.
pub(super) fn text(item: &Value) -> String {
    let texts = |field: &str| -> Vec<&str> {
        let parts = item.get(field).and_then(Value::as_array).into_iter().flatten();
        parts.filter_map(|it| it.get("text")?.as_str()).collect()
    };
    let (summary, content) = (texts("summary"), texts("content"));
    if summary.is_empty() { content.join("\n\n") } else { summary.join("\n\n") }
}
