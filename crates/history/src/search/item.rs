//! The searchable text of an item.

use contexture_message::{Part, ToolCall, ToolOutput};
use serde_json::Value;

use crate::{Body, Item};

/// The kind of application item in which the agent keeps a tool's full output.
const TOOL_OUTPUT: &str = "contexture.tool_output";

/// Returns the searchable text of an item, if it has any.
///
/// Searchable are the texts of messages, evidence, the names and arguments of tool calls, tool results, system events,
/// envelopes, and the full outputs of tools (`contexture.tool_output`). Thinking, images and files, summaries (they
/// repeat what they cover), changes of the thread and other application items are not searchable.
pub fn searchable(item: &Item) -> Option<String> {
    let mut text = Pieces::default();
    match &item.body {
        Body::Message(message) => message.content.iter().for_each(|it| text.part(it)),
        Body::SystemEvent(event) => [&event.name, &event.text].into_iter().for_each(|it| text.add(it)),
        Body::Envelope(envelope) => {
            text.add(&envelope.text);
            envelope.evidence.iter().for_each(|it| text.add(&it.labelled_text()));
        }
        Body::Application(own) if own.kind == TOOL_OUTPUT => {
            text.add(own.value.get("text").and_then(Value::as_str).unwrap_or_default());
        }
        Body::Application(_) | Body::Summary(_) | Body::Change(_) => {}
    }
    (!text.0.is_empty()).then_some(text.0)
}

/// Collected texts, each on separate lines.
#[derive(Default)]
struct Pieces(String);

impl Pieces {
    fn add(&mut self, text: &str) {
        if text.is_empty() {
            return;
        }
        if !self.0.is_empty() {
            self.0.push('\n');
        }
        self.0.push_str(text);
    }

    fn part(&mut self, part: &Part) {
        match part {
            Part::Text { text, .. } => self.add(text),
            Part::ToolCall(ToolCall { name, arguments, .. }) => {
                self.add(name);
                self.value(arguments);
            }
            Part::ToolResult(result) => self.output(&result.output),
            Part::Evidence(evidence) => {
                self.add(evidence.title.as_deref().unwrap_or_default());
                self.add(&evidence.labelled_text());
            }
            Part::Image(_) | Part::File(_) | Part::Thinking(_) => {}
        }
    }

    fn output(&mut self, output: &ToolOutput) {
        match output {
            ToolOutput::Text(text) | ToolOutput::ErrorText(text) => self.add(text),
            ToolOutput::Json(value) | ToolOutput::ErrorJson(value) => self.value(value),
            ToolOutput::ExecutionDenied { reason } => self.add(reason.as_deref().unwrap_or_default()),
            ToolOutput::Content(parts) => parts.iter().for_each(|it| self.part(it)),
        }
    }

    /// Adds the names and values of a structure. Not as JSON, whose escapes would become part of the words.
    fn value(&mut self, value: &Value) {
        match value {
            Value::Null => {}
            Value::String(text) => self.add(text),
            Value::Bool(_) | Value::Number(_) => self.add(&value.to_string()),
            Value::Array(values) => values.iter().for_each(|it| self.value(it)),
            Value::Object(fields) => fields.iter().for_each(|(name, value)| match value {
                Value::String(text) => self.add(&format!("{name}: {text}")),
                Value::Bool(_) | Value::Number(_) => self.add(&format!("{name}: {value}")),
                Value::Null | Value::Array(_) | Value::Object(_) => {
                    self.add(name);
                    self.value(value);
                }
            }),
        }
    }
}
