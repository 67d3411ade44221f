//! Tool definitions and tool outputs.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Value, json};

use crate::Part;

/// A tool as the model sees it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToolDefinition {
    /// The name the model calls it by.
    pub name: String,
    /// What it does and when to use it.
    #[serde(default)]
    pub description: String,
    /// The JSON Schema of its arguments.
    #[serde(default = "any_object")]
    pub parameters: Value,
}

impl ToolDefinition {
    /// Returns a tool that takes any object.
    pub fn new(name: impl Into<String>, description: impl Into<String>) -> Self {
        Self { name: name.into(), description: description.into(), parameters: any_object() }
    }

    /// Returns the same tool with a JSON Schema for its arguments.
    #[must_use]
    pub fn parameters(mut self, schema: Value) -> Self {
        self.parameters = schema;
        self
    }
}

fn any_object() -> Value {
    json!({"type": "object"})
}

/// Whether the model must use tools, and which.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolChoice {
    /// The model decides.
    Auto,
    /// No tool may be called.
    None,
    /// At least one tool must be called.
    Required,
    /// This tool must be called: `{"tool": "name"}`.
    Tool(String),
}

/// The output of a tool as the model sees it, written as `{"type": …, "value": …}`.
///
/// The value of `execution-denied` may be absent. An unknown `type` is rejected by name. The AI SDK's format is also
/// read: `{"type": "execution-denied", "reason": …}`, and content such as
/// `{"type": "media", "data": …, "mediaType": …}`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", content = "value", rename_all = "kebab-case", try_from = "RawOutput")]
pub enum ToolOutput {
    /// Plain text.
    Text(String),
    /// A structured value.
    Json(Value),
    /// A person or a policy denied the call.
    ExecutionDenied {
        /// The reason, if one was given.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    /// The tool failed with an error text.
    ErrorText(String),
    /// The tool failed with a structured error.
    ErrorJson(Value),
    /// Text, images and files.
    Content(Vec<Part>),
}

impl ToolOutput {
    /// Returns the default output for a tool's raw value: a string becomes text, anything else JSON.
    pub fn from_value(value: Value) -> Self {
        match value {
            Value::String(text) => ToolOutput::Text(text),
            other => ToolOutput::Json(other),
        }
    }

    /// Returns the output of a tool that failed.
    pub fn failure(message: impl Into<String>) -> Self {
        ToolOutput::ErrorJson(json!({"error": message.into()}))
    }
}

/// An output in its serialised form.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawOutput {
    #[serde(rename = "type")]
    kind: OutputKind,
    /// Absent differs from `null`, which is a valid value of `json`.
    #[serde(default, deserialize_with = "present")]
    value: Option<Value>,
    /// The AI SDK's field for the reason of a denial.
    #[serde(default)]
    reason: Option<String>,
}

#[derive(Clone, Copy, Deserialize, PartialEq)]
#[serde(rename_all = "kebab-case")]
enum OutputKind {
    Text,
    Json,
    ExecutionDenied,
    ErrorText,
    ErrorJson,
    Content,
}

fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct RawDenial {
    reason: Option<String>,
}

impl TryFrom<RawOutput> for ToolOutput {
    type Error = serde_json::Error;

    fn try_from(raw: RawOutput) -> Result<Self, Self::Error> {
        let RawOutput { kind, value, reason } = raw;
        if kind == OutputKind::ExecutionDenied {
            let denial: RawDenial = read(value.filter(|it| !it.is_null()).unwrap_or_else(|| json!({})))?;
            return Ok(ToolOutput::ExecutionDenied { reason: denial.reason.or(reason) });
        }
        if reason.is_some() {
            return Err(serde::de::Error::custom("unknown field `reason`, expected `value`"));
        }
        let value = value.ok_or_else(|| serde::de::Error::missing_field("value"))?;
        Ok(match kind {
            OutputKind::Text => ToolOutput::Text(read(value)?),
            OutputKind::ErrorText => ToolOutput::ErrorText(read(value)?),
            OutputKind::ErrorJson => ToolOutput::ErrorJson(value),
            OutputKind::Content => ToolOutput::Content(read(content(value))?),
            OutputKind::Json | OutputKind::ExecutionDenied => ToolOutput::Json(value),
        })
    }
}

fn read<T: DeserializeOwned>(value: Value) -> Result<T, serde_json::Error> {
    serde_json::from_value(value)
}

/// Returns content with its parts in our format.
fn content(mut value: Value) -> Value {
    value.as_array_mut().into_iter().flatten().for_each(respell);
    value
}

/// Converts a part from the AI SDK's format to ours; other parts are not changed.
fn respell(part: &mut Value) {
    let Some(fields) = part.as_object_mut() else { return };
    let media_type = fields.get("mediaType").and_then(Value::as_str).unwrap_or_default();
    let kind = match fields.get("type").and_then(Value::as_str) {
        Some("image-data" | "image-url") => "image",
        Some("file-data" | "file-url") => "file",
        Some("media") if media_type.starts_with("image/") => "image",
        Some("media") => "file",
        _ => return,
    };
    fields.insert("type".to_owned(), json!(kind));
    for (theirs, ours) in [("mediaType", "media_type"), ("filename", "name")] {
        if let Some(value) = fields.shift_remove(theirs) {
            fields.insert(ours.to_owned(), value);
        }
    }
}
