//! The configuration of the store.

use std::sync::Arc;
use std::time::Duration;

use contexture_session::Time;

use crate::failure::StorePath;
use crate::file::identity::Identity;
use crate::sources::counts::SearchCache;

/// How a [`SqliteStore`] works.
#[derive(Clone, Debug)]
pub struct SqliteConfig {
    /// By which leases end.
    pub time: Arc<dyn Time>,
    /// How many reader threads there are, each with its own connection.
    pub readers: usize,
    /// How long to wait for another process that writes.
    pub busy: Duration,
    /// How often to check for appends of other processes, while there are waiters.
    pub poll: Duration,
}

impl SqliteConfig {
    /// Returns the usual settings.
    pub fn new(time: Arc<dyn Time>) -> Self {
        Self { time, readers: 3, busy: Duration::from_secs(10), poll: Duration::from_millis(50) }
    }
}

/// What an operation needs besides a connection.
#[derive(Clone, Debug)]
pub(crate) struct Context {
    pub(crate) place: StorePath,
    pub(crate) identity: Arc<Identity>,
    pub(crate) searches: Arc<SearchCache>,
    pub(crate) time: Arc<dyn Time>,
}
