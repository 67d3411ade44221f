//! Compaction: what is summarised, by whom, and what came of it.
//!
//! The rules are pure functions of [`contexture_history::compaction`]; a running turn applies them
//! (`running/compacting.rs`). Here is what both sides of that need: the configuration, the port of summarisers, the request
//! that asks a model, the test of what it says, and the report.

mod asked;
mod config;
mod job;
mod load;
mod report;
mod request;
mod room;
mod summarizer;
mod summary;

pub use asked::CompactRequest;
pub use config::CompactionConfig;
pub(crate) use job::{Job, summarized};
pub(crate) use load::Load;
pub use report::{CompactionReport, Made};
pub(crate) use request::{Start, summary_call};
pub(crate) use room::{overflow, room};
pub(crate) use summarizer::ModelSummarizer;
pub use summarizer::{Summarized, Summarizer, SummaryCall};
pub(crate) use summary::{Material, Outcome, settle};
