//! Tokio's clock, which tests can stop: what takes hours here takes no time.

use std::time::Duration;

use contexture_compose::BoxFuture;
use contexture_history::Timestamp;
use contexture_session::Time;
use tokio::time::Instant;

/// Tokio's clock. Everything in a test that knows the time must know it from here.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock(Instant);

impl Clock {
    /// Returns the clock of the runtime that this is called in.
    pub(crate) fn new() -> Self {
        Self(Instant::now())
    }
}

impl Time for Clock {
    fn now(&self) -> Timestamp {
        // Some time in 2023: zero means "long ago" to runs.
        let millis = i64::try_from(self.0.elapsed().as_millis()).unwrap();
        Timestamp(1_700_000_000_000 + millis)
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        Box::pin(tokio::time::sleep(duration))
    }
}

/// Runs a test in which time passes only when everything waits for it.
pub(crate) fn timeless<T>(test: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    runtime.unwrap().block_on(test)
}
