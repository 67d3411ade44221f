//! Messages and tools without the engine's own tags.

use std::borrow::Cow;
use std::sync::Arc;

use contexture_message::{Message, Part, Tool, ToolOutput};
use serde_json::Value;

use super::neutralise;

/// Returns the message with the engine's tags neutralised in every text; the same message if there are none.
///
/// Thinking stays as it is: it must go back to its provider byte for byte.
///
/// ```
/// use std::sync::Arc;
///
/// use contexture_history::neutral::neutral_message;
/// use contexture_message::Message;
///
/// let forged = neutral_message(&Arc::new(Message::user("<system-event>")));
/// assert_eq!(forged.as_text(), Some("&lt;system-event>"));
/// ```
pub fn neutral_message(message: &Arc<Message>) -> Arc<Message> {
    neutral_unless(message, |_| false)
}

/// Returns the message with the engine's tags neutralised in every part that is not `trusted`. Only parts that
/// hold such a tag are asked about.
pub(crate) fn neutral_unless(message: &Arc<Message>, trusted: impl Fn(&Part) -> bool) -> Arc<Message> {
    let is_forged = |part: &Part| has_engine_tag(part) && !trusted(part);
    if !message.content.iter().any(is_forged) {
        return Arc::clone(message);
    }
    let neutral = |part: &Part| if is_forged(part) { neutral_part(part.clone()) } else { part.clone() };
    let content = message.content.iter().map(neutral).collect();
    Arc::new(Message { role: message.role, content, id: message.id.clone() })
}

/// Returns the tool with the engine's tags neutralised in everything that the model reads as text.
pub fn neutral_tool(tool: Tool) -> Tool {
    let description = neutralise(&tool.description).into_owned();
    Tool { description, parameters: neutral_value(tool.parameters), ..tool }
}

fn has_engine_tag(part: &Part) -> bool {
    match part {
        Part::Text { text } => is_forged(text),
        Part::ToolResult(result) => match &result.output {
            ToolOutput::Text(text) | ToolOutput::ErrorText(text) => is_forged(text),
            ToolOutput::Json(value) | ToolOutput::ErrorJson(value) => any_string(value, &is_forged),
            ToolOutput::ExecutionDenied { reason } => reason.as_deref().is_some_and(is_forged),
            ToolOutput::Content(parts) => parts.iter().any(has_engine_tag),
        },
        Part::ToolCall(call) => any_string(&call.arguments, &is_forged),
        Part::Image(_) | Part::File(_) | Part::Thinking(_) => false,
    }
}

/// Returns the part with the engine's tags neutralised.
pub(crate) fn neutral_part(part: Part) -> Part {
    match part {
        Part::Text { text } => Part::Text { text: neutralise(&text).into_owned() },
        Part::ToolResult(mut result) => {
            result.output = neutral_output(result.output);
            Part::ToolResult(result)
        }
        Part::ToolCall(mut call) => {
            call.arguments = neutral_value(call.arguments);
            Part::ToolCall(call)
        }
        other @ (Part::Image(_) | Part::File(_) | Part::Thinking(_)) => other,
    }
}

fn neutral_output(output: ToolOutput) -> ToolOutput {
    let neutral = |text: String| neutralise(&text).into_owned();
    match output {
        ToolOutput::Text(text) => ToolOutput::Text(neutral(text)),
        ToolOutput::ErrorText(text) => ToolOutput::ErrorText(neutral(text)),
        ToolOutput::Json(value) => ToolOutput::Json(neutral_value(value)),
        ToolOutput::ErrorJson(value) => ToolOutput::ErrorJson(neutral_value(value)),
        ToolOutput::ExecutionDenied { reason } => ToolOutput::ExecutionDenied { reason: reason.map(neutral) },
        ToolOutput::Content(parts) => ToolOutput::Content(parts.into_iter().map(neutral_part).collect()),
    }
}

fn neutral_value(value: Value) -> Value {
    match value {
        Value::String(text) => Value::String(neutralise(&text).into_owned()),
        Value::Array(items) => items.into_iter().map(neutral_value).collect(),
        Value::Object(fields) => fields.into_iter().map(|(key, value)| (key, neutral_value(value))).collect(),
        other => other,
    }
}

fn any_string(value: &Value, test: &impl Fn(&str) -> bool) -> bool {
    match value {
        Value::String(text) => test(text),
        Value::Array(items) => items.iter().any(|it| any_string(it, test)),
        Value::Object(fields) => fields.values().any(|it| any_string(it, test)),
        _ => false,
    }
}

fn is_forged(text: &str) -> bool {
    matches!(neutralise(text), Cow::Owned(_))
}
