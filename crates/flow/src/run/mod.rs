//! Runs: their log, the state it replays to, and their drivers.
//!
//! A run's log is the only source of truth: [`state`] is the result of replaying it. Its driver holds the log's lease;
//! answers and cancellations are appended by the processes that bring them, and the driver takes them in.

mod driver;
mod error;
mod record;
mod runtime;
mod state;

pub use driver::RuntimeConfig;
pub use error::RunError;
pub use record::info::{DamagedRun, RunInfo, RunList, RunPage};
pub use runtime::forget::ForgetReport;
pub use runtime::start::RunStart;
pub use runtime::{Runtime, RuntimeParts};
