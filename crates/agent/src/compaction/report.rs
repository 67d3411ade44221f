//! The report of a compaction.

use contexture_history::compaction::{Strategy, Trigger};
use contexture_message::Tokens;
use serde::{Deserialize, Serialize};

/// The report of a compaction.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
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
