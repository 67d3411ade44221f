//! Words of what is archived.
//!
//! An append with a summary puts the items that it covers into the index, in its own transaction; no other append
//! touches it. What a word is and what comes first is decided by `contexture_history::search` and
//! `contexture_session::search`.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use contexture_history::search::{searchable, words};
use contexture_history::{Item, Seq};
use contexture_session::ThreadKey;
use contexture_session::search::{Hits, Search, SearchHit};
use rusqlite::{Connection, Row, params};

use crate::failure::{Failure, StorePath};
use crate::numbers::{from_sql, seq, to_sql};
use crate::read::{BACKWARD, FORWARD, Log, Unreadable, existing};

pub(crate) const KNOWN: &str = "SELECT seq FROM archived WHERE thread = ?1 AND seq >= ?2 AND seq <= ?3";
pub(crate) const WITH_WORD: &str =
    "SELECT archived.seq FROM words CROSS JOIN archived ON archived.no = words.rowid WHERE words MATCH ?1";

/// Adds the items of ranges to the index, unless they are already in it.
///
/// An unreadable row is skipped: reading it reports the error, and the thread stays writable.
pub(crate) fn index(log: &Log<'_>, ranges: &[(Seq, Seq)]) -> rusqlite::Result<()> {
    ranges.iter().try_for_each(|(first, last)| index_range(log, *first, (*last).min(log.end)))
}

fn index_range(log: &Log<'_>, first: Seq, last: Seq) -> rusqlite::Result<()> {
    let known = known(log, first, last)?;
    let is_new = |it: Seq| (first..=last).contains(&it) && !known.contains(&it);
    let mut statement = log.conn.prepare_cached(FORWARD)?;
    let mut rows = statement.query(params![log.thread, to_sql(first.0)])?;
    while let Some(row) = rows.next()? {
        let positions = positions(row)?;
        if positions.start > last {
            break;
        }
        if !(positions.start.0..positions.end.0.min(last.next().0)).any(|it| is_new(Seq(it))) {
            continue;
        }
        let items = match log.decode_row(row) {
            Ok(items) => items,
            Err(Unreadable::Sqlite(err)) => return Err(err),
            Err(Unreadable::Row(_)) => continue,
        };
        items.iter().filter(|it| is_new(it.seq)).try_for_each(|it| insert(log, it))?;
    }
    Ok(())
}

fn known(log: &Log<'_>, first: Seq, last: Seq) -> rusqlite::Result<BTreeSet<Seq>> {
    let mut statement = log.conn.prepare_cached(KNOWN)?;
    let found =
        statement.query_map(params![log.thread, to_sql(first.0), to_sql(last.0)], |row| row.get(0))?;
    found.map(|it| it.map(seq)).collect()
}

/// Returns the positions of a row of `first, count, …`.
fn positions(row: &Row<'_>) -> rusqlite::Result<std::ops::Range<Seq>> {
    let (first, count): (i64, i64) = (row.get(0)?, row.get(1)?);
    Ok(seq(first)..seq(first).plus(from_sql(count)))
}

fn insert(log: &Log<'_>, item: &Item) -> rusqlite::Result<()> {
    let sql = "INSERT INTO archived (thread, seq) VALUES (?1, ?2)";
    let no = log.conn.prepare_cached(sql)?.insert(params![log.thread, to_sql(item.seq.0)])?;
    let words = searchable(item).map(|it| words(&it)).unwrap_or_default();
    if words.is_empty() {
        return Ok(());
    }
    let mut terms = String::new();
    words.iter().for_each(|it| push_term(&mut terms, log.thread, it));
    let sql = "INSERT INTO words (rowid, text) VALUES (?1, ?2)";
    log.conn.prepare_cached(sql)?.execute(params![no, terms])?;
    Ok(())
}

/// Adds a word of a thread, and a space. The separator is not an ASCII character, so the tokenizer does not split
/// there.
fn push_term(terms: &mut String, thread: i64, word: &str) {
    let _ = write!(terms, "{thread}·{word} "); // Writing to a string does not fail.
}

/// Returns what a search finds.
pub(crate) fn search(
    conn: &Connection,
    place: &StorePath,
    key: &ThreadKey,
    search: &Search,
) -> Result<Vec<SearchHit>, Failure> {
    let (thread, end) = existing(conn, key)?;
    let log = Log { conn, place, key, thread, end };
    let words = search.words();
    let mut hits = Hits::default();
    for (idx, word) in words.iter().enumerate() {
        for seq in with_word(&log, word)? {
            if search.covers(seq) {
                hits.add(seq, idx);
            }
        }
    }
    let found = |seq: Seq| log.item(seq).map(|it| SearchHit::of(&it, &words));
    hits.best(search.max).into_iter().map(found).collect()
}

fn with_word(log: &Log<'_>, word: &str) -> rusqlite::Result<Vec<Seq>> {
    let mut term = String::from("\"");
    push_term(&mut term, log.thread, word);
    // Quoted, so it is matched literally; words contain no quotes.
    term.push('"');
    let mut statement = log.conn.prepare_cached(WITH_WORD)?;
    let found = statement.query_map([term], |row| row.get(0))?;
    found.map(|it| it.map(seq)).collect()
}

impl Log<'_> {
    /// Returns the item at a position.
    fn item(&self, seq: Seq) -> Result<Item, Failure> {
        let mut statement = self.conn.prepare_cached(BACKWARD)?;
        let mut rows = statement.query(params![self.thread, to_sql(seq.0)])?;
        let items = self.next(&mut rows)?;
        items.into_iter().find(|it| it.seq == seq).ok_or_else(|| self.gap(seq))
    }
}
