//! Full-text search in archived items. What is read in which order is decided by `contexture_session::rank`.

use std::collections::BTreeMap;

use contexture_history::search::searchable;
use contexture_history::{Item, Seq, Timestamp};
use contexture_session::rank::{CollectionStats, IndexReader, ListKey, RankedText, TermVector, TextNo};
use contexture_session::search::{HitWriter, NEAR, Search, SearchHit, day};
use contexture_session::{StoreError, ThreadKey};
use deadpool_postgres::Transaction;
use tokio_postgres::Row;

use crate::archive::{list_word, thread_word};
use crate::database::{Database, begin};
use crate::failure::Failure;
use crate::log::LogClient;
use crate::numbers::{from_sql, seq_to_sql, to_sql};
use crate::rows;

/// The settings for searching the word index, until the end of the transaction: unlike other statements its plan
/// depends on the words. Searches of knowledge bases have the same.
pub(crate) const SETTINGS: &str = "\
    SELECT set_config('enable_bitmapscan', 'on', true), set_config('plan_cache_mode', 'force_custom_plan', true)";

const LOG: &str = "SELECT FROM {schema}.logs WHERE tenant = $1 AND thread = $2";
const STATS: &str = "SELECT texts, length FROM {schema}.archives WHERE tenant = $1 AND thread = $2";
const COUNTS: &str = "\
    SELECT (SELECT count(*) FROM {schema}.archived
        WHERE tenant = $1 AND thread = $2 AND words @@ it.query::tsquery)
    FROM unnest($3::text[]) WITH ORDINALITY AS it (query, place) ORDER BY it.place";
const LISTS: &str = "\
    SELECT ARRAY(SELECT seq FROM {schema}.archived
        WHERE tenant = $1 AND thread = $2 AND words @@ it.query::tsquery ORDER BY seq DESC)
    FROM unnest($3::text[]) WITH ORDINALITY AS it (query, place) ORDER BY it.place";
/// Items with the nearest ones before and after that have words.
const TERMS: &str = "\
    SELECT it.seq, it.at, it.terms,
        (SELECT seq FROM {schema}.archived AS near WHERE tenant = $1 AND thread = $2 AND near.seq < it.seq
            AND near.seq >= it.seq - $4 AND near.terms IS NOT NULL ORDER BY near.seq DESC LIMIT 1),
        (SELECT seq FROM {schema}.archived AS near WHERE tenant = $1 AND thread = $2 AND near.seq > it.seq
            AND near.seq <= it.seq + $4 AND near.terms IS NOT NULL ORDER BY near.seq LIMIT 1)
    FROM {schema}.archived AS it
    WHERE it.tenant = $1 AND it.thread = $2 AND it.seq = ANY ($3::bigint[]) AND it.terms IS NOT NULL";

/// The rows that have some items.
const ROWS: &str = "\
    SELECT DISTINCT it.first_seq, it.count, it.body, it.blobs
    FROM unnest($3::bigint[]) AS wanted (seq)
    CROSS JOIN LATERAL (
        SELECT first_seq, count, body, blobs FROM {schema}.commits
        WHERE tenant = $1 AND thread = $2 AND first_seq <= wanted.seq ORDER BY first_seq DESC LIMIT 1
    ) AS it";

impl Database {
    pub(crate) async fn search(
        &self,
        key: &ThreadKey,
        search: &Search,
    ) -> Result<Vec<SearchHit>, StoreError> {
        self.run(|mut client, _| async move {
            let transaction = begin(&mut client).await?;
            let log = LogClient { database: self, client: &transaction, key };
            if log.query(LOG, &[]).await?.is_empty() {
                return Err(StoreError::no_thread(&key.thread).into());
            }
            transaction.execute(SETTINGS, &[]).await?;
            let best = search.best(&mut Reader { log: &log, search }, &self.analyzers).await?;
            let items = log.items_at(&best).await?;
            transaction.commit().await?;
            let mut writer = HitWriter::new(search);
            // A missing item was deleted in between.
            Ok(best.iter().filter_map(|it| items.get(it)).map(|it| writer.hit(it)).collect())
        })
        .await
    }
}

impl LogClient<'_, Transaction<'_>> {
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

/// Reads the archived items of a thread.
struct Reader<'a> {
    log: &'a LogClient<'a, Transaction<'a>>,
    search: &'a Search,
}

impl Reader<'_> {
    /// Returns lists as queries. Words have neither quotes nor backslashes.
    fn queries(&self, lists: &[ListKey<'_>]) -> Vec<String> {
        let thread = thread_word(self.log.key);
        lists.iter().map(|it| format!("'{thread}' & '{}'", list_word(it.strength, it.term))).collect()
    }
}

impl IndexReader for Reader<'_> {
    type Error = Failure;

    async fn stats(&mut self) -> Result<CollectionStats, Failure> {
        let rows = self.log.query(STATS, &[]).await?;
        let Some(row) = rows.first() else { return Ok(CollectionStats::default()) };
        Ok(CollectionStats { texts: from_sql(row.try_get(0)?), length: from_sql(row.try_get(1)?) })
    }

    async fn counts(&mut self, lists: &[ListKey<'_>]) -> Result<Vec<u64>, Failure> {
        let rows = self.log.query(COUNTS, &[&self.queries(lists)]).await?;
        rows.iter().map(|it| Ok(from_sql(it.try_get(0)?))).collect()
    }

    async fn lists(&mut self, lists: &[ListKey<'_>], max: usize) -> Result<Vec<Vec<TextNo>>, Failure> {
        let rows = self.log.query(LISTS, &[&self.queries(lists)]).await?;
        let covered = |it: &TextNo| self.search.covers(Seq(*it));
        let list =
            |seqs: Vec<i64>| seqs.into_iter().map(from_sql).filter(covered).take(max).collect::<Vec<_>>();
        rows.iter().map(|it| Ok(list(it.try_get(0)?))).collect()
    }

    async fn texts(&mut self, nos: &[TextNo]) -> Result<Vec<RankedText>, Failure> {
        let nos: Vec<i64> = nos.iter().map(|it| to_sql(*it)).collect();
        let rows = self.log.query(TERMS, &[&nos, &to_sql(NEAR)]).await?;
        let text = |row: &Row| {
            let at = Timestamp(row.try_get(1)?);
            let near = |column: usize| -> Result<Option<TextNo>, Failure> {
                Ok(row.try_get::<_, Option<i64>>(column)?.map(from_sql))
            };
            Ok(RankedText {
                no: from_sql(row.try_get(0)?),
                parent: day(at),
                before: near(3)?,
                after: near(4)?,
                at,
                terms: TermVector::from_bytes(row.try_get::<_, Vec<u8>>(2)?),
            })
        };
        rows.iter().map(text).collect()
    }

    async fn words(&mut self, nos: &[TextNo]) -> Result<BTreeMap<TextNo, String>, Failure> {
        let seqs: Vec<Seq> = nos.iter().map(|it| Seq(*it)).collect();
        let items = self.log.items_at(&seqs).await?;
        Ok(items.into_iter().map(|(seq, it)| (seq.0, searchable(&it).unwrap_or_default())).collect())
    }
}
