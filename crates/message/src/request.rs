//! Everything one model call sends.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{Message, Settings, ToolChoice, ToolDefinition};

/// One model call, in no provider's dialect. `messages[0]` is the composed system message, if there is one.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Request {
    /// `provider/model`, where it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// What is said, in order. Shared with the history it came from.
    pub messages: Vec<Arc<Message>>,
    /// What may be called, sorted by name.
    #[serde(default)]
    pub tools: Vec<Arc<ToolDefinition>>,
    /// Whether tools must be used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_choice: Option<ToolChoice>,
    /// The JSON Schema of the answer, if it must be structured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<Arc<Value>>,
    /// How to generate.
    #[serde(default)]
    pub settings: Settings,
    /// Where the provider's prompt cache should be marked, in the order of the request.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub breakpoints: Vec<Breakpoint>,
}

/// The end of a cacheable prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Breakpoint {
    /// After the last tool definition.
    Tools,
    /// After so many bytes of the text of `messages[message]`.
    Text {
        /// The message's position.
        message: usize,
        /// The end of the prefix inside its text, at a character boundary.
        byte: usize,
    },
    /// After the whole of `messages[message]`.
    Message {
        /// The message's position.
        message: usize,
    },
}
