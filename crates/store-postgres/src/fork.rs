//! A thread that starts with a copy of another's items. The copy never leaves the database, except for the one row
//! that may have to be cut. Copied items have no numbers in their session.

use contexture_history::Item;
use contexture_session::codec;
use contexture_session::{NewLog, StoreError, ThreadKey};
use deadpool_postgres::Transaction;

use crate::create::LogRow;
use crate::database::{Database, begin};
use crate::failure::Failure;
use crate::numbers::seq_to_sql;
use crate::rows::{self, RowParams};

/// The source can't be removed during the copy; appends to it continue.
const LOCK: &str = "\
    SELECT end_seq FROM {schema}.logs WHERE tenant = $1 AND thread = $2 FOR KEY SHARE";

const COPY: &str = "\
    INSERT INTO {schema}.commits (tenant, thread, session, first_seq, count, body, blobs, nonce)
    SELECT tenant, $3, $5, first_seq, count, body, blobs, '' FROM {schema}.commits
    WHERE tenant = $1 AND thread = $2 AND first_seq <= $4 AND first_seq + count - 1 <= $4";

/// The row that has the last item and more.
const CUT: &str = "\
    SELECT first_seq, count, body, blobs FROM {schema}.commits
    WHERE tenant = $1 AND thread = $2 AND first_seq <= $3 AND first_seq > $3 - $4::bigint AND first_seq + count - 1 > $3";

const ADD: &str = "\
    INSERT INTO {schema}.commits (tenant, thread, session, nonce, first_seq, count, body, blobs)
    SELECT $1, $2, $3, '', $4::bigint + it.before, it.count, it.body, it.blobs
    FROM unnest($5::bigint[], $6::integer[], $7::text[], $8::text[]) AS it (before, count, body, blobs)";

const REFER: &str = "\
    INSERT INTO {schema}.blob_refs (tenant, thread, hash) SELECT $1, $2, it FROM unnest($3::text[]) AS it";

impl Database {
    pub(crate) async fn fork(&self, from: &ThreadKey, log: &NewLog) -> Result<(), StoreError> {
        if from.tenant != log.session.tenant {
            // A thread of another tenant counts as missing.
            return Err(StoreError::no_thread(&from.thread));
        }
        let row = &LogRow::new(log)?;
        self.run(|mut client, attempt| async move {
            let transaction = begin(&mut client).await?;
            let copied = self.copy(&transaction, from, row).await;
            if copied.is_ok() {
                return Ok(transaction.commit().await?);
            }
            transaction.rollback().await?;
            self.made(&client, attempt, row, copied).await
        })
        .await
    }

    async fn copy(
        &self,
        transaction: &Transaction<'_>,
        from: &ThreadKey,
        row: &LogRow<'_>,
    ) -> Result<(), Failure> {
        let (tenant, source) = (from.tenant.as_str(), from.thread.as_str());
        let (thread, session) = (row.log.thread.as_str(), row.log.session.session.as_str());
        let end = seq_to_sql(row.log.state.end);
        // The session's row is locked first, as when it is deleted.
        self.insert_log(transaction, row, row.log.state.end).await?;
        let found = transaction.query_opt(&self.sql(LOCK), &[&tenant, &source]).await?;
        let found: i64 = found.ok_or_else(|| StoreError::no_thread(&from.thread))?.try_get(0)?;
        if end > found {
            let detail = format!("it forks at {end}, and thread `{source}` ends at {found}");
            return Err(StoreError::Malformed { thread: thread.to_owned(), detail }.into());
        }
        transaction.execute(&self.sql(COPY), &[&tenant, &source, &thread, &end, &session]).await?;
        self.copy_cut(transaction, from, row).await?;
        self.copy_refs(transaction, &row.log.key()).await?;
        self.copy_words(transaction, from, row.log).await
    }

    /// Copies the first items of the row in which the copy ends.
    async fn copy_cut(
        &self,
        transaction: &Transaction<'_>,
        from: &ThreadKey,
        row: &LogRow<'_>,
    ) -> Result<(), Failure> {
        let (tenant, source) = (from.tenant.as_str(), from.thread.as_str());
        let end = row.log.state.end;
        let most_items = codec::MAX_ITEMS as i64;
        let cut =
            transaction.query(&self.sql(CUT), &[&tenant, &source, &seq_to_sql(end), &most_items]).await?;
        let cut = rows::stored(cut)?;
        if cut.is_empty() {
            return Ok(());
        }
        let rows = self.items(transaction, &from.tenant, &cut).await?;
        let items: Vec<Item> = rows.into_iter().flatten().filter(|it| it.seq <= end).collect();
        let damaged = |err: serde_json::Error| Failure::Damaged(err.to_string());
        // Its large texts are in the source too, and need not be written again.
        let rows = codec::encode(&items).map_err(damaged)?;
        let params = RowParams::new(&rows).map_err(damaged)?;
        let (thread, session) = (row.log.thread.as_str(), row.log.session.session.as_str());
        let first = items.first().map_or(0, |it| seq_to_sql(it.seq));
        let RowParams { before, count, body, places } = &params;
        transaction
            .execute(&self.sql(ADD), &[&tenant, &thread, &session, &first, before, count, body, places])
            .await?;
        Ok(())
    }

    /// Adds the copy's references to its large texts. They can't be removed: the locked source refers to them.
    async fn copy_refs(&self, transaction: &Transaction<'_>, key: &ThreadKey) -> Result<(), Failure> {
        let (tenant, thread) = (key.tenant.as_str(), key.thread.as_str());
        let hashes: Vec<String> = self.hashes_of(transaction, key).await?.into_iter().collect();
        transaction.execute(&self.sql(REFER), &[&tenant, &thread, &hashes]).await?;
        Ok(())
    }
}
