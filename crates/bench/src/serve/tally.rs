//! Counters of the load.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Counts of all sessions together.
#[derive(Debug, Default)]
pub(super) struct Tally {
    n_requests: AtomicU64,
    n_turns: AtomicUsize,
    /// Of each turn: how long it took, and how long without the model, in microseconds.
    took: Mutex<Vec<(u32, u32)>>,
    /// Of each turn: how long its client waited for the first text, in microseconds.
    first_deltas: Mutex<Vec<u32>>,
    /// The same of each request without a session.
    first_unkept_deltas: Mutex<Vec<u32>>,
}

fn micros(it: Duration) -> u32 {
    u32::try_from(it.as_micros()).unwrap_or(u32::MAX)
}

fn sorted(all: &Mutex<Vec<u32>>) -> Vec<u32> {
    let mut all = all.lock().unwrap_or_else(PoisonError::into_inner).clone();
    all.sort_unstable();
    all
}

impl Tally {
    pub(super) fn request(&self) {
        self.n_requests.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn turn(&self, took: Duration, own: Duration) {
        self.took.lock().unwrap_or_else(PoisonError::into_inner).push((micros(took), micros(own)));
        self.n_turns.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn first_delta(&self, after: Duration) {
        self.first_deltas.lock().unwrap_or_else(PoisonError::into_inner).push(micros(after));
    }

    pub(super) fn first_unkept_delta(&self, after: Duration) {
        self.first_unkept_deltas.lock().unwrap_or_else(PoisonError::into_inner).push(micros(after));
    }

    /// Returns how long clients waited for the first text, shortest first.
    pub(super) fn first_deltas(&self) -> Vec<u32> {
        sorted(&self.first_deltas)
    }

    /// Returns the same of requests without a session.
    pub(super) fn first_unkept_deltas(&self) -> Vec<u32> {
        sorted(&self.first_unkept_deltas)
    }

    pub(super) fn n_requests(&self) -> u64 {
        self.n_requests.load(Ordering::Relaxed)
    }

    pub(super) fn n_turns(&self) -> usize {
        self.n_turns.load(Ordering::Relaxed)
    }

    /// Returns how long turns took, shortest first: whole ones, and without the model.
    pub(super) fn sorted(&self) -> (Vec<u32>, Vec<u32>) {
        let took = self.took.lock().unwrap_or_else(PoisonError::into_inner);
        let (mut whole, mut own): (Vec<u32>, Vec<u32>) = took.iter().copied().unzip();
        whole.sort_unstable();
        own.sort_unstable();
        (whole, own)
    }
}
