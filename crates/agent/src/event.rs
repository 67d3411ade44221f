//! The events of a run, and the data that they carry.

use contexture_compose::PrefixChange;
use contexture_history::TurnStatus;
use contexture_history::compaction::{Strategy, Trigger};
use contexture_message::{Citation, Tokens, ToolCall, ToolOutput, Usage};
use futures::channel::mpsc::{UnboundedReceiver, UnboundedSender, unbounded};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Where a tool call runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RunsOn {
    /// In the agent's process.
    #[default]
    Server,
    /// On the client: the turn is suspended until the client sends the result.
    Client,
}

/// An event of a run. Events are deltas: none repeats what an earlier one contained.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type")]
#[schemars(rename = "TurnEvent")]
pub enum Event {
    /// The turn is recorded and running.
    #[serde(rename = "turn.start")]
    TurnStart {
        /// The id of the thread.
        thread: String,
        /// The turn, such as `t7`.
        turn: String,
    },
    /// More text from the model.
    #[serde(rename = "text.delta")]
    TextDelta {
        /// The next piece of text.
        text: String,
    },
    /// More readable thinking from the model.
    #[serde(rename = "thinking.delta")]
    ThinkingDelta {
        /// The next piece of thinking.
        text: String,
    },
    /// What the answer cites. It follows the text of the answer.
    #[serde(rename = "citations")]
    Citations {
        /// The citations, with spans in the whole text of the answer.
        citations: Vec<Citation>,
    },
    /// A check reports about the final answer.
    #[serde(rename = "check.report")]
    CheckReport(CheckReport),
    /// The model calls a tool.
    #[serde(rename = "tool.call")]
    ToolCall {
        /// The call's id.
        id: String,
        /// The name of the tool.
        name: String,
        /// The arguments of the call.
        arguments: Value,
        /// Where the call runs.
        #[serde(default)]
        runs: RunsOn,
    },
    /// A tool call has its result.
    #[serde(rename = "tool.result")]
    ToolResult {
        /// The call's id.
        id: String,
        /// The name of the tool.
        name: String,
        /// The output that the model sees.
        output: ToolOutput,
        /// The raw value for the application, if it differs from the output.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        raw: Option<Value>,
    },
    /// A person must decide before the run continues.
    #[serde(rename = "approval.required")]
    ApprovalRequired {
        /// The approval that is requested.
        approval: ApprovalRequest,
    },
    /// An answer was rejected and the model tries again. Discard the text that was streamed for it.
    #[serde(rename = "attempt.discarded")]
    AttemptDiscarded {
        /// Why it was rejected.
        reason: String,
    },
    /// A check or the engine warns; the run continues.
    #[serde(rename = "warning")]
    Warning {
        /// The source of the warning, such as `guardrail:tone`.
        source: String,
        /// The text of the warning.
        message: String,
    },
    /// A summary of the oldest turns begins, before the turn's first call.
    #[serde(rename = "context_compaction_start")]
    ContextCompactionStart {
        /// How the range is chosen.
        strategy: Strategy,
        /// What triggered the compaction.
        trigger: Trigger,
        /// How many messages of the conversation the model read before.
        messages_before: usize,
        /// The cost of these messages as shown to the model.
        tokens_before: Tokens,
    },
    /// The compaction at the start of the turn ended.
    #[serde(rename = "context_compaction_end")]
    ContextCompactionEnd(CompactionReport),
    /// A range was compacted between two calls.
    #[serde(rename = "compaction")]
    Compaction(CompactionReport),
    /// The usage of the latest model call.
    #[serde(rename = "context_usage")]
    ContextUsage {
        /// The tokens that the model read.
        input_tokens: u64,
        /// The tokens that the model wrote.
        output_tokens: u64,
        /// The input tokens read from the provider's cache; `None` if the provider does not report them.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cache_read_tokens: Option<u64>,
        /// The forecast of `cache_read_tokens`, if the previous request is known and the provider reports cache reads.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cache_forecast_tokens: Option<u64>,
        /// The first difference from the previous request, if it comes before the end of that request.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cache_break: Option<PrefixChange>,
        /// The share of the model's usable window that the input took, in percent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        budget_used_pct: Option<f64>,
        /// Whether the model's window is unknown and therefore assumed.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        window_assumed: bool,
    },
    /// The turn ended or was suspended.
    #[serde(rename = "turn.end")]
    TurnEnd {
        /// The status of the turn.
        status: TurnStatus,
        /// Why the turn stopped early or was suspended; `None` if the model answered.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
        /// The total usage of the run.
        usage: Usage,
        /// The calls that a suspended turn expects the client to run.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        client_calls: Vec<ToolCall>,
    },
    /// The run failed. This is the last event.
    #[serde(rename = "error")]
    Error {
        /// The stable code of the error.
        code: String,
        /// The error message.
        message: String,
    },
}

/// A request for a person's approval of a call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ApprovalRequest {
    /// The id of the request.
    pub id: String,
    /// The secret that authorizes a decision. It is returned once and not stored.
    pub token: String,
    /// The id of the waiting call.
    pub call_id: String,
    /// The name of the tool.
    pub tool: String,
    /// The arguments of the call.
    pub arguments: Value,
}

/// The report of a compaction.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CompactionReport {
    /// How the range was chosen.
    pub strategy: Strategy,
    /// What triggered the compaction.
    pub trigger: Trigger,
    /// How many messages of the conversation the model read before.
    pub messages_before: usize,
    /// How many messages the model reads after it.
    pub messages_after: usize,
    /// The cost of the messages before, as shown to the model.
    pub tokens_before: Tokens,
    /// The cost of the messages after.
    pub tokens_after: Tokens,
    /// The archive of the summarised range, such as `a3`; `None` if nothing changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub archive: Option<String>,
    /// Whether the summarizer's summary was accepted.
    pub accepted: bool,
    /// Why the summary was not accepted, or why there was none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// What replaces the range.
    pub made: Made,
}

/// What replaces a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "CompactionOutcome")]
pub enum Made {
    /// The summarizer's summary.
    Summary,
    /// Excerpts, extracted without a model.
    Extract,
    /// Nothing: the range is left out.
    LeftOut,
    /// The range itself: nothing was changed.
    Unchanged,
}

/// What a check reports about an answer that was accepted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CheckReport {
    /// The check, such as `constraint:grounding`.
    pub source: String,
    /// The report, in the form of the check.
    pub report: Value,
}

/// A warning about a run that continued.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Remark {
    /// The source of the warning, such as `constraint:short`.
    pub source: String,
    /// The text of the warning.
    pub message: String,
}

impl Remark {
    /// Returns the event that warns of it.
    pub(crate) fn event(&self) -> Event {
        Event::Warning { source: self.source.clone(), message: self.message.clone() }
    }
}

/// The sender of a run's events. Events without a receiver are dropped.
#[derive(Clone, Debug)]
pub(crate) struct Sink(UnboundedSender<Event>);

impl Sink {
    /// Returns a sink and the receiver of its events.
    pub(crate) fn new() -> (Self, UnboundedReceiver<Event>) {
        let (sender, events) = unbounded();
        (Self(sender), events)
    }

    /// Returns a sink that drops its events.
    pub(crate) fn dropping() -> Self {
        Self::new().0
    }

    pub(crate) fn send(&self, event: Event) {
        let _ = self.0.unbounded_send(event);
    }
}
