//! Reads items: only what is requested, in one statement if the amount is known.
//!
//! Each statement also returns the end of the log at the same moment. So a missing row is noticed wherever it should
//! be: damage is reported instead of a shorter history.

use contexture_history::{Item, Seq};
use contexture_session::codec::MAX_ITEMS;
use contexture_session::{BackwardScan, Span, StoreError, ThreadKey};
use deadpool_postgres::Client;
use tokio_postgres::types::ToSql;

use crate::database::Database;
use crate::failure::Failure;
use crate::log::LogClient;
use crate::numbers::{seq_to_sql, to_sql};
use crate::rows::{self, ROWS_AT_ONCE, StoredRow};

/// The end of a log, and rows of it.
const PAGE: &str = "\
    SELECT log.end_seq, log.pruned, it.first_seq, it.count, it.body, it.blobs
    FROM {schema}.logs AS log
    LEFT JOIN LATERAL (
        SELECT first_seq, count, body, blobs FROM {schema}.commits
        WHERE tenant = $1 AND thread = $2 AND {rows}
    ) AS it ON true
    WHERE log.tenant = $1 AND log.thread = $2";

/// Rows between two positions.
const FORWARD: &str = "first_seq > $3 AND first_seq <= $4 ORDER BY first_seq";

/// Rows before a position, the newest first.
const BACKWARD: &str = "first_seq > $3 AND first_seq < $4 ORDER BY first_seq DESC LIMIT $5";

/// Rows of the newest items. How many rows that are follows from where the log ends.
const NEWEST: &str = "first_seq > log.end_seq - $3 ORDER BY first_seq DESC";

/// How many rows are read first when the number needed is unknown; it doubles each time.
const FIRST_ROWS: i64 = 32;
const MOST_ROWS: i64 = 1024;
/// About how many rows a turn has, and how many are read first at most.
const TURN_ROWS: i64 = 3;
const MOST_FIRST_ROWS: i64 = 256;

const ROW_ITEMS: i64 = MAX_ITEMS as i64;

/// The result of one statement.
#[derive(Debug)]
struct Page {
    /// The end of the log.
    end: i64,
    /// How many items were removed from its start.
    pruned: i64,
    /// The rows, oldest first.
    rows: Vec<StoredRow>,
}

impl Page {
    /// Checks that the rows are all there are from `after` up to `last`, where the first one may begin earlier.
    fn check(&self, after: i64, last: i64) -> Result<(), Failure> {
        let after = after.max(self.pruned);
        let mut end = after;
        for row in &self.rows {
            let is_first = end == after && row.first <= after;
            if !is_first && row.first != end.saturating_add(1) {
                break;
            }
            end = row.last();
        }
        match end >= last.min(self.end) {
            true => Ok(()),
            false => Err(Failure::Damaged(format!("the row with item {} is missing", end.saturating_add(1)))),
        }
    }
}

impl Database {
    pub(crate) async fn read(&self, key: &ThreadKey, span: &Span) -> Result<Vec<Item>, StoreError> {
        self.run(|client, _| async move {
            let log = LogClient { database: self, client: &client, key };
            match log.read(span).await {
                // A log that was removed between two statements looks damaged too.
                Err(Failure::Damaged(detail)) => {
                    log.page(BACKWARD, &[&0_i64, &0_i64, &0_i64]).await?;
                    Err(Failure::Damaged(detail))
                }
                outcome => outcome,
            }
        })
        .await
    }
}

impl LogClient<'_, Client> {
    async fn read(&self, span: &Span) -> Result<Vec<Item>, Failure> {
        match span {
            Span::After { seq, max } => self.read_forward(*seq, *max).await,
            Span::NewestItems { count, client: false } => self.read_newest(span, to_sql(*count as u64)).await,
            Span::NewestItems { .. } => self.read_backward(span, Seq(0), FIRST_ROWS).await,
            Span::NewestTurns(wanted) => {
                let rows = to_sql(wanted.turns as u64).saturating_mul(TURN_ROWS);
                self.read_backward(span, wanted.after, rows.clamp(FIRST_ROWS, MOST_FIRST_ROWS)).await
            }
        }
    }

    async fn read_forward(&self, after: Seq, max: usize) -> Result<Vec<Item>, Failure> {
        let last = after.plus(max as u64);
        // The row with the first wanted item may begin this much earlier.
        let above = seq_to_sql(after).saturating_sub(ROW_ITEMS);
        let mut page = self.page(FORWARD, &[&above, &seq_to_sql(last)]).await?;
        page.rows.retain(|it| it.last() > seq_to_sql(after));
        page.check(seq_to_sql(after), seq_to_sql(last))?;
        let mut items = Vec::new();
        for some in page.rows.chunks(ROWS_AT_ONCE) {
            items.extend(self.items(some).await?.into_iter().flatten());
        }
        items.retain(|it| it.seq > after && it.seq <= last);
        Ok(items)
    }

    async fn read_newest(&self, span: &Span, count: i64) -> Result<Vec<Item>, Failure> {
        let Some(mut backward) = BackwardScan::new(span) else { return Ok(Vec::new()) };
        let page = self.page(NEWEST, &[&count.saturating_add(ROW_ITEMS)]).await?;
        page.check(page.end.saturating_sub(count).max(0), page.end)?;
        self.push(&page.rows, &mut backward).await?;
        Ok(backward.finish())
    }

    /// Reads rows from the newest back until the span has what it asks for.
    async fn read_backward(&self, span: &Span, after: Seq, mut limit: i64) -> Result<Vec<Item>, Failure> {
        let Some(mut backward) = BackwardScan::new(span) else { return Ok(Vec::new()) };
        let after = seq_to_sql(after);
        let above = after.saturating_sub(ROW_ITEMS);
        let mut before = i64::MAX;
        loop {
            let page = self.page(BACKWARD, &[&above, &before, &limit]).await?;
            let has_all = to_sql(page.rows.len() as u64) < limit;
            let oldest = page.rows.first().map_or(i64::MAX, |it| it.first);
            // There is more before the oldest row, or the requested span starts with it.
            page.check(if has_all { after } else { oldest - 1 }, before - 1)?;
            self.push(&page.rows, &mut backward).await?;
            if has_all || backward.is_done() {
                return Ok(backward.finish());
            }
            before = oldest;
            limit = limit.saturating_mul(2).min(MOST_ROWS);
        }
    }

    /// Decodes rows from the newest back, as long as any are wanted.
    async fn push(&self, rows: &[StoredRow], backward: &mut BackwardScan) -> Result<(), Failure> {
        for rows in rows.rchunks(ROWS_AT_ONCE) {
            if backward.is_done() {
                break;
            }
            self.items(rows).await?.into_iter().rev().for_each(|it| backward.push(it));
        }
        Ok(())
    }

    async fn page(&self, rows: &str, params: &[&(dyn ToSql + Sync)]) -> Result<Page, Failure> {
        let found = self.query(&PAGE.replace("{rows}", rows), params).await?;
        let first = found.first().ok_or_else(|| StoreError::no_thread(&self.key.thread))?;
        let (end, pruned) = (first.try_get("end_seq")?, first.try_get("pruned")?);
        Ok(Page { end, pruned, rows: rows::stored(found)? })
    }
}
