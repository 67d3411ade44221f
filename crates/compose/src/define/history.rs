//! How much of the history a prompt uses. The history is passed in as whole turns.

use contexture_history::Limit;
use serde::{Deserialize, Serialize};

/// How much of the history a prompt uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct HistoryConfig {
    /// The limit; by default all turns that are passed in are used.
    pub limit: Option<Limit>,
}

impl HistoryConfig {
    /// Uses no earlier turns.
    pub const NONE: Self = Self { limit: Some(Limit::Turns(0)) };
}
