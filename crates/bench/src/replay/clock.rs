//! A clock that is advanced by hand.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use contexture::compose::BoxFuture;
use contexture::history::Timestamp;
use contexture::session::Time;

/// A clock that is advanced by hand. Clones share the time.
#[derive(Clone, Debug, Default)]
pub struct ReplayClock(Arc<AtomicU64>);

impl ReplayClock {
    /// Returns the time since the start of the replay.
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
        // Time limits never expire in a replay.
        Box::pin(futures::future::pending())
    }
}
