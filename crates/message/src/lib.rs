//! Messages, tools and requests for a model, and their token costs: plain data, serialisable both ways.
//!
//! [`Message`]s hold [`Part`]s; a [`ToolDefinition`] is what the model may call and a [`ToolOutput`] what it gets
//! back. A [`Request`] is everything that one model call sends, independent of any provider's dialect, and an
//! [`Answer`] is the reply. A [`TokenCounter`] counts the tokens of a text.
//!
//! Nothing here calls a model, reads a file or knows a provider's JSON.

mod answer;
mod citation;
mod error_code;
mod json;
mod media;
mod message;
mod model;
mod part;
mod request;
mod settings;
pub mod tokens;
mod tool;

pub use answer::{Answer, Delta, StopReason, Usage};
pub use citation::{Citation, CitationOrigin, Evidence, RawCitation, Span};
pub use error_code::{ErrorClass, ErrorCode};
pub use json::{JsonFault, JsonFaultKind, json_fault};
pub use media::{File, Image, MediaError, MediaSource};
pub use message::{Message, Role};
pub use model::{CacheRules, Price};
pub use part::{Part, Thinking, ToolCall, ToolOutput, ToolResult};
pub use request::{Breakpoint, Request};
pub use settings::{Effort, Reasoning, Settings};
pub use tokens::{
    CounterProfile, Encoding, Estimate, Family, Framing, Remembered, TokenCounter, Tokens, counter_for,
    message_tokens, part_tokens, tool_tokens,
};
pub use tool::{NativeTool, ToolChoice, ToolDefinition};
