//! Full-text search in archived items.

use std::collections::BTreeMap;

use contexture_history::{Item, Seq};
use contexture_session::search::{Hits, Search, SearchHit};
use contexture_session::{StoreError, ThreadKey};
use deadpool_postgres::{Client, Transaction};

use crate::archive::thread_word;
use crate::database::{Database, begin};
use crate::failure::Failure;
use crate::numbers::{from_sql, seq_to_sql};
use crate::rows;

/// The settings for searching the word index, until the end of the transaction: unlike other statements its plan
/// depends on the words.
const SETTINGS: &str = "\
    SELECT set_config('enable_bitmapscan', 'on', true), set_config('plan_cache_mode', 'force_custom_plan', true)";

const LOG: &str = "SELECT FROM {schema}.logs WHERE tenant = $1 AND thread = $2";

/// The items with any of the words, and which of the words they contain.
const MATCHES: &str = "\
    SELECT seq, ARRAY(SELECT words @@ word::tsquery FROM unnest($4::text[]) AS word)
    FROM {schema}.archived WHERE tenant = $1 AND thread = $2 AND words @@ $3::text::tsquery";

/// The rows that have some items.
const ROWS: &str = "\
    SELECT DISTINCT it.first_seq, it.count, it.body, it.blobs
    FROM unnest($3::bigint[]) AS wanted (seq)
    CROSS JOIN LATERAL (
        SELECT first_seq, count, body, blobs FROM {schema}.commits
        WHERE tenant = $1 AND thread = $2 AND first_seq <= wanted.seq ORDER BY first_seq DESC LIMIT 1
    ) AS it";

/// Returns a word as a query. Words have neither quotes nor backslashes.
fn quoted(word: &str) -> String {
    format!("'{word}'")
}

impl Database {
    pub(crate) async fn search(
        &self,
        key: &ThreadKey,
        search: &Search,
    ) -> Result<Vec<SearchHit>, StoreError> {
        self.run(|client, _| self.search_once(client, key, search)).await
    }

    async fn search_once(
        &self,
        mut client: Client,
        key: &ThreadKey,
        search: &Search,
    ) -> Result<Vec<SearchHit>, Failure> {
        let transaction = begin(&mut client).await?;
        let (tenant, thread) = (key.tenant.as_str(), key.thread.as_str());
        let found = transaction.query_opt(&self.sql(LOG), &[&tenant, &thread]).await?;
        found.ok_or_else(|| StoreError::no_thread(&key.thread))?;
        let words = search.words();
        let best = match words.is_empty() {
            true => Vec::new(),
            false => self.matches(&transaction, key, search, &words).await?.best(search.max),
        };
        let items = self.items_at(&transaction, key, &best).await?;
        transaction.commit().await?;
        // A missing item was deleted in between.
        Ok(best.iter().filter_map(|it| items.get(it)).map(|it| SearchHit::of(it, &words)).collect())
    }

    async fn matches(
        &self,
        transaction: &Transaction<'_>,
        key: &ThreadKey,
        search: &Search,
        words: &[String],
    ) -> Result<Hits, Failure> {
        let (tenant, thread) = (key.tenant.as_str(), key.thread.as_str());
        let words: Vec<String> = words.iter().map(|it| quoted(it)).collect();
        let query = format!("{} & ({})", quoted(&thread_word(key)), words.join(" | "));
        transaction.execute(SETTINGS, &[]).await?;
        let rows = transaction.query(&self.sql(MATCHES), &[&tenant, &thread, &query, &words]).await?;
        let mut hits = Hits::default();
        for row in rows {
            let (seq, has): (i64, Vec<bool>) = (row.try_get(0)?, row.try_get(1)?);
            let seq = Seq(from_sql(seq));
            let found = has.iter().enumerate().filter(|(_, has)| **has && search.covers(seq));
            found.for_each(|(word, _)| hits.add(seq, word));
        }
        Ok(hits)
    }

    /// Returns the items at some positions, by these.
    async fn items_at(
        &self,
        transaction: &Transaction<'_>,
        key: &ThreadKey,
        seqs: &[Seq],
    ) -> Result<BTreeMap<Seq, Item>, Failure> {
        if seqs.is_empty() {
            return Ok(BTreeMap::new());
        }
        let (tenant, thread) = (key.tenant.as_str(), key.thread.as_str());
        let wanted: Vec<i64> = seqs.iter().map(|it| seq_to_sql(*it)).collect();
        let rows = transaction.query(&self.sql(ROWS), &[&tenant, &thread, &wanted]).await?;
        let items = self.items(transaction, &key.tenant, &rows::stored(rows)?).await?;
        Ok(items.into_iter().flatten().map(|it| (it.seq, it)).collect())
    }
}
