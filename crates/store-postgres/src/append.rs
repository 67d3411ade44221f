//! Appends: one statement that changes everything or nothing.
//!
//! The log's row is updated if the log ends where the writer expects, the guard admits the writer, and this program
//! still knows the tables; everything else is written from that row, so a refused append writes nothing. One statement
//! is one transaction: one round trip and one disk sync. An append that archives something takes a few more
//! statements, in one transaction.
//!
//! Numbers come from the row of the session's main log, which stays locked until the commit: later numbers become
//! visible later. Rows are locked in this order: the log, the main log, large texts.
//!
//! An append that lost its connection may have been carried out. If it has a name it is tried again: if it had landed,
//! it is refused, and then found in the log by its nonce. Otherwise the outcome is unknown.

use std::collections::BTreeMap;

use contexture_history::Seq;
use contexture_session::codec::{self, Row};
use contexture_session::search::archived_ranges;
use contexture_session::{Append, Appended, Fence, Guard, StoreError, ThreadKey};
use deadpool_postgres::{Client, GenericClient};
use tokio_postgres::types::ToSql;

use crate::blobs::BlobParams;
use crate::database::{Database, begin};
use crate::failure::Failure;
use crate::guard::{GuardParams, check_owner, check_text, refused};
use crate::log::LogClient;
use crate::numbers::{from_sql, seq_from_sql, seq_to_sql, to_sql};
use crate::rows::RowParams;

const APPEND: &str = "\
    WITH log AS (
        UPDATE {schema}.logs
        SET end_seq = end_seq + $7, numbered = numbered + CASE kind WHEN 'main' THEN $7 ELSE 0 END,
            turns = coalesce($8, turns), state = coalesce($9, state), needs_writer = coalesce($10, needs_writer),
            updated = greatest(updated, $11),
            oldest = CASE WHEN kind = 'journal' THEN coalesce(oldest, $12) END, {lease}
        WHERE tenant = $1 AND thread = $2 AND end_seq = coalesce($6, end_seq) AND {allowed} AND {current}
        RETURNING session, kind, end_seq, numbered, lease_fence
    ), main AS (
        UPDATE {schema}.logs AS main SET numbered = main.numbered + $7
        FROM log WHERE main.tenant = $1 AND main.thread = log.session AND log.kind IN ('isolated', 'run')
        RETURNING main.numbered
    ), appended AS (
        SELECT log.session, log.end_seq - $7 AS before, log.lease_fence,
            CASE log.kind WHEN 'main' THEN log.numbered ELSE main.numbered END - $7 AS numbered,
            CASE log.kind WHEN 'journal' THEN $12 END AS at
        FROM log LEFT JOIN main ON true
    ), written AS (
        INSERT INTO {schema}.commits
            (tenant, thread, session, nonce, at, first_seq, number, count, body, blobs)
        SELECT $1, $2, log.session, $13, log.at, log.before + it.before + 1, log.numbered + it.before + 1,
            it.count, it.body, it.blobs
        FROM appended AS log,
            unnest($14::bigint[], $15::integer[], $16::text[], $17::text[]) AS it (before, count, body, blobs)
    ){more}
    SELECT before + $7, coalesce(numbered + $7, 0), lease_fence{lazy} FROM appended";

/// The additional work of an append with large texts or idempotency keys.
const MORE: &str = ", stored AS (
        INSERT INTO {schema}.blobs AS blob (tenant, hash, body)
        SELECT $1, it.* FROM log, unnest($18::text[], $19::bytea[]) AS it
        ON CONFLICT (tenant, hash) DO UPDATE SET hash = blob.hash
    ), referred AS (
        INSERT INTO {schema}.blob_refs (tenant, thread, hash)
        SELECT $1, $2, it FROM log, unnest($18::text[]) AS it
        ON CONFLICT DO NOTHING
    ), keyed AS (
        INSERT INTO {schema}.turn_keys (tenant, thread, key_hash, turn, began)
        SELECT $1, $2, it.* FROM log, unnest($20::text[], $21::bigint[], $22::bigint[]) AS it
        ON CONFLICT (tenant, thread, key_hash) DO UPDATE SET turn = excluded.turn, began = excluded.began
    )";

/// A column that makes the statement's transaction wait for no disk.
pub(crate) const LAZY: &str = ", set_config('synchronous_commit', 'off', true)";

const LANDED: &str = "\
    SELECT row.number, log.lease_fence, coalesce(log.lease_owner = $5::text, false) FROM {schema}.logs AS log
    JOIN {schema}.commits AS row ON row.tenant = $1 AND row.thread = $2 AND row.first_seq = $3 AND row.nonce = $4
    WHERE log.tenant = $1 AND log.thread = $2";

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
pub(crate) struct Prepared<'a> {
    key: &'a ThreadKey,
    append: &'a Append,
    rows: RowParams<'a>,
    blobs: BlobParams<'a>,
    keys: KeyParams,
    /// The ranges archived by its summaries.
    archived: Vec<(Seq, Seq)>,
}

impl<'a> Prepared<'a> {
    pub(crate) fn new(key: &'a ThreadKey, append: &'a Append, rows: &'a [Row]) -> Self {
        let (blobs, keys) = (BlobParams::new(rows), KeyParams::new(append));
        let archived = archived_ranges(&append.items);
        Prepared { key, append, rows: RowParams::new(rows), blobs, keys, archived }
    }

    /// Returns the end that makes a repeated append recognisable.
    fn named(&self) -> Option<Seq> {
        self.append.expected.filter(|_| !self.append.nonce.is_empty())
    }
}

impl Database {
    pub(crate) async fn append(&self, key: &ThreadKey, append: &Append) -> Result<Appended, StoreError> {
        append.check(key)?;
        check_owner(key, &append.guard)?;
        check_text(key, "the nonce", &append.nonce)?;
        let rows = encoded(key, append)?;
        let prepared = &Prepared::new(key, append, &rows);
        self.run(|mut client, _| async move {
            let written = match prepared.archived.is_empty() {
                true => self.write_append(&client, prepared).await,
                false => self.write_and_index(&mut client, prepared).await,
            };
            match written {
                Ok(Some(appended)) => Ok(appended),
                Ok(None) => self.not_written(&client, prepared).await,
                Err(err) if prepared.named().is_none() => Err(err.or_outcome_unknown()),
                Err(err) => Err(err),
            }
        })
        .await
    }

    /// Writes an append; returns nothing if it was refused.
    pub(crate) async fn write_append(
        &self,
        client: &impl GenericClient,
        prepared: &Prepared<'_>,
    ) -> Result<Option<Appended>, Failure> {
        let Prepared { key, append, rows, blobs, keys, .. } = prepared;
        let (tenant, thread) = (key.tenant.as_str(), key.thread.as_str());
        let guard = GuardParams::new(&append.guard);
        let (expected, count) = (append.expected.map(seq_to_sql), to_sql(append.items.len() as u64));
        let state = append.state.as_ref();
        let (turns, json) = (state.map(|it| to_sql(it.turns)), state.map(|it| &it.json));
        let needs_writer = append.needs_writer();
        let newest = append.items.iter().map(|it| it.at.0).max().unwrap_or_default();
        let updated = state.map_or(newest, |it| it.updated.0.max(newest));
        let mut params: Vec<&(dyn ToSql + Sync)> =
            vec![&tenant, &thread, &guard.owner, &guard.fence, &guard.ttl, &expected, &count];
        params.extend([&turns as &(dyn ToSql + Sync), &json, &needs_writer, &updated, &newest]);
        params.extend([&append.nonce as &(dyn ToSql + Sync), &rows.before, &rows.count]);
        params.extend([&rows.body as &(dyn ToSql + Sync), &rows.places]);
        let mut more = "";
        if !blobs.hashes.is_empty() || !keys.hashes.is_empty() {
            more = MORE;
            params.extend([&blobs.hashes as &(dyn ToSql + Sync), &blobs.bodies]);
            params.extend([&keys.hashes as &(dyn ToSql + Sync), &keys.turns, &keys.began]);
        }
        let text = APPEND.replace("{more}", more).replace("{lazy}", if append.lazy { LAZY } else { "" });
        let statement = client.prepare_cached(&self.guarded_sql(&text)).await?;
        let Some(row) = client.query_opt(&statement, &params).await? else { return Ok(None) };
        Ok(Some(Appended {
            end: Seq(from_sql(row.try_get(0)?)),
            number: from_sql(row.try_get(1)?),
            fence: append.guard.fence(Fence(from_sql(row.try_get(2)?))),
        }))
    }

    /// Writes an append that archives something, and indexes it, in one transaction.
    async fn write_and_index(
        &self,
        client: &mut Client,
        prepared: &Prepared<'_>,
    ) -> Result<Option<Appended>, Failure> {
        let transaction = begin(client).await?;
        let written = self.write_append(&transaction, prepared).await?;
        if written.is_some() {
            let log = LogClient { database: self, client: &transaction, key: prepared.key };
            log.index(&prepared.archived).await?;
            transaction.commit().await?;
        } else {
            transaction.rollback().await?;
        }
        Ok(written)
    }

    async fn not_written(&self, client: &Client, prepared: &Prepared<'_>) -> Result<Appended, Failure> {
        let Prepared { key, append, .. } = prepared;
        if let Some(expected) = prepared.named()
            && let Some(appended) = self.landed(client, prepared, expected).await?
        {
            return Ok(appended);
        }
        let current_lease = self.current_lease(client, key, &append.guard).await?;
        match append.expected {
            Some(expected) if current_lease.is_allowed && current_lease.end != seq_to_sql(expected) => {
                Err(StoreError::conflict(key, expected, seq_from_sql(current_lease.end)).into())
            }
            _ => Err(refused(key, &append.guard, current_lease)),
        }
    }

    /// Returns the result of an append that was made before.
    async fn landed(
        &self,
        client: &Client,
        prepared: &Prepared<'_>,
        expected: Seq,
    ) -> Result<Option<Appended>, Failure> {
        let Prepared { key, append, .. } = prepared;
        let owner = GuardParams::new(&append.guard).owner;
        let log = LogClient { database: self, client, key };
        let rows = log.query(LANDED, &[&seq_to_sql(expected.next()), &append.nonce, &owner]).await?;
        let Some(row) = rows.first() else { return Ok(None) };
        let (number, current, is_owner): (Option<i64>, i64, bool) =
            (row.try_get(0)?, row.try_get(1)?, row.try_get(2)?);
        let count = append.items.len() as u64;
        let fence = match &append.guard {
            Guard::Hold { fence, .. } => Some(*fence),
            // Another writer may have taken the lease over since.
            guard => guard.fence(Fence(from_sql(current))).filter(|_| is_owner),
        };
        let number = number.map_or(0, |it| from_sql(it) + count - 1);
        Ok(Some(Appended { end: expected.plus(count), fence, number }))
    }
}

/// Returns the rows of an append.
pub(crate) fn encoded(key: &ThreadKey, append: &Append) -> Result<Vec<Row>, StoreError> {
    codec::encode(&append.items).map_err(|err| StoreError::malformed(key, err))
}
