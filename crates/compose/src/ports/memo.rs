//! Remembered contributions: bounded, single-flight, with a time to live.

use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
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
    /// Returns the remembered contribution, or runs `make` and remembers it for `ttl` from now.
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
        self.locked().slots.len()
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
        let (outcome, replaced) = self.locked().claim(&key, now, ttl, make);
        // An author's future may do anything when it is dropped: not under the lock.
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

/// What is dropped once the lock is released: slots that made room, and a future that nobody needs.
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

/// A panic of an author's function is a failure like any other: the next one to ask tries again.
fn guarded(make: BoxFuture<'static, Remembering>) -> BoxFuture<'static, Remembering> {
    let panicked = |_| Err(Arc::new(BoxError::from("the contributor panicked")));
    AssertUnwindSafe(make).catch_unwind().map(move |it| it.unwrap_or_else(panicked)).boxed()
}

/// Somebody who waits for an outcome. Whoever is the last to leave without a success clears the slot, so that a
/// failed run, or one that was given up, is not what everyone after it gets.
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
