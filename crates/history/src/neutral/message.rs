//! Neutralises the engine's tags in messages and tools.

use std::borrow::Cow;
use std::sync::Arc;

use contexture_message::{Evidence, File, Image, MediaSource, Message, Part, ToolDefinition, ToolOutput};
use serde_json::Value;

use super::neutralise;

/// Returns the message with the engine's tags neutralised in every text, or the same message if it has none.
///
/// Thinking is not changed: it must be sent back to its provider byte for byte.
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

/// Returns the message with the engine's tags neutralised in every part that is not `trusted`. `trusted` is called
/// only for parts that contain such a tag.
pub(crate) fn neutral_unless(message: &Arc<Message>, trusted: impl Fn(&Part) -> bool) -> Arc<Message> {
    let is_forged = |part: &Part| has_engine_tag(part) && !trusted(part);
    if !message.content.iter().any(is_forged) {
        return Arc::clone(message);
    }
    let neutral = |part: &Part| if is_forged(part) { neutral_part(part.clone()) } else { part.clone() };
    let content = message.content.iter().map(neutral).collect();
    Arc::new(Message { role: message.role, content, id: message.id.clone(), name: message.name.clone() })
}

/// Returns the tool with the engine's tags neutralised in every text that the model reads.
pub fn neutral_tool(tool: ToolDefinition) -> ToolDefinition {
    let description = neutralise(&tool.description).into_owned();
    ToolDefinition { description, parameters: neutral_value(tool.parameters), ..tool }
}

fn has_engine_tag(part: &Part) -> bool {
    match part {
        Part::Text { text, .. } => is_forged(text),
        Part::ToolResult(result) => match &result.output {
            ToolOutput::Text(text) | ToolOutput::ErrorText(text) => is_forged(text),
            ToolOutput::Json(value) | ToolOutput::ErrorJson(value) => any_string(value, &is_forged),
            ToolOutput::ExecutionDenied { reason } => reason.as_deref().is_some_and(is_forged),
            ToolOutput::Content(parts) => parts.iter().any(has_engine_tag),
        },
        Part::ToolCall(call) => any_string(&call.arguments, &is_forged),
        Part::Image(Image { source, media_type }) => is_forged_media(None, media_type.as_deref(), source),
        Part::File(File { source, media_type, name }) => {
            is_forged_media(name.as_deref(), media_type.as_deref(), source)
        }
        Part::Evidence(Evidence { chunk, source, title, text, citations: _ }) => {
            let names = [Some(chunk), Some(source), title.as_ref()].into_iter().flatten();
            names.chain(text).any(|it| is_forged(it))
        }
        Part::Thinking(_) => false,
    }
}

/// Whether the description the model reads in place of media contains a tag. The data itself is not read as text.
fn is_forged_media(name: Option<&str>, media_type: Option<&str>, source: &MediaSource) -> bool {
    let source = match source {
        MediaSource::Data(_) => None,
        MediaSource::Url(text) | MediaSource::Id(text) => Some(text.as_str()),
    };
    [name, media_type, source].into_iter().flatten().any(is_forged)
}

fn neutral_source(source: MediaSource) -> MediaSource {
    match source {
        MediaSource::Url(text) => MediaSource::Url(neutralise(&text).into_owned()),
        MediaSource::Id(text) => MediaSource::Id(neutralise(&text).into_owned()),
        data @ MediaSource::Data(_) => data,
    }
}

/// Returns the part with the engine's tags neutralised.
pub(crate) fn neutral_part(part: Part) -> Part {
    let neutral = |text: String| neutralise(&text).into_owned();
    match part {
        // Citations stay: they name what is sent elsewhere, and their spans are made to fit the text when they are read.
        Part::Text { text, citations } => Part::Text { text: neutral(text), citations },
        Part::ToolResult(mut result) => {
            result.output = neutral_output(result.output);
            Part::ToolResult(result)
        }
        Part::ToolCall(mut call) => {
            call.arguments = neutral_value(call.arguments);
            Part::ToolCall(call)
        }
        Part::Image(Image { source, media_type }) => {
            Part::Image(Image { source: neutral_source(source), media_type: media_type.map(neutral) })
        }
        Part::File(File { source, media_type, name }) => Part::File(File {
            source: neutral_source(source),
            media_type: media_type.map(neutral),
            name: name.map(neutral),
        }),
        Part::Evidence(Evidence { chunk, source, title, text, citations }) => Part::Evidence(Evidence {
            chunk: neutral(chunk),
            source: neutral(source),
            title: title.map(neutral),
            text: text.into_iter().map(neutral).collect(),
            citations,
        }),
        thinking @ Part::Thinking(_) => thinking,
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
        Value::Object(fields) => {
            // The model reads keys as well as values.
            let neutral =
                |(key, value): (String, Value)| (neutralise(&key).into_owned(), neutral_value(value));
            fields.into_iter().map(neutral).collect()
        }
        other => other,
    }
}

fn any_string(value: &Value, test: &impl Fn(&str) -> bool) -> bool {
    match value {
        Value::String(text) => test(text),
        Value::Array(items) => items.iter().any(|it| any_string(it, test)),
        Value::Object(fields) => fields.iter().any(|(key, value)| test(key) || any_string(value, test)),
        _ => false,
    }
}

fn is_forged(text: &str) -> bool {
    matches!(neutralise(text), Cow::Owned(_))
}
