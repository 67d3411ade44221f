//! Prunes ended runs, and what no run needs any more.
//!
//! A run is its log, so it is deleted in one commit, with its start key. It has ended, so nothing is appended to it.
//!
//! Flow definitions are shared by many runs, and runs start at any time. So definitions are not searched for garbage:
//! those that a run may still need are rewritten, and then those that were not written for long are pruned. Starting a
//! run rewrites its definition now and then ([`FRESH`]). Cached values of `cache` nodes are pruned the same way.

use std::collections::BTreeSet;
use std::time::Duration;

use contexture_history::Timestamp;
use contexture_session::{Document, DocumentKey, LogKind, LogList, pages};
use futures::TryStreamExt as _;
use serde::Serialize;

use super::Runtime;
use crate::RunError;
use crate::keys::{self, FRESH, earlier};
use crate::run::record::PartialRunRecord;

/// How many documents are pruned per call.
const PRUNE_AT_ONCE: usize = 2000;
/// Younger documents are never pruned by age: a process may rely on one and not have written yet.
const YOUNG: Duration = Duration::from_secs(2 * 3600);

/// The result of pruning runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ForgetReport {
    /// Runs that had ended.
    pub runs: u64,
    /// Versions of flows that no run needs.
    pub definitions: u64,
    /// Cached values of `cache` nodes.
    pub cached: u64,
}

impl Runtime {
    /// Deletes, in all tenants, runs that ended before a time with everything that belongs to them, and what was not
    /// needed since then: flow versions that no run needs, and cached values of `cache` nodes. Running, waiting and
    /// damaged runs are never deleted. It may be interrupted at any time, and several processes may do it
    /// concurrently.
    pub async fn forget(&self, before: Timestamp) -> Result<ForgetReport, RunError> {
        let now = self.parts.time.now();
        let long_ago = before.min(earlier(now, YOUNG));
        let (runs, needed) = self.forget_runs(before).await?;
        self.keep_definitions(needed, long_ago, now).await?;
        Ok(ForgetReport {
            runs,
            definitions: self.prune(keys::DEFINITION, long_ago).await?,
            // An entry that was used since then may have been written up to `FRESH` earlier.
            cached: self.prune(keys::CACHE, earlier(before, FRESH)).await?,
        })
    }

    /// Prunes runs; returns how many, and which definitions the others need.
    async fn forget_runs(&self, before: Timestamp) -> Result<(u64, BTreeSet<DocumentKey>), RunError> {
        let (mut n_forgotten, mut needed) = (0, BTreeSet::new());
        let all = LogList { kind: LogKind::Run, tenant: None, session: None, after: None, max: 0 };
        let mut runs = pages::logs(self.store(), all);
        while let Some(head) = runs.try_next().await? {
            let Ok(partial) = serde_json::from_str::<PartialRunRecord>(&head.state) else { continue };
            if !partial.is_over() {
                needed.insert(keys::definition(&head.tenant, &partial.fingerprint));
            } else if head.info.updated < before {
                n_forgotten += u64::from(self.store().delete_log(head.key()).await?);
            }
        }
        Ok((n_forgotten, needed))
    }

    /// Rewrites definitions that are needed and would otherwise be pruned.
    async fn keep_definitions(
        &self,
        needed: BTreeSet<DocumentKey>,
        before: Timestamp,
        now: Timestamp,
    ) -> Result<(), RunError> {
        for key in needed {
            if let Some(old) = self.documents().document(key).await?.filter(|it| it.at < before) {
                self.documents().put(Document { at: now, ..old }).await?;
            }
        }
        Ok(())
    }

    async fn prune(&self, kind: &str, before: Timestamp) -> Result<u64, RunError> {
        let mut n_pruned = 0;
        loop {
            match self.documents().prune(kind.to_owned(), before, PRUNE_AT_ONCE).await? {
                0 => return Ok(n_pruned),
                n => n_pruned += n,
            }
        }
    }
}
