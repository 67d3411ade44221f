//! Full-text search in archived items.
//!
//! What is read in which order is decided by `contexture_session::rank`, which text of an item counts by
//! `contexture_history::search`.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use contexture_history::search::searchable;
use contexture_history::{Item, Seq, Timestamp};
use contexture_session::ThreadKey;
use contexture_session::rank::{
    AnalyzerPool, CollectionStats, IndexReader, ListKey, RankedText, TermVector, TextNo, token,
};
use contexture_session::search::{HitWriter, NEAR, Search, SearchHit, day};
use contexture_session::sources::ready;
use rusqlite::{Connection, OptionalExtension as _, params};

use crate::failure::{Failure, StorePath};
use crate::head::{CurrentLog, find};
use crate::numbers::{from_sql, to_sql};
use crate::read::BACKWARD;
use crate::rows::LogRows;

pub(crate) const WITH_WORD: &str =
    "SELECT archived.seq FROM words CROSS JOIN archived ON archived.no = words.rowid WHERE words MATCH ?1";
const COUNT: &str = "SELECT count(*) FROM words WHERE words MATCH ?1";
pub(crate) const STATS: &str = "SELECT texts, length FROM archives WHERE log = ?1";
pub(crate) const TERMS: &str =
    "SELECT at, terms FROM archived WHERE log = ?1 AND seq = ?2 AND terms IS NOT NULL";
pub(crate) const BEFORE: &str = "SELECT seq FROM archived
    WHERE log = ?1 AND seq < ?2 AND seq >= ?2 - ?3 AND terms IS NOT NULL ORDER BY seq DESC LIMIT 1";
pub(crate) const AFTER: &str = "SELECT seq FROM archived
    WHERE log = ?1 AND seq > ?2 AND seq <= ?2 + ?3 AND terms IS NOT NULL ORDER BY seq LIMIT 1";

/// Returns what a search finds.
pub(crate) fn search(
    conn: &Connection,
    place: &StorePath,
    analyzers: &AnalyzerPool,
    key: &ThreadKey,
    search: &Search,
) -> Result<Vec<SearchHit>, Failure> {
    let CurrentLog { no, end, .. } = find(conn, key)?;
    let log = LogRows { conn, place, key, log: no, end };
    let best = ready(search.best(&mut Reader { log: &log, search }, analyzers))?;
    let mut writer = HitWriter::new(search);
    best.into_iter().map(|it| Ok(writer.hit(&log.item(it)?))).collect()
}

/// Reads the archived items of a log, within one transaction.
struct Reader<'a> {
    log: &'a LogRows<'a>,
    search: &'a Search,
}

impl Reader<'_> {
    /// Returns a list as a query. It is matched literally: terms contain no quotes.
    fn query(&self, list: &ListKey<'_>) -> String {
        format!("\"{}\"", token(self.log.log, list.strength, list.term))
    }

    fn list(&self, list: &ListKey<'_>, max: usize) -> Result<Vec<TextNo>, Failure> {
        let mut statement = self.log.conn.prepare_cached(WITH_WORD)?;
        let found = statement.query_map([self.query(list)], |row| row.get(0).map(from_sql))?;
        let mut nos = found.collect::<Result<Vec<TextNo>, _>>()?;
        nos.retain(|it| self.search.covers(Seq(*it)));
        nos.sort_unstable_by_key(|it| Reverse(*it));
        nos.truncate(max);
        Ok(nos)
    }

    fn near(&self, sql: &str, no: TextNo) -> rusqlite::Result<Option<TextNo>> {
        let values = params![self.log.log, to_sql(no), to_sql(NEAR)];
        self.log.conn.prepare_cached(sql)?.query_row(values, |row| row.get(0).map(from_sql)).optional()
    }

    fn text(&self, no: TextNo) -> rusqlite::Result<Option<RankedText>> {
        let mut statement = self.log.conn.prepare_cached(TERMS)?;
        let found = statement.query_row(params![self.log.log, to_sql(no)], |row| {
            Ok((Timestamp(row.get(0)?), TermVector::from_bytes(row.get_ref(1)?.as_blob()?)))
        });
        let Some((at, terms)) = found.optional()? else { return Ok(None) };
        let (before, after) = (self.near(BEFORE, no)?, self.near(AFTER, no)?);
        Ok(Some(RankedText { no, parent: day(at), before, after, at, terms }))
    }
}

impl IndexReader for Reader<'_> {
    type Error = Failure;

    async fn stats(&mut self) -> Result<CollectionStats, Failure> {
        let mut statement = self.log.conn.prepare_cached(STATS)?;
        let found = statement.query_row([self.log.log], |row| {
            Ok(CollectionStats { texts: from_sql(row.get(0)?), length: from_sql(row.get(1)?) })
        });
        Ok(found.optional()?.unwrap_or_default())
    }

    async fn counts(&mut self, lists: &[ListKey<'_>]) -> Result<Vec<u64>, Failure> {
        let mut statement = self.log.conn.prepare_cached(COUNT)?;
        let counts =
            lists.iter().map(|it| statement.query_row([self.query(it)], |row| row.get(0).map(from_sql)));
        Ok(counts.collect::<Result<_, _>>()?)
    }

    async fn lists(&mut self, lists: &[ListKey<'_>], max: usize) -> Result<Vec<Vec<TextNo>>, Failure> {
        lists.iter().map(|it| self.list(it, max)).collect()
    }

    async fn texts(&mut self, nos: &[TextNo]) -> Result<Vec<RankedText>, Failure> {
        let mut texts = Vec::with_capacity(nos.len());
        for no in nos {
            texts.extend(self.text(*no)?);
        }
        Ok(texts)
    }

    async fn words(&mut self, nos: &[TextNo]) -> Result<BTreeMap<TextNo, String>, Failure> {
        let text = |no: &TextNo| Ok((*no, searchable(&self.log.item(Seq(*no))?).unwrap_or_default()));
        nos.iter().map(text).collect()
    }
}

impl LogRows<'_> {
    /// Returns the item at a position.
    fn item(&self, seq: Seq) -> Result<Item, Failure> {
        let mut statement = self.conn.prepare_cached(BACKWARD)?;
        let mut rows = statement.query(params![self.log, to_sql(seq.0)])?;
        let items = self.next(&mut rows)?;
        items.into_iter().find(|it| it.seq == seq).ok_or_else(|| self.gap(seq))
    }
}
