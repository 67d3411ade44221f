//! A process that dies at a chosen moment: a store that is cut off from it, and models and tools that never answer.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use contexture_session::conformance::{Interference, Operation};
use contexture_session::{StoreError, StoreFuture};
use futures::future::pending;
use tokio::sync::watch;

/// What becomes of the write at which a process dies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Last {
    /// It is not made.
    Lost,
    /// It is made, and nobody hears of it.
    Made,
    /// It is not made; the process is told that the store is away, and lives.
    Refused,
    /// It is made; the process is told that the store is away, and lives.
    Unsure,
    /// Neither it nor the next ones of its name are made: as often as an append is tried, it is refused.
    Outage,
}

impl Last {
    fn is_death(self) -> bool {
        matches!(self, Last::Lost | Last::Made)
    }
}

/// Counts what a process does to the world outside, and ends it at the k-th such step. Clones are the same fuse.
#[derive(Clone)]
pub(crate) struct Fuse {
    left: Arc<AtomicU64>,
    last: Last,
    /// Which operation is refused, and how many more times.
    outage: Arc<Mutex<(String, u32)>>,
    dead: Arc<watch::Sender<bool>>,
    /// What was done, for messages of tests.
    steps: Arc<Mutex<Vec<String>>>,
}

impl fmt::Debug for Fuse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Fuse")
    }
}

impl Default for Fuse {
    /// A fuse that never blows.
    fn default() -> Self {
        Self::at(u64::MAX, Last::Lost)
    }
}

impl Fuse {
    /// Returns a fuse that blows at the k-th step, from 1.
    pub(crate) fn at(k: u64, last: Last) -> Self {
        let (left, dead) = (Arc::new(AtomicU64::new(k)), Arc::new(watch::Sender::new(false)));
        Self { left, last, outage: Arc::default(), dead, steps: Arc::default() }
    }

    /// Returns what was done so far.
    pub(crate) fn steps(&self) -> Vec<String> {
        self.steps.lock().unwrap().clone()
    }

    /// Waits until the process is dead.
    pub(crate) async fn blown(&self) {
        self.dead.subscribe().wait_for(|it| *it).await.unwrap();
    }

    /// Does something that no other process notices. A dead process never gets an answer.
    async fn look<T>(&self, does: impl Future<Output = T>) -> T {
        let done = if *self.dead.borrow() { pending().await } else { does.await };
        if *self.dead.borrow() { pending().await } else { done }
    }

    /// Does something that others notice, if the process lives to do it.
    pub(crate) async fn step<T>(&self, name: &str, does: impl Future<Output = T>) -> T {
        if *self.dead.borrow() {
            return pending().await;
        }
        let is_last = self.burns(name);
        if !is_last || !self.last.is_death() {
            return self.look(does).await;
        }
        if self.last == Last::Made {
            does.await;
        }
        self.dead.send_replace(true);
        pending().await
    }

    /// Takes note of a step, and says whether it is the chosen one.
    fn burns(&self, name: &str) -> bool {
        self.steps.lock().unwrap().push(name.to_owned());
        self.left.fetch_sub(1, Ordering::Relaxed) == 1
    }

    /// Changes something in the store, if it is there.
    async fn store<T>(
        &self,
        name: &str,
        does: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        if self.last.is_death() {
            return self.step(name, does).await;
        }
        let is_last = self.burns(name);
        if is_last && self.last == Last::Outage {
            *self.outage.lock().unwrap() = (name.to_owned(), 5);
        }
        if self.is_away(name) || is_last && self.last == Last::Refused {
            return Err(away());
        }
        let done = does.await;
        if is_last { Err(away()) } else { done }
    }

    /// Whether an operation is refused again.
    fn is_away(&self, name: &str) -> bool {
        let mut outage = self.outage.lock().unwrap();
        let is_away = outage.0 == name && outage.1 > 0;
        outage.1 -= u32::from(is_away);
        is_away
    }
}

fn away() -> StoreError {
    StoreError::Unavailable { place: "the store".to_owned(), detail: "it is away".to_owned() }
}

impl Interference for Fuse {
    fn around<'a, T: Send + 'a>(
        &'a self,
        operation: Operation,
        does: StoreFuture<'a, T>,
    ) -> StoreFuture<'a, T> {
        match operation.is_write {
            true => Box::pin(self.store(operation.name, does)),
            false => Box::pin(self.look(does)),
        }
    }
}
