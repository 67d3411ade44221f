//! Full-text search in archived items.

use std::collections::BTreeMap;

use contexture_history::{Item, Seq};
use contexture_session::search::{Hits, Search, SearchHit};
use contexture_session::{StoreError, ThreadKey};
use deadpool_postgres::{Client, Transaction};

use crate::archive::thread_word;
use crate::database::{Database, begin};
use crate::failure::Failure;
use crate::log::LogClient;
use crate::numbers::{seq_from_sql, seq_to_sql};
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
        let log = LogClient { database: self, client: &transaction, key };
        if log.query(LOG, &[]).await?.is_empty() {
            return Err(StoreError::no_thread(&key.thread).into());
        }
        let words = search.words();
        let best = match words.is_empty() {
            true => Vec::new(),
            false => log.matches(search, &words).await?.best(search.max),
        };
        let items = log.items_at(&best).await?;
        transaction.commit().await?;
        // A missing item was deleted in between.
        Ok(best.iter().filter_map(|it| items.get(it)).map(|it| SearchHit::of(it, &words)).collect())
    }
}

impl LogClient<'_, Transaction<'_>> {
    async fn matches(&self, search: &Search, words: &[String]) -> Result<Hits, Failure> {
        let words: Vec<String> = words.iter().map(|it| quoted(it)).collect();
        let query = format!("{} & ({})", quoted(&thread_word(self.key)), words.join(" | "));
        self.client.execute(SETTINGS, &[]).await?;
        let mut hits = Hits::default();
        for row in self
            .client
            .query(
                &self.database.sql(MATCHES),
                &[&self.key.tenant.as_str(), &self.key.thread.as_str(), &query, &words],
            )
            .await?
        {
            let (seq, has): (i64, Vec<bool>) = (row.try_get(0)?, row.try_get(1)?);
            let seq = seq_from_sql(seq);
            let found = has.iter().enumerate().filter(|(_, has)| **has && search.covers(seq));
            found.for_each(|(word, _)| hits.add(seq, word));
        }
        Ok(hits)
    }

    /// Returns the items at some positions, by these.
    async fn items_at(&self, seqs: &[Seq]) -> Result<BTreeMap<Seq, Item>, Failure> {
        if seqs.is_empty() {
            return Ok(BTreeMap::new());
        }
        let wanted: Vec<i64> = seqs.iter().map(|it| seq_to_sql(*it)).collect();
        let rows = self.query(ROWS, &[&wanted]).await?;
        let items = self.items(&rows::stored(rows)?).await?;
        Ok(items.into_iter().flatten().map(|it| (it.seq, it)).collect())
    }
}
