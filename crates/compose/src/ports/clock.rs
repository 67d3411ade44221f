//! The clock port.

use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Poll, Waker};
use std::time::Duration;

use futures_util::future::{BoxFuture, FutureExt};

/// Measures time and waits.
///
/// Implementors promise that `now` never goes backwards and that `sleep` ends when `now` has moved by at
/// least the given time.
pub trait Clock: Send + Sync {
    /// Returns the time since some fixed moment.
    fn now(&self) -> Duration;

    /// Returns a future that completes after this time.
    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()>;

    /// Returns whether the clock runs; without a running clock deadlines cannot be enforced.
    fn runs(&self) -> bool {
        true
    }
}

/// A stopped clock: timings are zero and deadlines never expire. The default, because the engine does not read a
/// clock by itself.
#[derive(Clone, Copy, Debug, Default)]
pub struct StoppedClock;

impl Clock for StoppedClock {
    fn now(&self) -> Duration {
        Duration::ZERO
    }

    fn sleep(&self, _duration: Duration) -> BoxFuture<'static, ()> {
        futures_util::future::pending().boxed()
    }

    fn runs(&self) -> bool {
        false
    }
}

/// A clock for tests that only moves when [`advance`](Self::advance) is called.
#[derive(Clone, Debug, Default)]
pub struct ManualClock(Arc<Mutex<Manual>>);

#[derive(Debug, Default)]
struct Manual {
    now: Duration,
    sleepers: Vec<Waker>,
}

impl ManualClock {
    /// Advances the time and wakes all sleepers.
    pub fn advance(&self, duration: Duration) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.now = state.now.saturating_add(duration);
        let sleepers = std::mem::take(&mut state.sleepers);
        // A waker may run arbitrary code, so the lock is released first.
        drop(state);
        sleepers.into_iter().for_each(Waker::wake);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Duration {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).now
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        let until = self.now().saturating_add(duration);
        let state = Arc::clone(&self.0);
        futures_util::future::poll_fn(move |cx| {
            let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
            if state.now >= until {
                return Poll::Ready(());
            }
            state.sleepers.push(cx.waker().clone());
            Poll::Pending
        })
        .boxed()
    }
}
