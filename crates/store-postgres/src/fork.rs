//! A thread that starts with a copy of another's items. The copy never leaves the database, except for the one row
//! that may have to be cut.

use std::collections::BTreeSet;

use contexture_history::Item;
use contexture_session::codec::{self, BlobRef};
use contexture_session::{NewThread, StoreError, ThreadKey};
use deadpool_postgres::Transaction;

use crate::create::ThreadRow;
use crate::database::{Database, begin};
use crate::failure::Failure;
use crate::numbers::seq_to_sql;
use crate::rows::{self, RowParams};

/// The source can't be removed during the copy; appends to it continue.
const LOCK: &str = "\
    SELECT end_seq FROM {schema}.threads WHERE tenant = $1 AND thread = $2 FOR KEY SHARE";

const COPY: &str = "\
    INSERT INTO {schema}.commits (tenant, thread, first_seq, count, body, blobs, nonce)
    SELECT tenant, $3, first_seq, count, body, blobs, $5 FROM {schema}.commits
    WHERE tenant = $1 AND thread = $2 AND first_seq <= $4 AND first_seq + count - 1 <= $4";

/// The row that has the last item and more.
const CUT: &str = "\
    SELECT first_seq, count, body, blobs FROM {schema}.commits
    WHERE tenant = $1 AND thread = $2 AND first_seq <= $3 AND first_seq > $3 - $4::bigint AND first_seq + count - 1 > $3";

const ADD: &str = "\
    INSERT INTO {schema}.commits (tenant, thread, nonce, first_seq, count, body, blobs)
    SELECT $1, $2, $3, it.* FROM unnest($4::bigint[], $5::integer[], $6::text[], $7::text[]) AS it";

const PLACES: &str = "\
    SELECT first_seq, blobs FROM {schema}.commits WHERE tenant = $1 AND thread = $2 AND blobs IS NOT NULL";

const REFER: &str = "\
    INSERT INTO {schema}.blob_refs (tenant, thread, hash) SELECT $1, $2, it FROM unnest($3::text[]) AS it";

impl Database {
    pub(crate) async fn fork(&self, from: &ThreadKey, thread: &NewThread) -> Result<(), StoreError> {
        let key = &thread.key();
        if from.tenant != key.tenant {
            // A thread of another tenant counts as missing.
            return Err(StoreError::no_thread(&from.thread));
        }
        let row = &ThreadRow::new(thread)?;
        self.run(|mut client, attempt| async move {
            let transaction = begin(&mut client).await?;
            match self.copy(&transaction, from, row).await {
                Ok(()) => Ok(transaction.commit().await?),
                Err(err) if err.is_duplicate() => {
                    transaction.rollback().await?;
                    self.ours_or(&client, attempt, key, row.nonce, row.exists()).await
                }
                Err(err) => Err(err),
            }
        })
        .await
    }

    async fn copy(
        &self,
        transaction: &Transaction<'_>,
        from: &ThreadKey,
        row: &ThreadRow<'_>,
    ) -> Result<(), Failure> {
        let (tenant, source) = (from.tenant.as_str(), from.thread.as_str());
        let (thread, end) = (row.thread.thread.as_str(), seq_to_sql(row.thread.state.end));
        let found = transaction.query_opt(&self.sql(LOCK), &[&tenant, &source]).await?;
        let found: i64 = found.ok_or_else(|| StoreError::no_thread(&from.thread))?.try_get(0)?;
        self.insert_thread(transaction, row).await?;
        if end > found {
            let detail = format!("it forks at {end}, and thread `{source}` ends at {found}");
            return Err(StoreError::Malformed { thread: thread.to_owned(), detail }.into());
        }
        let nonce = &row.nonce;
        transaction.execute(&self.sql(COPY), &[&tenant, &source, &thread, &end, nonce]).await?;
        self.copy_cut(transaction, from, row).await?;
        self.copy_refs(transaction, &row.thread.key()).await?;
        self.copy_words(transaction, from, row.thread).await
    }

    /// Copies the first items of the row in which the copy ends.
    async fn copy_cut(
        &self,
        transaction: &Transaction<'_>,
        from: &ThreadKey,
        row: &ThreadRow<'_>,
    ) -> Result<(), Failure> {
        let (tenant, source) = (from.tenant.as_str(), from.thread.as_str());
        let end = row.thread.state.end;
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
        let (thread, nonce) = (row.thread.thread.as_str(), &row.nonce);
        let RowParams { first, count, body, places } = &params;
        transaction.execute(&self.sql(ADD), &[&tenant, &thread, nonce, first, count, body, places]).await?;
        Ok(())
    }

    /// Adds the copy's references to its large texts. They can't be removed: the locked source refers to them.
    async fn copy_refs(&self, transaction: &Transaction<'_>, key: &ThreadKey) -> Result<(), Failure> {
        let (tenant, thread) = (key.tenant.as_str(), key.thread.as_str());
        let rows = transaction.query(&self.sql(PLACES), &[&tenant, &thread]).await?;
        let mut hashes = BTreeSet::new();
        for row in rows {
            let (first, places): (i64, &str) = (row.try_get(0)?, row.try_get(1)?);
            let places: Vec<BlobRef> =
                serde_json::from_str(places).map_err(|err| Failure::damaged_row(first, &err.into()))?;
            hashes.extend(places.into_iter().map(|it| it.hash));
        }
        let hashes: Vec<String> = hashes.into_iter().collect();
        transaction.execute(&self.sql(REFER), &[&tenant, &thread, &hashes]).await?;
        Ok(())
    }
}
