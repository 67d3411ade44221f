//! Remembers how many chunks have a term: a search asks that of dozens of terms, most of which many searches share.
//! What is remembered is a view of one version of a base.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use contexture_history::Timestamp;
use contexture_session::rank::AnalyzerPool;

use super::base::BaseRows;

/// So many counts are remembered.
const MAX_COUNTS: usize = 100_000;

/// What searches share.
#[derive(Debug, Default)]
pub(crate) struct SearchCache {
    pub(crate) counts: TermCounts,
    pub(crate) analyzers: AnalyzerPool,
}

/// The counts of terms of several bases.
#[derive(Debug, Default)]
pub(crate) struct TermCounts(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    bases: HashMap<i64, BaseCounts>,
    total: usize,
}

#[derive(Debug, Default)]
struct BaseCounts {
    of: Option<(Timestamp, u64)>,
    counts: HashMap<String, u64>,
}

impl TermCounts {
    fn lock(&self) -> MutexGuard<'_, Known> {
        // Every change is a single step: a panic elsewhere leaves nothing half done.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns what is known of a term in this version of a base.
    pub(crate) fn get(&self, base: &BaseRows<'_>, token: &str) -> Option<u64> {
        let known = self.lock();
        let of_base = known.bases.get(&base.no).filter(|it| it.of == Some(version(base)))?;
        of_base.counts.get(token).copied()
    }

    pub(crate) fn put(&self, base: &BaseRows<'_>, token: String, count: u64) {
        let mut known = self.lock();
        if known.total >= MAX_COUNTS {
            *known = Known::default();
        }
        let of_base = known.bases.entry(base.no).or_default();
        let forgotten = match of_base.of == Some(version(base)) {
            true => 0,
            false => std::mem::take(&mut of_base.counts).len(),
        };
        of_base.of = Some(version(base));
        let is_new = of_base.counts.insert(token, count).is_none();
        known.total = known.total - forgotten + usize::from(is_new);
    }
}

/// A base that was deleted and created again is another one.
fn version(base: &BaseRows<'_>) -> (Timestamp, u64) {
    (base.info.created, base.info.version)
}
