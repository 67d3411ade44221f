//! Everything that one model call sends.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{Message, Settings, ToolChoice, ToolDefinition};

/// One model call, independent of any provider's dialect. `messages[0]` is the composed system message, if there is
/// one.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "ModelRequest")]
pub struct Request {
    /// The model as `provider/model`, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The messages, in order. Shared with the history they came from.
    pub messages: Vec<Arc<Message>>,
    /// The tools that may be called, sorted by name.
    #[serde(default)]
    pub tools: Vec<Arc<ToolDefinition>>,
    /// Whether the model must use tools.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_choice: Option<ToolChoice>,
    /// The JSON Schema of the answer, if it must be structured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<Arc<Value>>,
    /// The generation settings.
    #[serde(default)]
    pub settings: Settings,
    /// Where to set breakpoints for the provider's prompt cache, in request order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub breakpoints: Vec<Breakpoint>,
}

/// The end of a cacheable prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
#[schemars(rename = "CacheBreakpoint")]
pub enum Breakpoint {
    /// After the last tool definition.
    Tools,
    /// After a number of bytes of the text of `messages[message]`.
    Text {
        /// The index of the message.
        message: usize,
        /// The end of the prefix inside its text, at a character boundary.
        byte: usize,
    },
    /// After the whole of `messages[message]`.
    Message {
        /// The index of the message.
        message: usize,
    },
}
