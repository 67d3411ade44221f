//! What a prompt takes of the history, which is handed in as whole turns.

use contexture_history::Limit;
use serde::{Deserialize, Serialize};

/// What a prompt takes of the history.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct HistoryConfig {
    /// How much of it; by default all that is handed in.
    pub limit: Option<Limit>,
}

impl HistoryConfig {
    /// No earlier turn at all.
    pub const NONE: Self = Self { limit: Some(Limit::Turns(0)) };
}
