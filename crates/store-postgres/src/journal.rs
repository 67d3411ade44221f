//! Prunes journals from their start, row by row.
//!
//! Locked journals are skipped, so pruning can't deadlock with writers.

use std::collections::BTreeSet;

use contexture_history::Timestamp;
use contexture_session::{StoreError, ThreadKey};
use deadpool_postgres::{GenericClient as _, Transaction};

use crate::blobs::add_hashes;
use crate::database::Database;
use crate::failure::Failure;
use crate::head::thread_key;
use crate::log::LogClient;
use crate::numbers::to_sql;

/// The most journals of one transaction: their writers wait until it ends.
const JOURNALS: usize = 64;

const OLD: &str = "\
    SELECT tenant, thread FROM {schema}.logs
    WHERE kind = 'journal' AND split_part(thread, '///', 2) = $1 AND oldest < $2 AND {current}
    ORDER BY oldest LIMIT $3 FOR UPDATE SKIP LOCKED";

/// Removes what comes before the first row that is new, or that is one too many.
const PRUNE: &str = "\
    WITH kept AS (
        SELECT first_seq, at FROM (
            SELECT first_seq, at, row_number() OVER (ORDER BY first_seq) AS place
            FROM {schema}.commits WHERE tenant = $1 AND thread = $2 ORDER BY first_seq LIMIT $5
        ) AS it
        WHERE at >= $3 OR place > $4 ORDER BY first_seq LIMIT 1
    ), log AS (
        UPDATE {schema}.logs
        SET pruned = coalesce((SELECT first_seq - 1 FROM kept), end_seq), oldest = (SELECT at FROM kept)
        WHERE tenant = $1 AND thread = $2
    )
    DELETE FROM {schema}.commits WHERE tenant = $1 AND thread = $2
        AND first_seq < coalesce((SELECT first_seq FROM kept), 9223372036854775807)
    RETURNING first_seq, count, blobs";

const REMOVE_REFS: &str = "\
    DELETE FROM {schema}.blob_refs WHERE tenant = $1 AND thread = $2 AND hash = ANY ($3)";

impl Database {
    pub(crate) async fn prune_journals(
        &self,
        name: &str,
        before: Timestamp,
        max: usize,
    ) -> Result<u64, StoreError> {
        let mut total = 0;
        while total < max {
            let spare = max - total;
            let pruned = self.run(|mut client, _| async move {
                let transaction = self.begin_writing(&mut client).await?;
                let count = self.prune_some(&transaction, name, before, spare).await?;
                transaction.commit().await?;
                Ok(count)
            });
            match pruned.await? {
                0 => break,
                count => total = total.saturating_add(count),
            }
        }
        Ok(total as u64)
    }

    /// Prunes some journals, and returns how many items were removed.
    async fn prune_some(
        &self,
        transaction: &Transaction<'_>,
        name: &str,
        before: Timestamp,
        max: usize,
    ) -> Result<usize, Failure> {
        let statement = transaction.prepare_cached(&self.current_sql(OLD)).await?;
        let limit = to_sql(max.min(JOURNALS) as u64);
        let rows = transaction.query(&statement, &[&name, &before.0, &limit]).await?;
        let journals = rows.iter().map(thread_key).collect::<Result<Vec<ThreadKey>, Failure>>()?;
        // Each has something to remove, and together not more than is allowed.
        let each = max.checked_div(journals.len()).unwrap_or(0);
        let mut count = 0;
        for key in &journals {
            count += LogClient { database: self, client: transaction, key }.prune(before, each).await?;
        }
        Ok(count)
    }
}

impl LogClient<'_, Transaction<'_>> {
    async fn prune(&self, before: Timestamp, max: usize) -> Result<usize, Failure> {
        let (last, limit) = (to_sql(max as u64), to_sql(max as u64).saturating_add(1));
        let (mut count, mut unused) = (0, BTreeSet::new());
        for row in &self.query(PRUNE, &[&before.0, &last, &limit]).await? {
            count += usize::try_from(row.try_get::<_, i32>("count")?).unwrap_or(0);
            add_hashes(&mut unused, row)?;
        }
        if !unused.is_empty() {
            let used = self.hashes_of().await?;
            let unused: Vec<String> = unused.difference(&used).cloned().collect();
            self.query(REMOVE_REFS, &[&unused]).await?;
            self.remove_unused(&unused).await?;
        }
        Ok(count)
    }
}
