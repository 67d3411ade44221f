//! Remembered contributions: bounded, single-flight, with a time to live.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::future::{BoxFuture, FutureExt, Shared};
use indexmap::IndexMap;

use crate::{BoxError, Contribution};

/// What a contribution depends on: who made it, and a hash of everything it may have read.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct MemoKey {
    /// The prompt and the entry.
    pub owner: String,
    /// The hash of input and scope.
    pub input: u128,
}

/// The outcome of a contributor, shared by all who asked for it.
pub type Remembering = Result<Arc<Contribution>, Arc<BoxError>>;

/// Remembers contributions.
///
/// Implementors promise: of several callers that ask for one key at the same time one future runs (the
/// others may be dropped unpolled), failures are not remembered, and memory is bounded.
pub trait ContextMemo: Send + Sync {
    /// Returns the remembered contribution, or runs `make` and remembers it until `expires`.
    fn remember(
        &self,
        key: MemoKey,
        now: Duration,
        ttl: Duration,
        make: BoxFuture<'static, Remembering>,
    ) -> BoxFuture<'static, Remembering>;
}

/// Remembers in memory, at most so many contributions; the one that was used longest ago goes first.
#[derive(Clone)]
pub struct InMemoryMemo(Arc<Mutex<Slots>>);

struct Slots {
    capacity: usize,
    /// The least recently used first.
    slots: IndexMap<MemoKey, Slot>,
}

#[derive(Clone)]
struct Slot {
    expires: Duration,
    outcome: Shared<BoxFuture<'static, Remembering>>,
}

impl InMemoryMemo {
    /// Returns a memo for at most `capacity` contributions.
    pub fn new(capacity: usize) -> Self {
        Self(Arc::new(Mutex::new(Slots { capacity: capacity.max(1), slots: IndexMap::new() })))
    }

    /// Returns how many contributions are remembered now.
    pub fn len(&self) -> usize {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).slots.len()
    }

    /// Whether nothing is remembered.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Default for InMemoryMemo {
    fn default() -> Self {
        Self::new(1_024)
    }
}

impl ContextMemo for InMemoryMemo {
    fn remember(
        &self,
        key: MemoKey,
        now: Duration,
        ttl: Duration,
        make: BoxFuture<'static, Remembering>,
    ) -> BoxFuture<'static, Remembering> {
        let outcome = self.0.lock().unwrap_or_else(PoisonError::into_inner).claim(&key, now, ttl, make);
        let memo = Arc::clone(&self.0);
        async move {
            let result = outcome.clone().await;
            if result.is_err() {
                // Whoever asks next tries again; unless somebody already does.
                memo.lock().unwrap_or_else(PoisonError::into_inner).forget(&key, &outcome);
            }
            result
        }
        .boxed()
    }
}

impl Slots {
    fn claim(
        &mut self,
        key: &MemoKey,
        now: Duration,
        ttl: Duration,
        make: BoxFuture<'static, Remembering>,
    ) -> Shared<BoxFuture<'static, Remembering>> {
        let known = self.slots.shift_remove(key).filter(|it| it.expires > now);
        let slot = known.unwrap_or_else(|| Slot { expires: now + ttl, outcome: make.shared() });
        let outcome = slot.outcome.clone();
        self.slots.insert(key.clone(), slot);
        if self.slots.len() > self.capacity {
            self.slots.shift_remove_index(0);
        }
        outcome
    }

    fn forget(&mut self, key: &MemoKey, outcome: &Shared<BoxFuture<'static, Remembering>>) {
        if self.slots.get(key).is_some_and(|it| it.outcome.ptr_eq(outcome)) {
            self.slots.shift_remove(key);
        }
    }
}
