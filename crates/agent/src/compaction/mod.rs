//! Compaction: making conversations fit, by summaries and shorter views.
//!
//! The rules are pure functions in [`contexture_history::compaction`]. `relief` is the ladder that applies them: in a
//! running turn (see `running/compacting.rs`), before one begins, and on request (`asked`). The other modules hold the
//! configuration, the summarizer port, the requests for summaries, their validation, and the report.

mod asked;
pub(crate) mod caps;
mod config;
mod job;
mod learned;
mod load;
mod place;
mod reading;
mod relief;
mod report;
mod request;
mod summarizer;
mod summary;

pub use asked::CompactRequest;
pub use config::CompactionConfig;
pub(crate) use job::{Choice, Job, NoSummary, summarized};
pub(crate) use learned::Learned;
pub(crate) use load::Load;
pub(crate) use place::Place;
pub(crate) use reading::{Reading, shown_turns};
pub(crate) use relief::{Compactions, MAX_RUNGS, Overflow, Relief, overflow};
pub use report::{CompactionReport, Made};
pub(crate) use request::{Inquiry, Questions};
pub(crate) use summarizer::ModelSummarizer;
pub use summarizer::{Summarized, Summarizer, SummaryCall};
pub(crate) use summary::{Material, Outcome};
