//! Tokio's time, which tests can stop: what takes hours here takes no time.

use std::time::Duration;

use contexture_compose::BoxFuture;
use contexture_compose::ports::Clock;
use contexture_history::Timestamp;
use contexture_session::Time;
use tokio::time::Instant;

/// Tokio's time. Everything in a test that needs the time must take it from here.
#[derive(Clone, Copy, Debug)]
pub struct TokioTime(Instant);

impl TokioTime {
    /// Returns the time of the runtime that this is called in.
    #[allow(clippy::new_without_default)] // It needs a runtime.
    pub fn new() -> Self {
        Self(Instant::now())
    }
}

impl Time for TokioTime {
    fn now(&self) -> Timestamp {
        // Some time in 2023: zero means "long ago" to runs.
        let millis = i64::try_from(self.0.elapsed().as_millis()).unwrap_or(i64::MAX);
        Timestamp(1_700_000_000_000_i64.saturating_add(millis))
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        Box::pin(tokio::time::sleep(duration))
    }
}

impl Clock for TokioTime {
    fn now(&self) -> Duration {
        self.0.elapsed()
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        Box::pin(tokio::time::sleep(duration))
    }
}
