//! What a model may call, and what it gets back.

use serde::{Deserialize, Serialize};
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

/// Whether and which tools the model must use.
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

/// What the model sees of a tool's outcome, written as `{"type": …, "value": …}`.
///
/// The value of `execution-denied` may be absent. An unknown `type` is refused by name.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", content = "value", rename_all = "kebab-case", from = "RawOutput")]
pub enum ToolOutput {
    /// Plain text.
    Text(String),
    /// A structured value.
    Json(Value),
    /// A person or a policy refused the call.
    ExecutionDenied {
        /// Why, where it was said.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    /// The tool failed with a text.
    ErrorText(String),
    /// The tool failed with a structured value.
    ErrorJson(Value),
    /// Text, images and files.
    Content(Vec<Part>),
}

impl ToolOutput {
    /// The default model output of a tool's raw value: a string becomes text, anything else JSON.
    pub fn from_value(value: Value) -> Self {
        match value {
            Value::String(text) => ToolOutput::Text(text),
            other => ToolOutput::Json(other),
        }
    }

    /// The output of a tool that failed.
    pub fn failure(message: impl Into<String>) -> Self {
        ToolOutput::ErrorJson(json!({"error": message.into()}))
    }
}

/// Outputs as they are read: an optional value may be absent, the fields of a variant may not.
#[derive(Deserialize)]
#[serde(tag = "type", content = "value", rename_all = "kebab-case", deny_unknown_fields)]
enum RawOutput {
    Text(String),
    Json(Value),
    ExecutionDenied(Option<RawDenial>),
    ErrorText(String),
    ErrorJson(Value),
    Content(Vec<Part>),
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct RawDenial {
    reason: Option<String>,
}

impl From<RawOutput> for ToolOutput {
    fn from(raw: RawOutput) -> Self {
        match raw {
            RawOutput::Text(text) => ToolOutput::Text(text),
            RawOutput::Json(value) => ToolOutput::Json(value),
            RawOutput::ExecutionDenied(denial) => {
                ToolOutput::ExecutionDenied { reason: denial.unwrap_or_default().reason }
            }
            RawOutput::ErrorText(text) => ToolOutput::ErrorText(text),
            RawOutput::ErrorJson(value) => ToolOutput::ErrorJson(value),
            RawOutput::Content(parts) => ToolOutput::Content(parts),
        }
    }
}
