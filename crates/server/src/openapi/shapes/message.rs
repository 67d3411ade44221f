//! Messages, tools and requests.
#![expect(dead_code, reason = "they describe, and are never made")]

use std::collections::BTreeMap;

use serde_json::Value;
use utoipa::ToSchema;

use super::part::{Part, SaidPart};

/// The author of a message.
#[derive(ToSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Role {
    System,
    User,
    Assistant,
    Tool,
}

/// One message of a conversation.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"role": "user", "content": "Where is my order?"}))]
pub(crate) struct Message {
    /// The author of a message.
    role: Role,
    /// What is said: a text, or a list of parts.
    content: Content,
    /// A stable id, where the message has one.
    id: Option<String>,
}

/// A text, or a list of parts.
#[derive(ToSchema)]
#[serde(untagged)]
pub(crate) enum Content {
    Text(String),
    Parts(Vec<Part>),
}

/// What a user says: a text, or a list of texts, images and files.
#[derive(ToSchema)]
#[serde(untagged)]
pub(crate) enum Said {
    Text(String),
    Parts(Vec<SaidPart>),
}

/// A tool call by the model.
#[derive(ToSchema)]
pub(crate) struct ToolCall {
    /// The id that the result refers to.
    id: String,
    /// The tool's name.
    name: String,
    /// The arguments, usually an object.
    #[schema(required = false)]
    arguments: Value,
}

/// What the model sees of a tool's outcome.
#[derive(ToSchema)]
#[serde(tag = "type", content = "value", rename_all = "kebab-case")]
pub(crate) enum ToolOutput {
    /// Plain text.
    Text(String),
    /// Any value.
    Json(Value),
    /// A person or a policy refused the call.
    ExecutionDenied { reason: Option<String> },
    /// The tool failed with a text.
    ErrorText(String),
    /// The tool failed with a value.
    ErrorJson(Value),
    /// Text, images and files.
    #[schema(no_recursion)]
    Content(Vec<Part>),
}

/// A tool that the client runs.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"name": "read_file", "description": "Reads a file.", "parameters": {"type": "object"}}))]
pub(crate) struct ClientTool {
    /// The name the model calls it by.
    name: String,
    /// What it does and when to use it.
    #[schema(required = false)]
    description: String,
    /// The JSON Schema of its arguments; any object without it.
    #[schema(value_type = Object, required = false)]
    parameters: Value,
}

/// A tool as the model sees it.
#[derive(ToSchema)]
pub(crate) struct ToolDefinition {
    /// The name the model calls it by.
    name: String,
    /// What it does and when to use it.
    description: String,
    /// The JSON Schema of its arguments.
    parameters: Value,
}

/// A block for the hidden envelope of the user's message.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct InlineBlock {
    /// Its name, which is also its tag.
    name: String,
    /// What it says.
    body: String,
    /// Its place among the blocks: lower first, then by name.
    #[schema(required = false, minimum = -2_147_483_648_i64, maximum = 2_147_483_647_i64)]
    order: i32,
}

/// How to generate.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Settings {
    /// How freely the model chooses.
    temperature: Option<f64>,
    /// The most tokens the model may write.
    #[schema(maximum = 4_294_967_295_i64)]
    max_tokens: Option<u32>,
    /// Nucleus sampling.
    top_p: Option<f64>,
    /// Sampling among the best k.
    #[schema(maximum = 4_294_967_295_i64)]
    top_k: Option<u32>,
    /// Texts that end the generation; one or a list.
    #[schema(required = false)]
    stop: Stop,
    /// The provider's random seed.
    seed: Option<i64>,
    /// How much the model should think: `{"budget": 4096}` or `{"effort": "low"}`.
    reasoning: Option<Reasoning>,
    /// Passed through to the provider as it is.
    #[schema(required = false)]
    provider: BTreeMap<String, Value>,
}

/// One text, or a list.
#[derive(ToSchema)]
#[serde(untagged)]
pub(crate) enum Stop {
    One(String),
    Many(Vec<String>),
}

/// How much the model should think.
#[derive(ToSchema)]
#[serde(untagged)]
pub(crate) enum Reasoning {
    Budget(ReasoningBudget),
    Effort(ReasoningEffort),
}

/// At most so many tokens.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ReasoningBudget {
    #[schema(maximum = 4_294_967_295_i64)]
    budget: u32,
}

/// As hard as this.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ReasoningEffort {
    effort: Effort,
}

/// How hard a model should think.
#[derive(ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Effort {
    Minimal,
    Low,
    Medium,
    High,
}

/// What happens when a turn is already running on the thread.
#[derive(ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Policy {
    /// Wait in the queue.
    Queue,
    /// Get an error immediately.
    Reject,
    /// Run on a copy of the thread.
    Fork,
}

/// What is sent to a model.
#[derive(ToSchema)]
pub(crate) struct Request {
    /// `provider/model`, where it is known.
    model: Option<String>,
    /// What is said, in order; the first message is the composed system message.
    messages: Vec<Message>,
    /// What may be called, sorted by name.
    tools: Vec<ToolDefinition>,
    /// Whether tools must be used: `auto`, `none`, `required`, or `{"tool": NAME}`.
    tool_choice: Option<Value>,
    /// The JSON Schema of the answer, if it must be structured.
    output: Option<Value>,
    /// How to generate.
    settings: Settings,
    /// Where the provider's prompt cache should be marked.
    #[schema(required = false)]
    breakpoints: Vec<Value>,
}

/// What model calls cost.
#[derive(ToSchema)]
pub(crate) struct Usage {
    /// Everything the model read, whether cached or not.
    input_tokens: u64,
    /// How much of the input was read from the provider's cache; absent where the provider does not report it.
    #[schema(nullable = false)]
    cache_read_tokens: Option<u64>,
    /// How much of the input was written to the provider's cache; absent where the provider does not report it.
    #[schema(nullable = false)]
    cache_write_tokens: Option<u64>,
    /// Everything the model wrote, thinking included.
    output_tokens: u64,
    /// How much of the output was thinking, where the provider says so.
    reasoning_tokens: u64,
}

/// What a model answered.
#[derive(ToSchema)]
pub(crate) struct Answer {
    /// What it said.
    message: Message,
    /// Why it stopped: `end`, `tool_calls`, `max_tokens`, …
    stop: Value,
    /// What it cost.
    usage: Usage,
}

/// A call that waits for a person, with the token that decides about it.
#[derive(ToSchema)]
pub(crate) struct ApprovalRequest {
    /// Names the request: `THREAD:TURN:CALL`.
    id: String,
    /// Its holder may decide. It is sent once and never stored.
    token: String,
    /// The call that waits.
    call_id: String,
    /// Its tool.
    tool: String,
    /// Its arguments.
    arguments: Value,
}

/// A call that waits for a person.
#[derive(ToSchema)]
pub(crate) struct PendingApproval {
    /// Names the request: `THREAD:TURN:CALL`.
    id: String,
    /// The call that waits.
    call_id: String,
    /// Its tool.
    tool: String,
    /// Its arguments.
    arguments: Value,
    /// Whether it was decided; the turn continues once all are.
    decided: bool,
}

/// What came of a call that the client ran.
#[derive(ToSchema)]
#[serde(untagged)]
pub(crate) enum ClientResult {
    Output(ClientOutput),
    Error(ClientError),
}

/// What the tool gave.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ClientOutput {
    /// The call.
    call_id: String,
    /// A text, or any JSON.
    output: Value,
}

/// What went wrong.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ClientError {
    /// The call.
    call_id: String,
    /// What went wrong, for the model.
    error: String,
}
