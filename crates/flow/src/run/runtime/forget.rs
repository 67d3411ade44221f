//! Prunes ended runs with everything that only they needed.
//!
//! A run is deleted in one commit: its log, inbox, documents and start key. It has ended, so no driver has it or can
//! take it.
//!
//! Flow definitions are shared by many runs, and runs start at any time. So definitions are not searched for garbage:
//! those that a run may still need are rewritten, and then those that were not written for long are pruned. Starting a
//! run rewrites its definition now and then ([`FRESH`]). Cached values of `cache` nodes are pruned the same way.

use std::collections::BTreeSet;
use std::time::Duration;

use contexture_history::Timestamp;
use contexture_session::{Document, DocumentKey, DocumentList, StoreError, Writes, pages};
use futures::TryStreamExt as _;
use serde::Serialize;

use super::Runtime;
use crate::keys::{self, FRESH, Keys, earlier};
use crate::run::record::{self, PartialRunRecord, start_key};
use crate::{RunError, RunId};

/// How many definitions are read at once.
const DEFINITIONS_AT_ONCE: usize = 256;
/// How many documents are pruned per call.
const PRUNE_AT_ONCE: usize = 2000;
/// Younger documents are never pruned by age: a process may rely on one and not have written yet.
const YOUNG: Duration = Duration::from_secs(2 * 3600);

/// The result of pruning runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ForgetReport {
    /// Runs that were over.
    pub runs: u64,
    /// Start keys whose runs were gone before, with their sessions.
    pub keys: u64,
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
        let forgotten = ForgetReport {
            runs,
            keys: start_key::free_old(self.records(), before, now).await?,
            definitions: self.prune(keys::DEFINITION, long_ago).await?,
            // An entry that was used since then may have been written up to `FRESH` earlier.
            cached: self.prune(keys::CACHE, earlier(before, FRESH)).await?,
        };
        self.prune(keys::FREED, long_ago).await?;
        Ok(forgotten)
    }

    /// Prunes runs; returns how many, and which definitions the others need.
    async fn forget_runs(&self, before: Timestamp) -> Result<(u64, BTreeSet<DocumentKey>), RunError> {
        let (mut n_forgotten, mut needed) = (0, BTreeSet::new());
        let mut runs = pages::documents(self.records(), DocumentList::of_kind(keys::RUN));
        while let Some(document) = runs.try_next().await? {
            let (Some(partial), Some(keys)) = (PartialRunRecord::read(&document.data), keys_of(&document))
            else {
                continue;
            };
            if !partial.is_over() {
                needed.insert(keys::definition(&keys.tenant, &partial.fingerprint));
            } else if document.at < before {
                n_forgotten += u64::from(self.forget_run(&keys, partial).await?);
            }
        }
        Ok((n_forgotten, needed))
    }

    /// Deletes a run that has ended. Returns whether it existed.
    async fn forget_run(&self, keys: &Keys, partial: PartialRunRecord) -> Result<bool, RunError> {
        let mut deletes = record::documents_of(self.records(), keys).await?;
        deletes.push(keys.run());
        // While the run exists, no other run has its key.
        deletes.extend(partial.key.iter().map(|it| keys::start_key(&keys.tenant, it)));
        let freed_note =
            partial.key.map(|_| start_key::freed_note(&keys.tenant, &keys.run, self.parts.time.now()));
        let (puts, drops) = (freed_note.into_iter().collect(), vec![keys.log(), keys.inbox()]);
        let writes = Writes { puts, deletes, drops, requires: vec![keys.run()], ..Writes::default() };
        match self.records().write(writes).await {
            Ok(_) => Ok(true),
            // Another process was faster, or the session is gone.
            Err(StoreError::NotFound { .. }) => Ok(false),
            Err(err) => Err(err.into()),
        }
    }

    /// Rewrites definitions that are needed and would otherwise be pruned.
    async fn keep_definitions(
        &self,
        needed: BTreeSet<DocumentKey>,
        before: Timestamp,
        now: Timestamp,
    ) -> Result<(), RunError> {
        let needed: Vec<DocumentKey> = needed.into_iter().collect();
        for keys in needed.chunks(DEFINITIONS_AT_ONCE) {
            let found = self.records().documents(keys.to_vec()).await?;
            let old = found.into_iter().filter(|it| it.at < before);
            let puts: Vec<Document> = old.map(|it| Document { at: now, ..it }).collect();
            if !puts.is_empty() {
                self.records().write(Writes { puts, ..Writes::default() }).await?;
            }
        }
        Ok(())
    }

    async fn prune(&self, kind: &str, before: Timestamp) -> Result<u64, RunError> {
        let mut n_pruned = 0;
        loop {
            match self.records().prune(kind.to_owned(), before, PRUNE_AT_ONCE).await? {
                0 => return Ok(n_pruned),
                n => n_pruned += n,
            }
        }
    }
}

fn keys_of(document: &Document) -> Option<Keys> {
    let run = RunId::new(document.key.session.clone()?, document.key.name.clone());
    Some(Keys { tenant: document.key.tenant.clone(), run })
}
