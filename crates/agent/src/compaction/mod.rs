//! What compaction needs to know and to decide: its configuration, the summarizer port, the requests for summaries and
//! their validation, what has aged, and what a thread has learned about its model.
//!
//! The rules are pure functions in [`contexture_history::compaction`]. [`relief`](crate::relief) applies them.

mod ageing;
pub(crate) mod caps;
mod config;
mod learned;
mod load;
mod request;
mod summarizer;
mod summary;

pub(crate) use ageing::{Ageing, AgeingRules, ageing};
pub use config::CompactionConfig;
pub(crate) use learned::Learned;
pub(crate) use load::Load;
pub(crate) use request::{SummaryInput, SummaryRequests};
pub(crate) use summarizer::ModelSummarizer;
pub use summarizer::{Summarized, Summarizer, SummaryCall};
pub(crate) use summary::{Material, Replacement};
