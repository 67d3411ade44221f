//! Searches a base. What is read in which order is decided by `contexture_session::rank`.

use std::collections::BTreeMap;

use contexture_history::Timestamp;
use contexture_session::rank::{
    CollectionStats, IndexReader, ListKey, RankQuery, RankedText, TermVector, TextNo, rank, token,
};
use contexture_session::sources::{BaseHits, ChunkHit, MAX_HITS};
use contexture_session::{BaseKey, StoreError};
use deadpool_postgres::Transaction;

use super::base::FoundBase;
use super::read::begin_reading;
use super::{collection, text};
use crate::database::Database;
use crate::failure::Failure;
use crate::log::BaseClient;
use crate::numbers::{from_sql, to_sql};
use crate::search::SETTINGS;

const COUNTS: &str = "\
    SELECT (SELECT count(*) FROM {schema}.chunk_terms
        WHERE tenant = $1 AND base = $2 AND tokens @@ it.query::tsquery)
    FROM unnest($3::text[]) WITH ORDINALITY AS it (query, place) ORDER BY it.place";
const LISTS: &str = "\
    SELECT ARRAY(SELECT no FROM {schema}.chunk_terms
        WHERE tenant = $1 AND base = $2 AND tokens @@ it.query::tsquery ORDER BY no DESC LIMIT $4)
    FROM unnest($3::text[]) WITH ORDINALITY AS it (query, place) ORDER BY it.place";
const TERMS: &str = "\
    SELECT no, position, is_last, at, terms FROM {schema}.chunk_terms
    WHERE tenant = $1 AND base = $2 AND no = ANY ($3::bigint[]) ORDER BY no";
const TEXTS: &str = "\
    SELECT no, text FROM {schema}.chunks WHERE tenant = $1 AND base = $2 AND no = ANY ($3::bigint[])";

impl Database {
    pub(crate) async fn search_base(
        &self,
        key: &BaseKey,
        query: &RankQuery,
        max: usize,
    ) -> Result<BaseHits, StoreError> {
        self.run(|mut client, _| async move {
            let transaction = begin_reading(&mut client).await?;
            let client = BaseClient { database: self, client: &transaction, key };
            let base = &client.existing().await?;
            transaction.execute(SETTINGS, &[]).await?;
            let mut reader = Reader { client: &client, base };
            let mut scored = rank(&mut reader, query, &self.analyzers).await?;
            scored.truncate(max.min(MAX_HITS));
            let nos: Vec<TextNo> = scored.iter().map(|it| it.no).collect();
            let mut chunks = client.chunks_with_sources(&nos).await?;
            transaction.commit().await?;
            let hit = |scored: contexture_session::rank::Scored| {
                let (chunk, source) = chunks.remove(&scored.no)?;
                Some(ChunkHit { chunk, source, scored })
            };
            Ok(BaseHits { version: base.info.version, hits: scored.into_iter().filter_map(hit).collect() })
        })
        .await
    }
}

/// Reads a base for a search, within one transaction.
struct Reader<'a> {
    client: &'a BaseClient<'a, Transaction<'a>>,
    base: &'a FoundBase,
}

impl Reader<'_> {
    /// Returns lists as queries. Terms have neither quotes nor backslashes.
    fn queries(&self, lists: &[ListKey<'_>]) -> Vec<String> {
        let collection = collection(self.client.key);
        lists.iter().map(|it| format!("'{}'", token(collection, it.strength, it.term))).collect()
    }
}

impl IndexReader for Reader<'_> {
    type Error = Failure;

    async fn stats(&mut self) -> Result<CollectionStats, Failure> {
        Ok(CollectionStats { texts: self.base.info.chunks, length: self.base.info.length })
    }

    async fn counts(&mut self, lists: &[ListKey<'_>]) -> Result<Vec<u64>, Failure> {
        let rows = self.client.query(COUNTS, &[&self.queries(lists)]).await?;
        rows.iter().map(|it| Ok(from_sql(it.try_get(0)?))).collect()
    }

    async fn lists(&mut self, lists: &[ListKey<'_>], max: usize) -> Result<Vec<Vec<TextNo>>, Failure> {
        let rows = self.client.query(LISTS, &[&self.queries(lists), &to_sql(max as u64)]).await?;
        let list = |nos: Vec<i64>| nos.into_iter().map(from_sql).collect();
        rows.iter().map(|it| Ok(list(it.try_get(0)?))).collect()
    }

    async fn texts(&mut self, nos: &[TextNo]) -> Result<Vec<RankedText>, Failure> {
        let nos: Vec<i64> = nos.iter().map(|it| to_sql(*it)).collect();
        let rows = self.client.query(TERMS, &[&nos]).await?;
        let text = |row: &tokio_postgres::Row| {
            let (no, position): (i64, i64) = (row.try_get(0)?, row.try_get(1)?);
            let (is_last, at) = (row.try_get(2)?, Timestamp(row.try_get(3)?));
            let terms = TermVector::from_bytes(row.try_get::<_, Vec<u8>>(4)?);
            Ok(RankedText::of_chunk(from_sql(no), from_sql(position), is_last, at, terms))
        };
        rows.iter().map(text).collect()
    }

    async fn words(&mut self, nos: &[TextNo]) -> Result<BTreeMap<TextNo, String>, Failure> {
        let nos: Vec<i64> = nos.iter().map(|it| to_sql(*it)).collect();
        let rows = self.client.query(TEXTS, &[&nos]).await?;
        rows.iter().map(|it| Ok((from_sql(it.try_get(0)?), text(it.try_get(1)?)?))).collect()
    }
}
