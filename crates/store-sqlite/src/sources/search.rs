//! Searches a base. What is read in which order is decided by `contexture_session::rank`.

use std::collections::BTreeMap;

use contexture_history::Timestamp;
use contexture_session::rank::{
    CollectionStats, IndexReader, ListKey, RankQuery, RankedText, TermVector, TextNo, rank, token,
};
use contexture_session::sources::{BaseHits, ChunkHit, MAX_HITS, ready};
use rusqlite::{OptionalExtension as _, params};

use super::base::{BaseRows, number};
use super::counts::{SearchCache, TermCounts};
use super::read::ChunkReader;
use crate::failure::Failure;
use crate::numbers::{from_sql, to_sql};

const COUNT: &str = "SELECT count(*) FROM chunk_words WHERE chunk_words MATCH ?1";
const LIST: &str = "SELECT rowid FROM chunk_words WHERE chunk_words MATCH ?1 LIMIT ?2";
const NEWEST: &str = "SELECT rowid FROM chunk_words WHERE chunk_words MATCH ?1 ORDER BY rowid DESC LIMIT ?2";
const TERMS: &str = "SELECT position, is_last, at, terms FROM chunk_terms WHERE no = ?1";
const TEXT: &str = "SELECT text FROM chunks WHERE no = ?1";

/// Returns what a search finds.
pub(crate) fn search_base(
    base: &BaseRows<'_>,
    shared: &SearchCache,
    query: &RankQuery,
    max: usize,
) -> Result<BaseHits, Failure> {
    let scored = ready(rank(&mut Reader { counts: &shared.counts, base }, query, &shared.analyzers))?;
    let mut reader = ChunkReader::new(base);
    let mut hits = Vec::new();
    for scored in scored.into_iter().take(max.min(MAX_HITS)) {
        if let Some((chunk, source)) = reader.chunk(scored.no)? {
            hits.push(ChunkHit { chunk, source, scored });
        }
    }
    Ok(BaseHits { version: base.info.version, hits })
}

/// Reads a base for a search, within one transaction.
struct Reader<'a> {
    counts: &'a TermCounts,
    base: &'a BaseRows<'a>,
}

impl Reader<'_> {
    fn token(&self, list: &ListKey<'_>) -> String {
        token(self.base.no, list.strength, list.term)
    }

    fn count(&self, token: String) -> Result<u64, Failure> {
        if let Some(known) = self.counts.get(self.base, &token) {
            return Ok(known);
        }
        let count = self.base.conn.prepare_cached(COUNT)?.query_row([quoted(&token)], |row| row.get(0))?;
        let count = from_sql(count);
        self.counts.put(self.base, token, count);
        Ok(count)
    }

    fn list(&self, token: &str, max: usize) -> Result<Vec<TextNo>, Failure> {
        let read = |sql: &str, max: usize| -> rusqlite::Result<Vec<TextNo>> {
            let mut statement = self.base.conn.prepare_cached(sql)?;
            let mut rows = statement.query(params![quoted(token), to_sql(max as u64)])?;
            let mut nos = Vec::new();
            while let Some(row) = rows.next()? {
                nos.push(number(row.get(0)?));
            }
            Ok(nos)
        };
        // Lists are short enough most of the time, and reading them forward costs much less.
        let all = read(LIST, max.saturating_add(1))?;
        Ok(if all.len() <= max { all } else { read(NEWEST, max)? })
    }
}

/// Returns a token as a query. It is matched literally: terms contain no quotes.
fn quoted(token: &str) -> String {
    format!("\"{token}\"")
}

impl IndexReader for Reader<'_> {
    type Error = Failure;

    async fn stats(&mut self) -> Result<CollectionStats, Failure> {
        Ok(CollectionStats { texts: self.base.info.chunks, length: self.base.info.length })
    }

    async fn counts(&mut self, lists: &[ListKey<'_>]) -> Result<Vec<u64>, Failure> {
        lists.iter().map(|it| self.count(self.token(it))).collect()
    }

    async fn lists(&mut self, lists: &[ListKey<'_>], max: usize) -> Result<Vec<Vec<TextNo>>, Failure> {
        lists.iter().map(|it| self.list(&self.token(it), max)).collect()
    }

    async fn texts(&mut self, nos: &[TextNo]) -> Result<Vec<RankedText>, Failure> {
        let mut statement = self.base.conn.prepare_cached(TERMS)?;
        let mut texts = Vec::with_capacity(nos.len());
        for no in nos {
            let found = statement.query_row([self.base.key(*no)], |row| {
                let (position, is_last, at) = (from_sql(row.get(0)?), row.get(1)?, Timestamp(row.get(2)?));
                let terms = TermVector::from_bytes(row.get_ref(3)?.as_blob()?);
                Ok(RankedText::of_chunk(*no, position, is_last, at, terms))
            });
            texts.extend(found.optional()?);
        }
        Ok(texts)
    }

    async fn words(&mut self, nos: &[TextNo]) -> Result<BTreeMap<TextNo, String>, Failure> {
        let mut statement = self.base.conn.prepare_cached(TEXT)?;
        let mut texts = BTreeMap::new();
        for no in nos {
            let found = statement.query_row([self.base.key(*no)], |row| row.get(0)).optional()?;
            texts.extend(found.map(|it| (*no, it)));
        }
        Ok(texts)
    }
}
