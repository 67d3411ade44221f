//! OpenAI's Chat Completions as documented for clients. `contexture_wire` reads and writes the real thing.
#![expect(dead_code, reason = "these types only describe")]

use schemars::JsonSchema;
use serde_json::{Map, Value};

use crate::http::schemas::{accepts, returns};

accepts!(ChatCompletionRequest);
returns!(ChatCompletion, ChatCompletionFrame);

/// A request for a chat completion. Fields that are not listed here are OpenAI's. Those that would change the answer and
/// are not supported are refused.
#[derive(JsonSchema)]
#[schemars(example = serde_json::json!({"model": "chat", "messages": [{"role": "user", "content": "Hello"}]}))]
pub(crate) struct ChatCompletionRequest {
    /// A prompt's id, or `provider/model`.
    model: String,
    /// The conversation, or its newest part.
    #[schemars(length(min = 1))]
    messages: Vec<Map<String, Value>>,
    /// Whether the answer is streamed.
    stream: Option<bool>,
    /// Tools that the client runs.
    tools: Option<Vec<Map<String, Value>>>,
    /// `contexture_session` or `session` names the session.
    metadata: Option<Map<String, Value>>,
    /// Names the session if nothing else does.
    user: Option<String>,
}

/// A frame of a streamed completion.
#[derive(JsonSchema)]
pub(crate) struct ChatCompletionFrame {
    /// A chunk as OpenAI sends it, as JSON on one line; at the end `[DONE]`.
    data: String,
}

/// A chat completion.
#[derive(JsonSchema)]
pub(crate) struct ChatCompletion {
    /// Such as `chatcmpl-…`.
    id: String,
    /// Always `chat.completion`.
    object: String,
    /// The time, in seconds since 1970.
    created: i64,
    /// The model as the request named it.
    model: String,
    /// One choice, with `message` and `finish_reason`.
    choices: Vec<Map<String, Value>>,
    /// The tokens used.
    #[schemars(skip_serializing_if = "Option::is_none")]
    usage: Option<Map<String, Value>>,
    /// Calls that wait for a person: `approvals`.
    #[schemars(skip_serializing_if = "Option::is_none")]
    contexture: Option<Map<String, Value>>,
}
