//! A cache of contributions: bounded, single-flight, with a time to live.

use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::future::{BoxFuture, FutureExt, Shared};
use indexmap::IndexMap;

use crate::{BoxError, Contribution};

/// What a contribution depends on: its contributor, and a hash of everything it may have read.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct MemoKey {
    /// The prompt and the entry.
    pub owner: String,
    /// The hash of input and scope.
    pub input: u128,
}

/// The outcome of a contributor, shared by all callers that requested it.
pub type Remembering = Result<Arc<Contribution>, Arc<BoxError>>;

/// Caches contributions.
///
/// Implementors promise that only one future runs if several callers request the same key at the same time (the
/// others may be dropped unpolled), that failures are not cached, and that memory is bounded.
pub trait ContextMemo: Send + Sync {
    /// Returns the cached contribution, or runs `make` and caches the result for `ttl` from now.
    fn remember(
        &self,
        key: MemoKey,
        now: Duration,
        ttl: Duration,
        make: BoxFuture<'static, Remembering>,
    ) -> BoxFuture<'static, Remembering>;
}

/// Caches a limited number of contributions in memory and evicts the least recently used.
#[derive(Clone)]
pub struct InMemoryMemo(Arc<Mutex<Slots>>);

struct Slots {
    capacity: usize,
    /// Sorted from the least to the most recently used.
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

    /// Returns the number of cached contributions.
    pub fn len(&self) -> usize {
        self.locked().slots.len()
    }

    /// Returns whether nothing is cached.
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
        let (outcome, replaced) = self.locked().claim(&key, now, ttl, make);
        // Dropping an author's future may run arbitrary code, so the lock is released first.
        drop(replaced);
        let claim = Claim { memo: self.clone(), key, outcome };
        async move { claim.outcome.clone().await }.boxed()
    }
}

impl InMemoryMemo {
    fn locked(&self) -> MutexGuard<'_, Slots> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

type Outcome = Shared<BoxFuture<'static, Remembering>>;

/// What is dropped once the lock is released: evicted slots, and a future that is not needed.
type Replaced = (Vec<Slot>, Option<BoxFuture<'static, Remembering>>);

impl Slots {
    fn claim(
        &mut self,
        key: &MemoKey,
        now: Duration,
        ttl: Duration,
        make: BoxFuture<'static, Remembering>,
    ) -> (Outcome, Replaced) {
        let (known, expired) = match self.slots.shift_remove(key) {
            Some(slot) if slot.expires > now => (Some(slot), None),
            other => (None, other),
        };
        let (slot, unneeded) = match known {
            Some(slot) => (slot, Some(make)),
            None => (Slot { expires: now.saturating_add(ttl), outcome: guarded(make).shared() }, None),
        };
        let outcome = slot.outcome.clone();
        self.slots.insert(key.clone(), slot);
        let is_full = self.slots.len() > self.capacity;
        let evicted = if is_full { self.slots.shift_remove_index(0).map(|(_, it)| it) } else { None };
        (outcome, (expired.into_iter().chain(evicted).collect(), unneeded))
    }

    fn forget(&mut self, key: &MemoKey, outcome: &Outcome) -> Option<Slot> {
        let is_same = self.slots.get(key).is_some_and(|it| it.outcome.ptr_eq(outcome));
        if is_same { self.slots.shift_remove(key) } else { None }
    }
}

/// Turns a panic of an author's function into a failure, so that the next caller tries again.
fn guarded(make: BoxFuture<'static, Remembering>) -> BoxFuture<'static, Remembering> {
    let panicked = |_| Err(Arc::new(BoxError::from("the contributor panicked")));
    AssertUnwindSafe(make).catch_unwind().map(move |it| it.unwrap_or_else(panicked)).boxed()
}

/// A caller that waits for an outcome. The last one to leave without a success clears the slot, so that later callers
/// do not get a failed or abandoned run.
struct Claim {
    memo: InMemoryMemo,
    key: MemoKey,
    outcome: Outcome,
}

impl Drop for Claim {
    fn drop(&mut self) {
        let finished = self.outcome.peek().map(Result::is_ok);
        // Besides this claim, the slot itself holds the outcome.
        let others_wait = self.outcome.strong_count().is_some_and(|it| it > 2);
        if finished == Some(false) || (finished.is_none() && !others_wait) {
            let forgotten = self.memo.locked().forget(&self.key, &self.outcome);
            drop(forgotten);
        }
    }
}
