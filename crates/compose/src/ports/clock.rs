//! Time, handed in.

use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Poll, Waker};
use std::time::Duration;

use futures::future::{BoxFuture, FutureExt};

/// Measures time and waits.
///
/// Implementors promise that `now` never goes backwards and that `sleep` ends when `now` has moved by at
/// least the given time.
pub trait Clock: Send + Sync {
    /// Returns the time since some fixed moment.
    fn now(&self) -> Duration;

    /// Waits.
    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()>;

    /// Whether time passes at all; without it deadlines can't be kept.
    fn runs(&self) -> bool {
        true
    }
}

/// A clock that stands still: timings are zero and deadlines never pass. The default, because the engine has
/// no clock of its own.
#[derive(Clone, Copy, Debug, Default)]
pub struct StoppedClock;

impl Clock for StoppedClock {
    fn now(&self) -> Duration {
        Duration::ZERO
    }

    fn sleep(&self, _duration: Duration) -> BoxFuture<'static, ()> {
        futures::future::pending().boxed()
    }

    fn runs(&self) -> bool {
        false
    }
}

/// A clock for tests that moves when it is told to.
#[derive(Clone, Debug, Default)]
pub struct ManualClock(Arc<Mutex<Manual>>);

#[derive(Debug, Default)]
struct Manual {
    now: Duration,
    sleepers: Vec<Waker>,
}

impl ManualClock {
    /// Lets time pass and wakes everyone who waits.
    pub fn advance(&self, duration: Duration) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.now = state.now.saturating_add(duration);
        let sleepers = std::mem::take(&mut state.sleepers);
        // A waker may run anything: not under the lock.
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
        futures::future::poll_fn(move |cx| {
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
