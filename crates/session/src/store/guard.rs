//! The rules of leases, as one pure function.
//!
//! The number goes up with every change of the writer: a writer that shows no number is a new one, however short its
//! write is, and every number that was given out before is worth nothing from then on.
//!
//! The in-memory store calls it; stores that decide in SQL are held to it by the conformance suite.

use std::sync::Arc;

use contexture_history::Timestamp;

use super::{Fence, Guard, Lease};
use crate::{StoreError, ThreadKey};

/// The lease of a thread as a store keeps it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LeaseRow {
    /// The holder's name, if the lease is held.
    pub owner: Option<Arc<str>>,
    /// The number of the last lease there was.
    pub fence: Fence,
    /// When it expires.
    pub until: Timestamp,
}

impl Guard {
    /// Returns the number of the lease that the writer holds after it is admitted, when the log's last one has this number.
    pub fn fence(&self, last: Fence) -> Option<Fence> {
        matches!(self, Guard::Acquire { .. } | Guard::Hold { .. }).then_some(last)
    }

    /// Returns the error for a writer that is not admitted.
    pub fn refusal(&self, key: &ThreadKey) -> StoreError {
        match self {
            Guard::Any | Guard::Call | Guard::Free | Guard::Acquire { .. } => {
                StoreError::Held { thread: key.thread.to_string() }
            }
            Guard::Hold { fence, .. } | Guard::Release { fence } => StoreError::fenced(key, *fence),
        }
    }
}

impl LeaseRow {
    /// Whether it is held at `now`.
    pub fn is_live(&self, now: Timestamp) -> bool {
        self.owner.is_some() && now < self.until
    }

    /// Returns the lease as callers see it at `now`, if it is held.
    pub fn lease_at(&self, now: Timestamp) -> Option<Lease> {
        let (fence, live) = (self.fence, self.is_live(now));
        self.owner.clone().map(|owner| Lease { owner, fence, live })
    }

    /// Returns the lease of a log after a writer with `guard` is admitted, or why it is not.
    pub fn admit(&self, key: &ThreadKey, guard: &Guard, now: Timestamp) -> Result<LeaseRow, StoreError> {
        let refused = || Err(guard.refusal(key));
        let until = |ttl: &std::time::Duration| {
            Timestamp(now.0.saturating_add(i64::try_from(ttl.as_millis()).unwrap_or(i64::MAX)))
        };
        match guard {
            Guard::Any | Guard::Call => Ok(self.clone()),
            Guard::Free if self.is_live(now) => refused(),
            Guard::Free => Ok(LeaseRow { owner: None, fence: self.next_fence(), until: self.until }),
            Guard::Acquire { owner, .. } if self.is_live(now) && self.owner.as_ref() != Some(owner) => {
                refused()
            }
            Guard::Acquire { owner, ttl } => {
                Ok(LeaseRow { owner: Some(Arc::clone(owner)), fence: self.next_fence(), until: until(ttl) })
            }
            Guard::Hold { fence, .. } | Guard::Release { fence } if !self.is_held_as(*fence) => refused(),
            Guard::Hold { ttl, .. } => Ok(LeaseRow { until: until(ttl), ..self.clone() }),
            Guard::Release { .. } => Ok(LeaseRow { owner: None, ..self.clone() }),
        }
    }

    /// Returns the number of the lease that the writer of a repeated append still holds.
    pub fn held_fence(&self, guard: &Guard) -> Option<Fence> {
        let is_held = match guard {
            Guard::Acquire { owner, .. } => self.owner.as_ref() == Some(owner),
            Guard::Hold { fence, .. } => self.is_held_as(*fence),
            _ => false,
        };
        is_held.then_some(self.fence)
    }

    fn next_fence(&self) -> Fence {
        Fence(self.fence.0.saturating_add(1))
    }

    /// Whether the lease with this number is held.
    pub fn is_held_as(&self, fence: Fence) -> bool {
        self.owner.is_some() && self.fence == fence
    }
}
