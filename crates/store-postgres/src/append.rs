//! Appends: one statement that changes everything or nothing.
//!
//! The thread's row is updated if the log ends where the writer expects, the guard admits the writer, and this program
//! still knows the tables; everything else is written from that row, so a refused append writes nothing. One statement
//! is one transaction: one round trip and one disk sync. An append that archives something takes a few more
//! statements, in one transaction.
//!
//! An append that lost its connection may have been carried out. It is tried again all the same: if it had been, it
//! is refused, and then found in the log by its nonce.

use std::collections::BTreeMap;

use contexture_history::Seq;
use contexture_session::codec::{self, Row};
use contexture_session::search::archived_ranges;
use contexture_session::{Append, Appended, Guard, StoreError, ThreadKey};
use deadpool_postgres::{Client, GenericClient};
use tokio_postgres::types::ToSql;

use crate::blobs::BlobParams;
use crate::database::{Attempt, Database, begin};
use crate::failure::Failure;
use crate::guard::{GuardParams, check_owner, held, refused};
use crate::numbers::{from_sql, nonce, seq_to_sql, to_sql};
use crate::rows::RowParams;

const PLAIN: &str = "\
    WITH thread AS (
        UPDATE {schema}.threads
        SET end_seq = $7, turns = $8, state = $9, updated = greatest(updated, $10), {lease}
        WHERE tenant = $1 AND thread = $2 AND end_seq = $6 AND {allowed} AND {current}
        RETURNING lease_fence
    ), written AS (
        INSERT INTO {schema}.commits (tenant, thread, nonce, first_seq, count, body, blobs)
        SELECT $1, $2, $11, it.*
        FROM thread, unnest($12::bigint[], $13::integer[], $14::text[], $15::text[]) AS it
    ){more}
    SELECT lease_fence FROM thread";

/// The additional work of an append with large texts or idempotency keys.
const MORE: &str = ", stored AS (
        INSERT INTO {schema}.blobs AS blob (tenant, hash, body)
        SELECT $1, it.* FROM thread, unnest($16::text[], $17::bytea[]) AS it
        ON CONFLICT (tenant, hash) DO UPDATE SET hash = blob.hash
    ), referred AS (
        INSERT INTO {schema}.blob_refs (tenant, thread, hash)
        SELECT $1, $2, it FROM thread, unnest($16::text[]) AS it
        ON CONFLICT DO NOTHING
    ), keyed AS (
        INSERT INTO {schema}.turn_keys (tenant, thread, key_hash, turn, began)
        SELECT $1, $2, it.* FROM thread, unnest($18::text[], $19::bigint[], $20::bigint[]) AS it
        ON CONFLICT (tenant, thread, key_hash) DO UPDATE SET turn = excluded.turn, began = excluded.began
    )";

const OURS: &str = "\
    SELECT thread.lease_fence, coalesce(thread.lease_owner = $5::text, false) FROM {schema}.threads AS thread
    JOIN {schema}.commits AS row ON row.tenant = $1 AND row.thread = $2 AND row.first_seq = $3 AND row.nonce = $4
    WHERE thread.tenant = $1 AND thread.thread = $2";

/// Idempotency keys as columns.
#[derive(Debug)]
struct KeyParams {
    hashes: Vec<String>,
    turns: Vec<i64>,
    began: Vec<i64>,
}

impl KeyParams {
    fn new(append: &Append) -> Self {
        // The last of equal keys counts, and one statement may write a row only once.
        let unique: BTreeMap<_, _> =
            append.keys.iter().map(|(key, turn)| (codec::blob_hash(key), turn)).collect();
        KeyParams {
            turns: unique.values().map(|it| to_sql(it.turn.0)).collect(),
            began: unique.values().map(|it| seq_to_sql(it.began)).collect(),
            hashes: unique.into_keys().collect(),
        }
    }
}

/// An append, ready to be sent as often as it takes.
#[derive(Debug)]
struct Prepared<'a> {
    key: &'a ThreadKey,
    append: &'a Append,
    state: String,
    nonce: i64,
    rows: RowParams<'a>,
    blobs: BlobParams<'a>,
    keys: KeyParams,
    /// The ranges archived by its summaries.
    archived: Vec<(Seq, Seq)>,
}

impl<'a> Prepared<'a> {
    fn new(key: &'a ThreadKey, append: &'a Append, rows: &'a [Row]) -> Result<Self, serde_json::Error> {
        let state = serde_json::to_string(&append.state)?;
        let (blobs, keys) = (BlobParams::new(rows), KeyParams::new(append));
        let archived = archived_ranges(&append.items);
        Ok(Prepared {
            key,
            append,
            state,
            nonce: nonce(),
            rows: RowParams::new(rows)?,
            blobs,
            keys,
            archived,
        })
    }

    fn is_plain(&self) -> bool {
        self.blobs.hashes.is_empty() && self.keys.hashes.is_empty()
    }

    fn done(&self, fence: i64) -> Appended {
        Appended { end: self.append.state.end, fence: held(&self.append.guard, fence) }
    }
}

impl Database {
    pub(crate) async fn append(&self, key: &ThreadKey, append: &Append) -> Result<Appended, StoreError> {
        append.check(key)?;
        check_owner(key, &append.guard)?;
        let malformed = |err: serde_json::Error| StoreError::Malformed {
            thread: key.thread.to_string(),
            detail: err.to_string(),
        };
        let rows = codec::encode(&append.items).map_err(malformed)?;
        let prepared = &Prepared::new(key, append, &rows).map_err(malformed)?;
        self.run(|mut client, attempt| async move {
            let written = match prepared.archived.is_empty() {
                true => self.write(&client, prepared).await?,
                false => self.write_and_index(&mut client, prepared).await?,
            };
            match written {
                Some(fence) => Ok(prepared.done(fence)),
                None => self.not_written(&client, prepared, attempt).await,
            }
        })
        .await
    }

    /// Writes an append and returns the number of the last lease; nothing if it was refused.
    async fn write(
        &self,
        client: &impl GenericClient,
        prepared: &Prepared<'_>,
    ) -> Result<Option<i64>, Failure> {
        let Prepared { key, append, state, nonce, rows, blobs, keys, .. } = prepared;
        let (tenant, thread) = (key.tenant.as_str(), key.thread.as_str());
        let guard = GuardParams::new(&append.guard);
        let (expected, end) = (seq_to_sql(append.expected), seq_to_sql(append.state.end));
        let turns = to_sql(append.state.turn.0);
        let updated = append.state.updated.0;
        let mut params: Vec<&(dyn ToSql + Sync)> =
            vec![&tenant, &thread, &guard.owner, &guard.fence, &guard.ttl];
        params.extend([&expected as &(dyn ToSql + Sync), &end, &turns, state, &updated, nonce]);
        params.extend([&rows.first as &(dyn ToSql + Sync), &rows.count, &rows.body, &rows.places]);
        let mut more = "";
        if !prepared.is_plain() {
            more = MORE;
            params.extend([&blobs.hashes as &(dyn ToSql + Sync), &blobs.bodies]);
            params.extend([&keys.hashes as &(dyn ToSql + Sync), &keys.turns, &keys.began]);
        }
        let statement = client.prepare_cached(&self.guarded_sql(&PLAIN.replace("{more}", more))).await?;
        let row = client.query_opt(&statement, &params).await?;
        Ok(row.map(|it| it.try_get(0)).transpose()?)
    }

    /// Writes an append that archives something, and indexes it, in one transaction.
    async fn write_and_index(
        &self,
        client: &mut Client,
        prepared: &Prepared<'_>,
    ) -> Result<Option<i64>, Failure> {
        let transaction = begin(client).await?;
        let written = self.write(&transaction, prepared).await?;
        if written.is_some() {
            self.index(&transaction, prepared.key, &prepared.archived).await?;
            transaction.commit().await?;
        } else {
            transaction.rollback().await?;
        }
        Ok(written)
    }

    async fn not_written(
        &self,
        client: &Client,
        prepared: &Prepared<'_>,
        attempt: Attempt,
    ) -> Result<Appended, Failure> {
        let Prepared { key, append, .. } = prepared;
        if attempt == Attempt::AfterLoss
            && let Some(appended) = self.written_before(client, prepared).await?
        {
            return Ok(appended);
        }
        let current_lease = self.current_lease(client, key, &append.guard).await?;
        if current_lease.is_allowed && current_lease.end != seq_to_sql(append.expected) {
            return Err(StoreError::Conflict {
                thread: key.thread.to_string(),
                expected: append.expected,
                found: Seq(from_sql(current_lease.end)),
            }
            .into());
        }
        Err(refused(key, &append.guard, current_lease))
    }

    /// Returns what an earlier attempt did, if it was carried out.
    async fn written_before(
        &self,
        client: &Client,
        prepared: &Prepared<'_>,
    ) -> Result<Option<Appended>, Failure> {
        let Prepared { key, append, nonce, .. } = prepared;
        let first = seq_to_sql(append.expected.next());
        let owner = GuardParams::new(&append.guard).owner;
        let statement = client.prepare_cached(&self.sql(OURS)).await?;
        let (tenant, thread) = (key.tenant.as_str(), key.thread.as_str());
        let row = client.query_opt(&statement, &[&tenant, &thread, &first, nonce, &owner]).await?;
        let Some(row) = row else { return Ok(None) };
        let (fence, is_owner): (i64, bool) = (row.try_get(0)?, row.try_get(1)?);
        match &append.guard {
            Guard::Hold { fence, .. } => Ok(Some(Appended { end: append.state.end, fence: Some(*fence) })),
            // The items were written, but another writer has taken over the lease since.
            Guard::Acquire { .. } if !is_owner => {
                Err(StoreError::Held { thread: key.thread.to_string() }.into())
            }
            _ => Ok(Some(prepared.done(fence))),
        }
    }
}
