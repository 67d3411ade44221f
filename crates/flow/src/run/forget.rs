//! Runs that are over are forgotten in the end, with everything that only they needed.
//!
//! A run goes in one commit: its log, its inbox, its documents and its start key. It was over, so nobody drives it, and nobody can begin to.
//!
//! Definitions of flows belong to many runs, and runs begin at any time. So nobody looks for definitions that can go: those that a run may
//! still need are written anew, and then those go that nobody has written for long. Whoever begins a run writes its definition anew now and then
//! ([`FRESH`]). What nodes remember (`cache`) goes in the same way.

use std::collections::BTreeSet;
use std::time::Duration;

use contexture_history::Timestamp;
use contexture_session::{Document, DocumentKey, DocumentList, StoreError, Writes};
use serde::Serialize;

use super::error::RunError;
use super::id::RunId;
use super::keys::{self, Keys};
use super::run_record::{self, PartialRunRecord};
use super::runtime::Runtime;
use super::start_key;

/// How many documents are read at once.
const PAGE: usize = 256;
/// How many documents are pruned at once.
const PRUNE_AT_ONCE: usize = 2000;
/// Whether it was written in this time counts as written just now: not every use costs a write.
pub(crate) const FRESH: Duration = Duration::from_secs(3600);
/// What is younger than this is never pruned by its time: somebody may rely on it who has not written yet.
const YOUNG: Duration = Duration::from_secs(2 * 3600);

/// How much was forgotten.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ForgetReport {
    /// Runs that were over.
    pub runs: u64,
    /// Start keys whose runs were gone before, with their sessions.
    pub keys: u64,
    /// Versions of flows that no run needs.
    pub definitions: u64,
    /// What `cache` nodes have remembered.
    pub cached: u64,
}

impl Runtime {
    /// Forgets, in all tenants, runs that were over before a time, with everything that belongs to them, and what nobody has needed since
    /// then: versions of flows that no run needs, and what `cache` nodes remember. Runs that go on or wait are never forgotten, and neither are
    /// damaged ones, of which nobody knows. It may be stopped at any time, and be done by several at once.
    pub async fn forget(&self, before: Timestamp) -> Result<ForgetReport, RunError> {
        let now = self.parts.time.now();
        let long_ago = before.min(earlier(now, YOUNG));
        let (runs, needed) = self.forget_runs(before).await?;
        self.keep_definitions(needed, long_ago, now).await?;
        let forgotten = ForgetReport {
            runs,
            keys: start_key::free_old(self.records(), before, now).await?,
            definitions: self.prune(keys::DEFINITION, long_ago).await?,
            // What was used since may have been written that much earlier.
            cached: self.prune(keys::CACHE, earlier(before, FRESH)).await?,
        };
        self.prune(keys::FREED, long_ago).await?;
        Ok(forgotten)
    }

    /// Forgets runs, and says how many, and which definitions the others need.
    async fn forget_runs(&self, before: Timestamp) -> Result<(u64, BTreeSet<DocumentKey>), RunError> {
        let (mut n_forgotten, mut needed) = (0, BTreeSet::new());
        let mut after = None;
        loop {
            let kind = keys::RUN.to_owned();
            let list = DocumentList { kind, tenant: None, session: None, after: after.take(), max: PAGE };
            let page = self.records().list(list).await?;
            let is_last = page.len() < PAGE;
            after = page.last().map(|it| it.key.clone());
            for document in page {
                let (Some(partial), Some(keys)) =
                    (PartialRunRecord::read(&document.data), keys_of(&document))
                else {
                    continue;
                };
                if !partial.is_over() {
                    needed.insert(keys::definition(&keys.tenant, &partial.fingerprint));
                } else if document.at < before {
                    n_forgotten += u64::from(self.forget_run(&keys, partial).await?);
                }
            }
            if is_last {
                return Ok((n_forgotten, needed));
            }
        }
    }

    /// Forgets a run that is over. Says whether it was there.
    async fn forget_run(&self, keys: &Keys, partial: PartialRunRecord) -> Result<bool, RunError> {
        let mut deletes = run_record::documents_of(self.records(), keys).await?;
        deletes.push(keys.run());
        // While the run is there, nobody else has its key.
        deletes.extend(partial.key.iter().map(|it| keys::start_key(&keys.tenant, it)));
        let freed_note =
            partial.key.map(|_| start_key::freed_note(&keys.tenant, &keys.run, self.parts.time.now()));
        let (puts, drops) = (freed_note.into_iter().collect(), vec![keys.log(), keys.inbox()]);
        let writes = Writes { puts, deletes, drops, requires: vec![keys.run()], ..Writes::default() };
        match self.records().write(writes).await {
            Ok(_) => Ok(true),
            // Somebody else was faster, or its session is gone.
            Err(StoreError::NotFound { .. }) => Ok(false),
            Err(err) => Err(err.into()),
        }
    }

    /// Writes definitions anew that are needed, and would be pruned.
    async fn keep_definitions(
        &self,
        needed: BTreeSet<DocumentKey>,
        before: Timestamp,
        now: Timestamp,
    ) -> Result<(), RunError> {
        let needed: Vec<DocumentKey> = needed.into_iter().collect();
        for keys in needed.chunks(PAGE) {
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

/// Returns the time so much before another one.
pub(crate) fn earlier(at: Timestamp, by: Duration) -> Timestamp {
    Timestamp(at.0.saturating_sub(i64::try_from(by.as_millis()).unwrap_or(i64::MAX)))
}
