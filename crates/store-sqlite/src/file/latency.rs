//! Decides where an operation runs: on the caller's thread, or on one of the store's.
//!
//! Handing work to another thread and waking up for its answer takes up to 60 µs on a virtual machine, about half of a
//! durable append. So an operation runs inline if it is small, if it is the only one, and if the last ones were quick.
//! Otherwise the store's threads run it: a slow disk then does not block the caller's executor, and concurrent appends
//! share one commit.

use std::future::poll_fn;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::task::Poll;
use std::time::{Duration, Instant};

/// Up to here an operation is quick, in nanoseconds. It is what an executor can do without for a moment.
const QUICK: u64 = 500_000;

/// How long operations take, and how many there are.
#[derive(Debug)]
pub(crate) struct LatencyTracker {
    /// Pending operations.
    open: AtomicUsize,
    /// The average duration of recent operations, in nanoseconds.
    average: AtomicU64,
}

impl Default for LatencyTracker {
    /// Nothing is known yet, so nothing is assumed to be quick.
    fn default() -> Self {
        LatencyTracker { open: AtomicUsize::new(0), average: AtomicU64::new(2 * QUICK) }
    }
}

/// A pending operation. Dropped when it is done or abandoned.
#[derive(Debug)]
pub(crate) struct Operation<'a>(&'a LatencyTracker);

impl LatencyTracker {
    /// Registers an operation.
    pub(crate) fn begin(&self) -> Operation<'_> {
        self.open.fetch_add(1, Ordering::Relaxed);
        Operation(self)
    }

    /// Returns how many operations are not done.
    pub(crate) fn open(&self) -> usize {
        self.open.load(Ordering::Relaxed)
    }

    /// Records how long one took. Single outliers fade within some dozens.
    pub(crate) fn took(&self, took: Duration) {
        let took = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        let average = self.average.load(Ordering::Relaxed);
        // Without a lock: an operation that is not counted now and then does no harm.
        self.average.store(average - average / 8 + took / 8, Ordering::Relaxed);
    }

    /// Whether operations were quick.
    pub(crate) fn is_quick(&self) -> bool {
        self.average.load(Ordering::Relaxed) < QUICK
    }
}

impl Operation<'_> {
    /// Whether the operation is the only one and can be expected to be quick.
    pub(crate) async fn can_run_inline(&self) -> bool {
        // Lets operations that start at the same moment register first.
        yield_once().await;
        self.0.open() == 1 && self.0.is_quick()
    }
}

impl Drop for Operation<'_> {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::Relaxed);
    }
}

async fn yield_once() {
    let mut yielded = false;
    poll_fn(|task| match std::mem::replace(&mut yielded, true) {
        true => Poll::Ready(()),
        false => {
            task.waker().wake_by_ref();
            Poll::Pending
        }
    })
    .await;
}

/// Waits until `enough`, without sleeping, for a moment at most.
pub(crate) fn spin_until(most: Duration, mut enough: impl FnMut() -> bool) {
    let since = Instant::now();
    while !enough() && since.elapsed() < most {
        std::thread::yield_now();
    }
}
