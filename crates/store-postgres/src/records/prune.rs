//! Prunes old data: streams from their start, documents by their time.
//!
//! Locked rows are skipped, so pruning can't deadlock with writers.

use contexture_history::Timestamp;
use contexture_session::StoreError;
use deadpool_postgres::{Client, Transaction};
use futures::future::try_join_all;

use crate::database::{Database, begin};
use crate::failure::Failure;
use crate::numbers::to_sql;

/// The most streams of one transaction: their writers wait until it ends.
const STREAMS: usize = 64;

const OLD_STREAMS: &str = "\
    SELECT tenant, session, forgotten, last FROM {schema}.streams
    WHERE kind = $1 AND oldest < $2 ORDER BY oldest LIMIT $3 FOR UPDATE SKIP LOCKED";
/// The records that can go, and the first one after them.
const FIRST_RECORDS: &str = "\
    SELECT number, at FROM {schema}.records
    WHERE tenant = $1 AND session = $2 AND kind = $3 AND number > $4 ORDER BY number LIMIT $5";
const REMOVE_RECORDS: &str = "\
    DELETE FROM {schema}.records WHERE tenant = $1 AND session = $2 AND kind = $3 AND number <= $4";
const FORGET: &str = "\
    UPDATE {schema}.streams SET forgotten = $4, oldest = $5
    WHERE tenant = $1 AND session = $2 AND kind = $3";
const REMOVE_DOCUMENTS: &str = "\
    DELETE FROM {schema}.documents WHERE ctid = ANY (ARRAY(
        SELECT ctid FROM {schema}.documents WHERE kind = $1 AND at < $2 AND {current} ORDER BY at LIMIT $3
        FOR UPDATE SKIP LOCKED
    ))";

/// The arguments of a prune call.
#[derive(Clone, Copy, Debug)]
struct PruneRequest<'a> {
    kind: &'a str,
    before: Timestamp,
    max: usize,
}

/// A stream that begins with something old.
#[derive(Debug)]
struct OldStream {
    tenant: String,
    session: String,
    forgotten: i64,
    last: i64,
}

impl Database {
    pub(crate) async fn prune(&self, kind: &str, before: Timestamp, max: usize) -> Result<u64, StoreError> {
        let mut spare = max;
        while spare > 0 {
            let pruning = PruneRequest { kind, before, max: spare };
            let count =
                self.run(|client, _| async move { self.prune_streams(client, pruning).await }).await?;
            if count == 0 {
                break;
            }
            spare = spare.saturating_sub(count);
        }
        let limit = &to_sql(spare as u64);
        let documents = self
            .run(|client, _| async move {
                let statement = client.prepare_cached(&self.current_sql(REMOVE_DOCUMENTS)).await?;
                Ok(client.execute(&statement, &[&kind, &before.0, limit]).await?)
            })
            .await?;
        Ok((max - spare) as u64 + documents)
    }

    /// Prunes the starts of some streams. Returns how many records were removed.
    async fn prune_streams(&self, mut client: Client, pruning: PruneRequest<'_>) -> Result<usize, Failure> {
        let transaction = begin(&mut client).await?;
        self.check_current(&transaction).await?;
        let statement = transaction.prepare_cached(&self.sql(OLD_STREAMS)).await?;
        let limit = to_sql(pruning.max.min(STREAMS) as u64);
        let rows = transaction.query(&statement, &[&pruning.kind, &pruning.before.0, &limit]).await?;
        let mut streams = Vec::new();
        for row in rows {
            let (tenant, session) = (row.try_get(0)?, row.try_get(1)?);
            streams.push(OldStream { tenant, session, forgotten: row.try_get(2)?, last: row.try_get(3)? });
        }
        // All of them have something to forget, and together not more than is allowed.
        let each = PruneRequest { max: pruning.max.checked_div(streams.len()).unwrap_or(0), ..pruning };
        // At once: one round trip for all streams.
        let transaction_ref = &transaction;
        let forgetting = streams.iter().map(|it| self.forget(transaction_ref, each, it));
        let counts = try_join_all(forgetting).await?;
        transaction.commit().await?;
        Ok(counts.iter().sum())
    }

    async fn forget(
        &self,
        transaction: &Transaction<'_>,
        pruning: PruneRequest<'_>,
        stream: &OldStream,
    ) -> Result<usize, Failure> {
        let OldStream { tenant, session, forgotten, last } = stream;
        let kind = &pruning.kind;
        let statement = transaction.prepare_cached(&self.sql(FIRST_RECORDS)).await?;
        let limit = to_sql(pruning.max as u64).saturating_add(1);
        let rows = transaction.query(&statement, &[tenant, session, kind, forgotten, &limit]).await?;
        let mut records = Vec::new();
        for row in rows {
            records.push((row.try_get::<_, i64>(0)?, row.try_get::<_, i64>(1)?));
        }
        let old = records.iter().take(pruning.max).take_while(|it| it.1 < pruning.before.0).count();
        let first_kept = records.get(old);
        let forgotten = first_kept.map_or(*last, |it| it.0 - 1);
        let oldest = first_kept.map(|it| it.1);
        let statement = transaction.prepare_cached(&self.sql(REMOVE_RECORDS)).await?;
        transaction.execute(&statement, &[tenant, session, kind, &forgotten]).await?;
        let statement = transaction.prepare_cached(&self.sql(FORGET)).await?;
        transaction.execute(&statement, &[tenant, session, kind, &forgotten, &oldest]).await?;
        Ok(old)
    }
}
