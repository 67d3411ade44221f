//! The parts of a message, and the tool outputs that nest them.

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Value, json};

use crate::citation::{Citation, Evidence};
use crate::media::{File, Image};

/// One part of a message. An unknown `type` is rejected by name.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub enum Part {
    /// Plain text.
    Text {
        /// The text itself.
        text: String,
        /// What the text cites; only answers of a model have citations.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        citations: Vec<Citation>,
    },
    /// An image.
    Image(Image),
    /// A document or any other file.
    File(File),
    /// A search result that the model may cite.
    Evidence(Evidence),
    /// The model's thinking before its answer.
    Thinking(Thinking),
    /// A tool call by the model.
    ToolCall(ToolCall),
    /// The result of a tool call.
    ToolResult(ToolResult),
}

impl Part {
    /// Returns a text part without citations.
    pub fn text(text: impl Into<String>) -> Self {
        Part::Text { text: text.into(), citations: Vec::new() }
    }
}

/// The thinking of a model. The signature is specific to the provider and is replayed byte for byte.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Thinking {
    /// The readable text; may be empty if the provider hides it.
    #[serde(default)]
    pub text: String,
    /// The provider's opaque signature.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signature: Option<String>,
    /// The provider that produced it; it is never sent to another provider.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
    /// Whether the provider withheld the text, so that only the signature exists.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub redacted: bool,
}

/// A tool call by the model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ToolCall {
    /// The id that the result refers to.
    pub id: String,
    /// The tool's name.
    pub name: String,
    /// The arguments, usually an object.
    #[serde(default)]
    pub arguments: Value,
}

/// The result of one tool call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ToolResult {
    /// The call's id.
    pub call_id: String,
    /// The tool's name.
    #[serde(default)]
    pub name: String,
    /// The output that the model sees.
    pub output: ToolOutput,
}

/// The output of a tool as the model sees it, written as `{"type": …, "value": …}`.
///
/// The value of `execution-denied` may be absent. An unknown `type` is rejected by name. The AI SDK's format is also
/// read: `{"type": "execution-denied", "reason": …}`, and content such as
/// `{"type": "media", "data": …, "mediaType": …}`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", content = "value", rename_all = "kebab-case", try_from = "RawOutput")]
#[schemars(!try_from)]
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
    /// Text, images, files and evidence.
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
