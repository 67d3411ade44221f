//! The frames of an event stream.
#![expect(dead_code, reason = "they describe, and are never made")]

use serde_json::Value;
use utoipa::ToSchema;

use super::item::TurnStatus;
use super::message::{ToolCall, ToolOutput, Usage};

/// A frame of a stream of events.
#[derive(ToSchema)]
pub(crate) struct EventFrame {
    /// The number of the event, for `Last-Event-ID`; a replayed turn has none.
    #[schema(pattern = "^[0-9]+$")]
    id: Option<String>,
    /// The kind of the event.
    event: String,
    /// A `SessionEvent`, as JSON on one line.
    #[schema(content_media_type = "application/json")]
    data: String,
}

/// The `data` of a frame; its `type` is also the frame's `event`. Clients skip types that they do not know.
#[derive(ToSchema)]
#[serde(tag = "type")]
#[schema(example = json!({"type": "text.delta", "text": "Hello", "thread": "demo", "turn": "t1"}))]
pub(crate) enum SessionEvent {
    #[serde(rename = "turn.start")]
    TurnStart(TurnStart),
    #[serde(rename = "text.delta")]
    TextDelta(TextDelta),
    #[serde(rename = "thinking.delta")]
    ThinkingDelta(ThinkingDelta),
    #[serde(rename = "tool.call")]
    ToolCall(ToolCallEvent),
    #[serde(rename = "tool.result")]
    ToolResult(ToolResultEvent),
    #[serde(rename = "approval.required")]
    ApprovalRequired(ApprovalRequired),
    #[serde(rename = "attempt.discarded")]
    AttemptDiscarded(AttemptDiscarded),
    #[serde(rename = "warning")]
    Warning(Warning),
    #[serde(rename = "context_compaction_start")]
    ContextCompactionStart(ContextCompactionStart),
    #[serde(rename = "context_compaction_end")]
    ContextCompactionEnd(CompactionEvent),
    #[serde(rename = "compaction")]
    Compaction(CompactionEvent),
    #[serde(rename = "context_usage")]
    ContextUsage(ContextUsage),
    #[serde(rename = "turn.end")]
    TurnEnd(TurnEnd),
    #[serde(rename = "error")]
    Error(ErrorEvent),
}

/// The turn is on record and runs.
#[derive(ToSchema)]
pub(crate) struct TurnStart {
    /// The thread it runs on.
    thread: String,
    /// The turn, such as `t7`.
    turn: String,
}

/// More text of the model.
#[derive(ToSchema)]
pub(crate) struct TextDelta {
    /// The next piece.
    text: String,
    thread: String,
    turn: String,
}

/// More readable thinking of the model.
#[derive(ToSchema)]
pub(crate) struct ThinkingDelta {
    /// The next piece.
    text: String,
    thread: String,
    turn: String,
}

/// The model calls a tool.
#[derive(ToSchema)]
pub(crate) struct ToolCallEvent {
    /// The call's id.
    id: String,
    /// The tool.
    name: String,
    /// Its arguments.
    arguments: Value,
    /// Where it runs.
    runs: RunsOn,
    thread: String,
    turn: String,
}

/// Where a tool call runs.
#[derive(ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum RunsOn {
    /// The server.
    Server,
    /// The client: the turn is suspended until it has sent the result.
    Client,
}

/// A tool call has its result.
#[derive(ToSchema)]
pub(crate) struct ToolResultEvent {
    /// The call's id.
    id: String,
    /// The tool.
    name: String,
    /// What the model gets to see.
    output: ToolOutput,
    /// What the tool gave the application, where it is not the same.
    raw: Option<Value>,
    thread: String,
    turn: String,
}

/// A person must decide before the turn continues.
#[derive(ToSchema)]
pub(crate) struct ApprovalRequired {
    /// What is asked.
    approval: ToldApproval,
    thread: String,
    turn: String,
}

/// A request for approval. Only the client of the turn receives the token.
#[derive(ToSchema)]
pub(crate) struct ToldApproval {
    /// Names the request: `THREAD:TURN:CALL`.
    id: String,
    /// Its holder may decide.
    token: Option<String>,
    /// The call that waits.
    call_id: String,
    /// Its tool.
    tool: String,
    /// Its arguments.
    arguments: Value,
}

/// An answer was not good enough and is made again; text that was streamed for it does not count.
#[derive(ToSchema)]
pub(crate) struct AttemptDiscarded {
    /// What was wrong with it.
    reason: String,
    thread: String,
    turn: String,
}

/// A check reports something, and the turn continues.
#[derive(ToSchema)]
pub(crate) struct Warning {
    /// The source, such as `guardrail:tone`.
    source: String,
    /// What it says.
    message: String,
    thread: String,
    turn: String,
}

/// The oldest turns are summarised before the turn's first call.
#[derive(ToSchema)]
pub(crate) struct ContextCompactionStart {
    strategy: Strategy,
    /// What set it off.
    trigger: Value,
    /// How many messages of the conversation the model reads before.
    messages_before: u64,
    /// What they cost.
    tokens_before: u64,
    thread: String,
    turn: String,
}

/// How the range of a summary is chosen.
#[derive(ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Strategy {
    /// The oldest turns, at the start of a turn.
    SessionCompaction,
    /// Some rounds, between two calls.
    ReactiveMicro,
    /// All that can be, between two calls.
    ReactiveFull,
}

/// The result of a compaction.
#[derive(ToSchema)]
pub(crate) struct CompactionReport {
    strategy: Strategy,
    /// What set it off.
    trigger: Value,
    /// How many messages of the conversation the model read before.
    messages_before: u64,
    /// How many it reads now.
    messages_after: u64,
    /// What they cost before.
    tokens_before: u64,
    /// What they cost now.
    tokens_after: u64,
    /// The archive that holds what was summarised, such as `a3`; nothing if nothing was.
    archive: Option<String>,
    /// Whether the summariser's summary was taken.
    accepted: bool,
    /// Why it was not, or why there was none.
    reason: Option<String>,
    made: Made,
}

/// A compaction ended.
#[derive(ToSchema)]
pub(crate) struct CompactionEvent {
    strategy: Strategy,
    /// What set it off.
    trigger: Value,
    /// How many messages of the conversation the model read before.
    messages_before: u64,
    /// How many it reads now.
    messages_after: u64,
    /// What they cost before.
    tokens_before: u64,
    /// What they cost now.
    tokens_after: u64,
    /// The archive that holds what was summarised, such as `a3`; nothing if nothing was.
    archive: Option<String>,
    /// Whether the summariser's summary was taken.
    accepted: bool,
    /// Why it was not, or why there was none.
    reason: Option<String>,
    made: Made,
    thread: String,
    turn: String,
}

/// What replaces a range.
#[derive(ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Made {
    /// The summariser's summary.
    Summary,
    /// Excerpts, made without a model.
    Extract,
    /// Nothing: the range is left out.
    LeftOut,
    /// The range itself: nothing was changed.
    Unchanged,
}

/// What the newest model call cost.
#[derive(ToSchema)]
pub(crate) struct ContextUsage {
    /// What the model read.
    input_tokens: u64,
    /// What it wrote.
    output_tokens: u64,
    /// How much of the input it read from the provider's cache; absent where the provider does not report it.
    cache_read_tokens: Option<u64>,
    /// How much it should have read from there, if it is known what was sent before and what was read.
    cache_forecast_tokens: Option<u64>,
    /// Where the request differs from what was sent before.
    cache_break: Option<Value>,
    /// The share of the model's usable window that the input took.
    budget_used_pct: Option<f64>,
    /// Whether the model's window is unknown, so 200,000 tokens are assumed.
    window_assumed: Option<bool>,
    thread: String,
    turn: String,
}

/// The turn ended or waits.
#[derive(ToSchema)]
pub(crate) struct TurnEnd {
    /// The final status.
    status: TurnStatus,
    /// Why, where there is something to say.
    reason: Option<String>,
    /// What all calls of the turn cost together.
    usage: Usage,
    /// The calls that a suspended turn waits for the client to run; absent if there are none.
    #[schema(required = false)]
    client_calls: Vec<ToolCall>,
    thread: String,
    turn: String,
}

/// The turn failed; nothing follows.
#[derive(ToSchema)]
pub(crate) struct ErrorEvent {
    /// The stable code.
    code: String,
    /// What went wrong.
    message: String,
    thread: String,
    turn: String,
}
