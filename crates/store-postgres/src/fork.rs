//! A thread that starts with a copy of another's items. The copy never leaves the database, except for the one row
//! that may have to be cut. Copied items have no numbers in their session.

use contexture_history::{Item, Seq};
use contexture_session::codec;
use contexture_session::{NewLog, StoreError, ThreadKey};
use deadpool_postgres::Transaction;

use crate::create::LogRow;
use crate::database::{Database, begin};
use crate::failure::Failure;
use crate::log::LogClient;
use crate::numbers::{seq_from_sql, seq_to_sql};
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
        let NewLog { thread, session, state, .. } = row.log;
        let source = LogClient { database: self, client: transaction, key: from };
        let target = LogClient { key: &row.log.key(), ..source };
        let end = seq_to_sql(state.end);
        // The session's row is locked first, as when it is deleted.
        self.insert_log(transaction, row, state.end).await?;
        let found = source.query(LOCK, &[]).await?;
        let found: i64 = found.first().ok_or_else(|| StoreError::no_thread(&from.thread))?.try_get(0)?;
        row.log.check_copy(from, seq_from_sql(found))?;
        source.query(COPY, &[&thread.as_str(), &end, &session.session.as_str()]).await?;
        let items = source.cut_items(state.end).await?;
        if let Some(first) = items.first() {
            // Its large texts are in the source too, and need not be written again.
            let rows = codec::encode(&items).map_err(|err| Failure::Damaged(err.to_string()))?;
            let RowParams { before, count, body, places } = &RowParams::new(&rows);
            let (session, first) = (session.session.as_str(), seq_to_sql(first.seq));
            target.query(ADD, &[&session, &first, before, count, body, places]).await?;
        }
        // Its references to large texts can't be removed: the locked source refers to them.
        let hashes: Vec<String> = target.hashes_of().await?.into_iter().collect();
        target.query(REFER, &[&hashes]).await?;
        source.copy_words(row.log).await
    }
}

impl LogClient<'_, Transaction<'_>> {
    /// Returns the first items of the row in which a copy ends, if the row goes beyond it.
    async fn cut_items(&self, end: Seq) -> Result<Vec<Item>, Failure> {
        let cut = rows::stored(self.query(CUT, &[&seq_to_sql(end), &(codec::MAX_ITEMS as i64)]).await?)?;
        let items = self.items(&cut).await?.into_iter().flatten();
        Ok(items.filter(|it| it.seq <= end).collect())
    }
}
