//! The configuration of sessions.

use std::sync::Arc;
use std::time::Duration;

use contexture_message::TokenCounter;

use crate::{Names, Time};

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
}

impl Default for SessionConfig {
    fn default() -> Self {
        Self { history_window: 50, lease: Duration::from_secs(30), queue: 256, wait: Duration::from_secs(60) }
    }
}

/// What a writer does when a turn is already running on its thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
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
