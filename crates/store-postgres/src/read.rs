//! Reading items: only what is asked for.
//!
//! Rows are checked to follow each other without a gap. A missing one is damage and never a shorter history.

use std::collections::BTreeSet;
use std::pin::pin;

use contexture_history::{Item, Seq};
use contexture_session::codec::{self, BlobPlace, MAX_ITEMS};
use contexture_session::{Backward, Span, StoreError, Tenant, ThreadKey};
use deadpool_postgres::{Client, GenericClient};
use futures::TryStreamExt;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use crate::blobs::{Texts, joined};
use crate::database::Database;
use crate::failure::Failure;
use crate::numbers::{from_seq, from_u64, to_u64};

/// Rows between two positions.
const FORWARD: &str = "\
    SELECT first_seq, count, body, blobs FROM {schema}.commits
    WHERE tenant = $1 AND thread = $2 AND first_seq > $3 AND first_seq <= $4
    ORDER BY first_seq";

/// Rows before a position, the newest first.
const BACKWARD: &str = "\
    SELECT first_seq, count, body, blobs FROM {schema}.commits
    WHERE tenant = $1 AND thread = $2 AND first_seq > $3 AND first_seq < $4
    ORDER BY first_seq DESC LIMIT $5";

/// Rows of the newest items, the newest first. How many rows that are follows from where the log ends.
const NEWEST: &str = "\
    SELECT first_seq, count, body, blobs FROM {schema}.commits
    WHERE tenant = $1 AND thread = $2 AND first_seq > (
        SELECT end_seq - $3 FROM {schema}.threads WHERE tenant = $1 AND thread = $2
    )
    ORDER BY first_seq DESC";

const EXISTS: &str = "SELECT FROM {schema}.threads WHERE tenant = $1 AND thread = $2";

/// How many rows are read at first when it is unknown how many are needed; then twice as many each time.
const FIRST_ROWS: i64 = 32;
const MOST_ROWS: i64 = 1024;

const ROW_ITEMS: i64 = MAX_ITEMS as i64;

/// How many rows are decoded, and get their large texts, together.
const ROWS_AT_ONCE: usize = 16;

/// A stored row, not decoded yet.
#[derive(Debug)]
pub(crate) struct Stored {
    first: i64,
    count: i32,
    places: Vec<BlobPlace>,
    row: Row,
}

impl Stored {
    pub(crate) fn new(row: Row) -> Result<Stored, Failure> {
        let (first, count) = (row.try_get(0)?, row.try_get(1)?);
        let places: Option<&str> = row.try_get(3)?;
        let places = places.map(serde_json::from_str).transpose();
        let places = places.map_err(|err| Failure::damaged_row(first, &err.into()))?.unwrap_or_default();
        Ok(Stored { first, count, places, row })
    }

    fn last(&self) -> i64 {
        self.first.saturating_add(i64::from(self.count)) - 1
    }

    /// Checks that the row goes on after `end`. The first row of a read may begin before what is read.
    fn check_follows(&self, end: i64, read_after: Seq) -> Result<(), Failure> {
        let is_first = end == from_seq(read_after) && self.first <= end;
        match is_first || self.first == end.saturating_add(1) {
            true => Ok(()),
            false => Err(Failure::Damaged(format!("the row after item {end} is missing"))),
        }
    }

    fn decode(&self, texts: &Texts) -> Result<Vec<Item>, Failure> {
        let (first, count) = (Seq(to_u64(self.first)), u32::try_from(self.count).unwrap_or(0));
        let blobs = joined(&self.places, texts)?;
        codec::decode(first, count, self.row.try_get(2)?, blobs)
            .map_err(|err| Failure::damaged_row(self.first, &err))
    }
}

impl Database {
    pub(crate) async fn read(&self, key: &ThreadKey, span: &Span) -> Result<Vec<Item>, StoreError> {
        self.run(|client, _| async move {
            let outcome = match span {
                Span::After { seq, max } => self.read_forward(&client, key, *seq, *max).await,
                Span::NewestItems { count, client: false } => self.read_newest(&client, key, *count).await,
                Span::NewestItems { .. } => self.read_backward(&client, key, span, 0, FIRST_ROWS).await,
                Span::NewestTurns(wanted) => {
                    let rows = from_u64(wanted.turns as u64).saturating_mul(4).clamp(FIRST_ROWS, MOST_ROWS);
                    self.read_backward(&client, key, span, from_seq(wanted.after), rows).await
                }
            };
            match outcome {
                // A thread that was removed meanwhile looks damaged too.
                Ok(items) if !items.is_empty() => Ok(items),
                outcome => self.exists(&client, key).await.and(outcome),
            }
        })
        .await
    }

    async fn exists(&self, client: &Client, key: &ThreadKey) -> Result<(), Failure> {
        let statement = client.prepare_cached(&self.sql(EXISTS)).await?;
        let row = client.query_opt(&statement, &[&key.tenant.as_str(), &key.thread.as_str()]).await?;
        row.map(|_| ()).ok_or_else(|| StoreError::no_thread(&key.thread).into())
    }

    async fn read_forward(
        &self,
        client: &Client,
        key: &ThreadKey,
        after: Seq,
        max: usize,
    ) -> Result<Vec<Item>, Failure> {
        let (tenant, thread) = (key.tenant.as_str(), key.thread.as_str());
        let last = after.plus(max as u64);
        // The row with the first wanted item may begin this much earlier.
        let above = from_seq(after).saturating_sub(ROW_ITEMS);
        let params: [&(dyn ToSql + Sync); 4] = [&tenant, &thread, &above, &from_seq(last)];
        let statement = client.prepare_cached(&self.sql(FORWARD)).await?;
        let rows = client.query_raw(&statement, params).await?;
        // What has arrived is decoded while the rest is on its way.
        let mut chunks = pin!(rows.try_chunks(ROWS_AT_ONCE));
        let (mut items, mut end) = (Vec::new(), from_seq(after));
        while let Some(chunk) = chunks.try_next().await.map_err(|err| err.1)? {
            let mut rows = chunk.into_iter().map(Stored::new).collect::<Result<Vec<_>, _>>()?;
            rows.retain(|it| it.last() > from_seq(after));
            for row in &rows {
                row.check_follows(end, after)?;
                end = row.last();
            }
            items.extend(self.items(client, &key.tenant, &rows).await?.into_iter().flatten());
        }
        items.retain(|it: &Item| it.seq > after && it.seq <= last);
        Ok(items)
    }

    async fn read_newest(
        &self,
        client: &Client,
        key: &ThreadKey,
        count: usize,
    ) -> Result<Vec<Item>, Failure> {
        let (tenant, thread) = (key.tenant.as_str(), key.thread.as_str());
        let reach = from_u64(count as u64).saturating_add(ROW_ITEMS);
        let params: [&(dyn ToSql + Sync); 3] = [&tenant, &thread, &reach];
        let rows = self.rows(client, NEWEST, &params).await?;
        check_descending(&rows, i64::MAX)?;
        let span = Span::NewestItems { count, client: false };
        let Some(mut backward) = Backward::new(&span) else { return Ok(Vec::new()) };
        self.push(client, key, &rows, &mut backward).await?;
        Ok(backward.finish())
    }

    /// Reads rows from the newest back until the span has what it asks for.
    async fn read_backward(
        &self,
        client: &Client,
        key: &ThreadKey,
        span: &Span,
        after: i64,
        mut limit: i64,
    ) -> Result<Vec<Item>, Failure> {
        let (tenant, thread) = (key.tenant.as_str(), key.thread.as_str());
        let above = after.saturating_sub(ROW_ITEMS);
        let Some(mut backward) = Backward::new(span) else { return Ok(Vec::new()) };
        let mut before = i64::MAX;
        while !backward.is_done() {
            let params: [&(dyn ToSql + Sync); 5] = [&tenant, &thread, &above, &before, &limit];
            let rows = self.rows(client, BACKWARD, &params).await?;
            let is_last = from_u64(rows.len() as u64) < limit;
            check_descending(&rows, before)?;
            before = rows.last().map_or(before, |it| it.first);
            self.push(client, key, &rows, &mut backward).await?;
            if is_last {
                break;
            }
            limit = limit.saturating_mul(2).min(MOST_ROWS);
        }
        Ok(backward.finish())
    }

    /// Decodes rows, the newest first, as long as any are wanted.
    async fn push(
        &self,
        client: &Client,
        key: &ThreadKey,
        rows: &[Stored],
        backward: &mut Backward,
    ) -> Result<(), Failure> {
        for rows in rows.chunks(ROWS_AT_ONCE) {
            if backward.is_done() {
                break;
            }
            for commit in self.items(client, &key.tenant, rows).await? {
                backward.push(commit);
            }
        }
        Ok(())
    }

    async fn rows(
        &self,
        client: &Client,
        sql: &str,
        params: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Stored>, Failure> {
        let statement = client.prepare_cached(&self.sql(sql)).await?;
        client.query(&statement, params).await?.into_iter().map(Stored::new).collect()
    }

    /// Returns the items of each row, with their large texts in place.
    pub(crate) async fn items(
        &self,
        client: &impl GenericClient,
        tenant: &Tenant,
        rows: &[Stored],
    ) -> Result<Vec<Vec<Item>>, Failure> {
        let hashes: BTreeSet<&str> = rows.iter().flat_map(|it| &it.places).map(|it| &*it.hash).collect();
        let texts = self.texts(client, tenant, &hashes).await?;
        rows.iter().map(|it| it.decode(&texts)).collect()
    }
}

/// Checks that rows, the newest first, follow each other up to the item before `before`.
fn check_descending(rows: &[Stored], mut before: i64) -> Result<(), Failure> {
    for row in rows {
        if before != i64::MAX && row.last().saturating_add(1) != before {
            return Err(Failure::Damaged(format!("the row before item {before} is missing")));
        }
        before = row.first;
    }
    Ok(())
}
