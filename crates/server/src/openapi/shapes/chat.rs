//! OpenAI's Chat Completions, as far as it matters here.
#![expect(dead_code, reason = "they describe, and are never made")]

use serde_json::Value;
use utoipa::ToSchema;

/// A request for a chat completion; fields that are not listed here are OpenAI's, and refused where they would change the
/// answer and can't be followed.
#[derive(ToSchema)]
#[schema(example = json!({"model": "chat", "messages": [{"role": "user", "content": "Hello"}]}))]
pub(crate) struct ChatBody {
    /// A prompt's id, or `provider/model`.
    model: String,
    /// The conversation, or its newest part.
    #[schema(value_type = Vec<Object>, min_items = 1)]
    messages: Vec<Value>,
    /// Whether the answer comes in pieces.
    stream: Option<bool>,
    /// Tools that the client runs.
    #[schema(value_type = Option<Vec<Object>>)]
    tools: Option<Vec<Value>>,
    /// `contexture_session` or `session` names the session.
    #[schema(value_type = Option<Object>)]
    metadata: Option<Value>,
    /// Names the session where nothing else does.
    user: Option<String>,
}

/// A frame of a completion that comes in pieces.
#[derive(ToSchema)]
pub(crate) struct ChatFrame {
    /// A chunk as OpenAI sends it, as JSON on one line; at the end `[DONE]`.
    data: String,
}

/// A chat completion.
#[derive(ToSchema)]
pub(crate) struct ChatCompletion {
    /// Such as `chatcmpl-…`.
    id: String,
    /// Always `chat.completion`.
    object: String,
    /// When, in seconds since 1970.
    created: i64,
    /// The model as the request named it.
    model: String,
    /// One choice, with `message` and `finish_reason`.
    #[schema(value_type = Vec<Object>)]
    choices: Vec<Value>,
    /// What it cost.
    #[schema(value_type = Option<Object>)]
    usage: Option<Value>,
    /// What waits for a person: `approvals`.
    #[schema(value_type = Option<Object>)]
    contexture: Option<Value>,
}
