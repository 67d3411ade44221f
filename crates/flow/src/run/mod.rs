//! Runs: their log, the state it replays to, and their drivers.
//!
//! A run's log has one writer, its driver, and is the only source of truth: [`state`] is the result of replaying it.
//! Answers and cancellations are put into the run's inbox, from which the driver takes them.

mod driver;
mod error;
mod record;
mod runtime;
mod state;

pub use driver::RuntimeConfig;
pub use error::RunError;
pub use record::info::{DamagedRun, RunInfo, RunList, RunPage};
pub use record::start_key::delete_session;
pub use runtime::forget::ForgetReport;
pub use runtime::start::RunStart;
pub use runtime::{Runtime, RuntimeParts};
