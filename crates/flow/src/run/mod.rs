//! Runs: their log, the state it replays to, and their drivers.
//!
//! A run's log has one writer, its driver, and is the only source of truth: [`state`] is the result of replaying it.
//! Answers and cancellations are put into the run's inbox, from which the driver takes them.

mod commit;
mod driver;
mod due;
mod emitted;
mod ending;
mod error;
mod event;
mod follow;
pub(crate) mod forget;
mod id;
mod inbox;
mod info;
pub(crate) mod keys;
mod library;
mod list;
mod outcome;
mod ready;
mod run_record;
mod runtime;
mod start;
mod start_key;
mod state;
mod state_check;
mod task;
mod wakeups;
pub(crate) mod weight;

pub use error::RunError;
pub use event::{RunEvent, RunStatus, TurnRef, Wait};
pub use forget::ForgetReport;
pub use id::RunId;
pub use info::{DamagedRun, RunInfo, RunList, RunPage};
pub use library::{EventContext, Library};
pub use runtime::{Runtime, RuntimeConfig, RuntimeParts};
pub use start::RunStart;
pub use start_key::delete_session;
