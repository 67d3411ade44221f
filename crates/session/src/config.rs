//! The configuration of sessions, and the ports that the caller provides.

use std::sync::Arc;
use std::time::Duration;

use contexture_history::Timestamp;
use contexture_message::TokenCounter;
use futures::future::BoxFuture;
use schemars::JsonSchema;

/// External dependencies of sessions.
#[derive(Clone)]
pub struct Ports {
    /// Tells the time and waits.
    pub time: Arc<dyn Time>,
    /// Generates names.
    pub names: Arc<dyn Names>,
    /// Counts what is appended, once.
    pub counter: Arc<dyn TokenCounter>,
}

impl std::fmt::Debug for Ports {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let counter = self.counter.profile().name;
        f.debug_struct("Ports").field("time", &self.time).field("counter", &counter).finish_non_exhaustive()
    }
}

/// The configuration of sessions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionConfig {
    /// How many turns of history are loaded when a thread is opened (`history_window.turns`).
    pub history_window: usize,
    /// How long a turn's writer may be silent before another one may take over.
    pub lease: Duration,
    /// How many writers may wait for one thread in this process.
    pub queue: usize,
    /// How long a writer waits for one in another process.
    pub wait: Duration,
    /// How many threads stay in memory after their last use, so that the next one need not read them again.
    pub kept_threads: usize,
}

impl Default for SessionConfig {
    fn default() -> Self {
        let (lease, wait) = (Duration::from_secs(30), Duration::from_secs(60));
        Self { history_window: 50, lease, queue: 256, wait, kept_threads: 0 }
    }
}

/// What a writer does when a turn is already running on its thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Policy {
    /// It waits in the queue.
    #[default]
    Queue,
    /// It gets an error immediately.
    Reject,
    /// Its turn runs on a copy of the thread, as the thread was before the running turn.
    Fork,
}

/// Tells the time and waits.
///
/// Implementors promise that `sleep` ends after about the given time, on whatever executor the caller uses.
pub trait Time: std::fmt::Debug + Send + Sync + 'static {
    /// Returns the time of day.
    fn now(&self) -> Timestamp;

    /// Waits for a duration.
    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()>;
}

/// Makes names for sessions, threads and writers.
///
/// Implementors promise that no name comes twice, in no process, and that later ones sort after earlier ones.
pub trait Names: std::fmt::Debug + Send + Sync + 'static {
    /// Returns a new name: letters, digits, `-` and `_` only.
    fn next(&self) -> String;
}
