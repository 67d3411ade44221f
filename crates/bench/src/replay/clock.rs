//! A clock that goes on when it is told to.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use contexture::compose::BoxFuture;
use contexture::history::Timestamp;
use contexture::session::Time;

/// A clock that goes on when it is told to. Clones are the same clock.
#[derive(Clone, Debug, Default)]
pub struct ReplayClock(Arc<AtomicU64>);

impl ReplayClock {
    /// Returns how long the replay has been going on.
    pub fn elapsed(&self) -> Duration {
        Duration::from_millis(self.0.load(Ordering::Relaxed))
    }

    /// Lets time pass.
    pub fn pass(&self, time: Duration) {
        self.0.fetch_add(u64::try_from(time.as_millis()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }
}

impl Time for ReplayClock {
    fn now(&self) -> Timestamp {
        Timestamp(i64::try_from(self.elapsed().as_millis()).unwrap_or(i64::MAX))
    }

    fn sleep(&self, _: Duration) -> BoxFuture<'static, ()> {
        // Whoever waits for a time limit in a replay never meets it.
        Box::pin(futures::future::pending())
    }
}
