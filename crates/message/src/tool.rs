//! Tool definitions and the choice among them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

/// A tool as the model sees it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ToolDefinition {
    /// The name the model calls it by.
    pub name: String,
    /// What it does and when to use it.
    #[serde(default)]
    pub description: String,
    /// The JSON Schema of its arguments.
    #[serde(default = "any_object")]
    #[schemars(with = "Map<String, Value>")]
    pub parameters: Value,
    /// A tool that some providers have themselves. To models that know theirs it goes as that, without description and
    /// schema.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub native: Option<NativeTool>,
}

/// Tools that providers have themselves, with the same arguments and answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum NativeTool {
    /// Files in the folder `/memories`: Anthropic's memory tool.
    Memory,
}

impl ToolDefinition {
    /// Returns a tool that takes any object.
    pub fn new(name: impl Into<String>, description: impl Into<String>) -> Self {
        Self { name: name.into(), description: description.into(), parameters: any_object(), native: None }
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
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
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
