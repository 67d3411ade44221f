//! Time and names, provided by the caller.

use std::time::Duration;

use contexture_history::Timestamp;
use futures::future::BoxFuture;

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
