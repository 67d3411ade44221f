//! What happens during a run, as it happens.

use contexture_compose::PrefixChange;
use contexture_history::TurnStatus;
use contexture_history::compaction::{Strategy, Trigger};
use contexture_message::{Tokens, ToolCall, ToolOutput, Usage};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{ApprovalRequest, CompactionReport};

/// Who runs a tool call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunsOn {
    /// The agent's own process.
    #[default]
    Server,
    /// The client: the turn is suspended until it has sent the result.
    Client,
}

/// Something that happened during a run. Deltas only: no event says again what others said before.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type")]
pub enum Event {
    /// The turn is on record and runs.
    #[serde(rename = "turn.start")]
    TurnStart {
        /// The thread it runs on.
        thread: String,
        /// The turn, such as `t7`.
        turn: String,
    },
    /// More text of the model.
    #[serde(rename = "text.delta")]
    TextDelta {
        /// The next piece.
        text: String,
    },
    /// More readable thinking of the model.
    #[serde(rename = "thinking.delta")]
    ThinkingDelta {
        /// The next piece.
        text: String,
    },
    /// The model calls a tool.
    #[serde(rename = "tool.call")]
    ToolCall {
        /// The call's id.
        id: String,
        /// The tool.
        name: String,
        /// Its arguments.
        arguments: Value,
        /// Who runs it.
        #[serde(default)]
        runs: RunsOn,
    },
    /// A tool call has its result.
    #[serde(rename = "tool.result")]
    ToolResult {
        /// The call's id.
        id: String,
        /// The tool.
        name: String,
        /// What the model gets to see.
        output: ToolOutput,
        /// What the tool gave the application, where it is not the same.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        raw: Option<Value>,
    },
    /// A person must decide before the run goes on.
    #[serde(rename = "approval.required")]
    ApprovalRequired {
        /// What is asked.
        approval: ApprovalRequest,
    },
    /// An answer was not good enough and is made again; text that was streamed for it does not count.
    #[serde(rename = "attempt.discarded")]
    AttemptDiscarded {
        /// What was wrong with it.
        reason: String,
    },
    /// A check has something to say, and the run goes on.
    #[serde(rename = "warning")]
    Warning {
        /// Who says it, such as `guardrail:tone`.
        source: String,
        /// What it says.
        message: String,
    },
    /// The oldest turns are summarised before the turn's first call.
    #[serde(rename = "context_compaction_start")]
    ContextCompactionStart {
        /// How the range is chosen.
        strategy: Strategy,
        /// What set it off.
        trigger: Trigger,
        /// How many messages of the conversation the model reads before.
        messages_before: usize,
        /// What they cost, as they are shown.
        tokens_before: Tokens,
    },
    /// That came to an end.
    #[serde(rename = "context_compaction_end")]
    ContextCompactionEnd(CompactionReport),
    /// Something was summarised between two calls.
    #[serde(rename = "compaction")]
    Compaction(CompactionReport),
    /// What the newest model call cost.
    #[serde(rename = "context_usage")]
    ContextUsage {
        /// What the model read.
        input_tokens: u64,
        /// What it wrote.
        output_tokens: u64,
        /// How much of the input it read from the provider's cache; none where the provider does not report it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cache_read_tokens: Option<u64>,
        /// How much it should have read from there, if it is known what was sent before and what was read.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cache_forecast_tokens: Option<u64>,
        /// Where the request differs from what was sent before, if it does before that one's end.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cache_break: Option<PrefixChange>,
        /// The share of the model's usable window that the input took.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        budget_used_pct: Option<f64>,
        /// Whether nothing is known of the model's window, so that it is a guess.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        window_assumed: bool,
    },
    /// The turn ended or waits.
    #[serde(rename = "turn.end")]
    TurnEnd {
        /// What became of it.
        status: TurnStatus,
        /// Why, where there is something to say.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
        /// What all calls of the turn cost together.
        usage: Usage,
        /// The calls that a suspended turn waits for the client to run.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        client_calls: Vec<ToolCall>,
    },
    /// The run failed; nothing follows.
    #[serde(rename = "error")]
    Error {
        /// The stable code.
        code: String,
        /// What went wrong.
        message: String,
    },
}
