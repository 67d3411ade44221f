//! Puts other content in the place of items.

use std::collections::BTreeMap;

use contexture_history::{Item, Seq};
use contexture_session::codec::{self, MAX_ITEMS};
use contexture_session::{StoreError, ThreadKey, check_rewrite, rewritten};
use deadpool_postgres::Transaction;

use crate::blobs::BlobParams;
use crate::database::Database;
use crate::failure::Failure;
use crate::log::LogClient;
use crate::numbers::{seq_from_sql, seq_to_sql};
use crate::rows;

const LOCK: &str = "SELECT end_seq FROM {schema}.logs WHERE tenant = $1 AND thread = $2 FOR UPDATE";
const ROWS: &str = "\
    SELECT first_seq, count, body, blobs FROM {schema}.commits
    WHERE tenant = $1 AND thread = $2 AND first_seq > $3 AND first_seq <= $4 ORDER BY first_seq";
const SET_ROW: &str = "\
    UPDATE {schema}.commits SET body = $4, blobs = $5 WHERE tenant = $1 AND thread = $2 AND first_seq = $3";
const ADD_BLOBS: &str = "\
    WITH stored AS (
        INSERT INTO {schema}.blobs AS blob (tenant, hash, body)
        SELECT $1, it.* FROM unnest($3::text[], $4::bytea[]) AS it
        ON CONFLICT (tenant, hash) DO UPDATE SET hash = blob.hash
    )
    INSERT INTO {schema}.blob_refs (tenant, thread, hash) SELECT $1, $2, it FROM unnest($3::text[]) AS it
    ON CONFLICT DO NOTHING";
const REMOVE_REFS: &str = "\
    DELETE FROM {schema}.blob_refs WHERE tenant = $1 AND thread = $2 AND NOT hash = ANY ($3) RETURNING hash";
const UNINDEX: &str = "\
    WITH gone AS (
        DELETE FROM {schema}.archived WHERE tenant = $1 AND thread = $2 AND seq = ANY ($3)
        RETURNING seq, terms, length
    ), uncounted AS (
        UPDATE {schema}.archives AS sums SET texts = sums.texts - it.texts, length = sums.length - it.length
        FROM (SELECT count(*) AS texts, coalesce(sum(length), 0) AS length FROM gone WHERE terms IS NOT NULL) AS it
        WHERE sums.tenant = $1 AND sums.thread = $2
    )
    SELECT seq FROM gone ORDER BY seq";
const REMOVE_SAVED: &str = "\
    DELETE FROM {schema}.unfinished WHERE tenant = $1 AND thread = $2 AND session = $3";

impl Database {
    pub(crate) async fn rewrite(&self, key: &ThreadKey, items: &[Item]) -> Result<(), StoreError> {
        check_rewrite(key, items)?;
        let new: &BTreeMap<Seq, &Item> = &items.iter().map(|it| (it.seq, it)).collect();
        self.run(|mut client, _| async move {
            let transaction = self.begin_writing(&mut client).await?;
            let log = LogClient { database: self, client: &transaction, key };
            if log.query(LOCK, &[]).await?.is_empty() {
                return Err(StoreError::no_thread(&key.thread).into());
            }
            log.rewrite(new).await?;
            Ok(transaction.commit().await?)
        })
        .await
    }
}

impl LogClient<'_, Transaction<'_>> {
    async fn rewrite(&self, new: &BTreeMap<Seq, &Item>) -> Result<(), Failure> {
        self.query(REMOVE_SAVED, &[&self.key.thread.session().as_str()]).await?;
        let (Some((first, _)), Some((last, _))) = (new.first_key_value(), new.last_key_value()) else {
            return Ok(());
        };
        // The row with the first item may begin before it.
        let after = seq_to_sql(*first).saturating_sub(MAX_ITEMS as i64);
        let stored = rows::stored(self.query(ROWS, &[&after, &seq_to_sql(*last)]).await?)?;
        for some in stored.chunks(rows::ROWS_AT_ONCE) {
            for items in self.items(some).await?.into_iter().filter_map(|it| rewritten(it, new)) {
                self.set_row(&items).await?;
            }
        }
        let positions: Vec<i64> = new.keys().map(|it| seq_to_sql(*it)).collect();
        let gone = self.query(UNINDEX, &[&positions]).await?;
        let gone = gone.iter().map(|it| it.try_get(0)).collect::<Result<Vec<i64>, _>>()?;
        let again = gone.into_iter().map(seq_from_sql).map(|it| (it, it));
        self.index(&again.collect::<Vec<_>>()).await?;
        let used: Vec<String> = self.hashes_of().await?.into_iter().collect();
        let unused = self.query(REMOVE_REFS, &[&used]).await?;
        let unused = unused.iter().map(|it| it.try_get(0)).collect::<Result<Vec<String>, _>>()?;
        self.remove_unused(&unused).await
    }

    async fn set_row(&self, items: &[Item]) -> Result<(), Failure> {
        let row = codec::encode_row(items).map_err(|err| StoreError::malformed(self.key, err))?;
        let rows = [row];
        let BlobParams { hashes, bodies } = BlobParams::new(&rows);
        if !hashes.is_empty() {
            self.query(ADD_BLOBS, &[&hashes, &bodies]).await?;
        }
        let [row] = &rows;
        self.query(SET_ROW, &[&seq_to_sql(row.first), &row.body, &row.places]).await.map(drop)
    }
}
