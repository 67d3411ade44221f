//! What came of a compaction.

use contexture_history::compaction::{Strategy, Trigger};
use contexture_message::Tokens;
use serde::{Deserialize, Serialize};

/// What came of a compaction.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CompactionReport {
    /// How the range was chosen.
    pub strategy: Strategy,
    /// What set it off.
    pub trigger: Trigger,
    /// How many messages of the conversation the model read before.
    pub messages_before: usize,
    /// How many it reads now.
    pub messages_after: usize,
    /// What they cost before, as they were shown.
    pub tokens_before: Tokens,
    /// What they cost now.
    pub tokens_after: Tokens,
    /// The archive that holds what was summarised, such as `a3`; nothing if nothing was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub archive: Option<String>,
    /// Whether the summariser's summary was taken.
    pub accepted: bool,
    /// Why it was not, or why there was none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// What stands in the place of the range.
    pub made: Made,
}

/// What stands in the place of a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Made {
    /// The summariser's summary.
    Summary,
    /// Excerpts, made without a model.
    Extract,
    /// Nothing: the range is left out.
    LeftOut,
    /// The range itself: nothing was changed.
    Unchanged,
}
