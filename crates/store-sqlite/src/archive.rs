//! The index of archived items.
//!
//! An append with a summary puts the items that it covers into the index, in its own transaction; no other append
//! touches it.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use contexture_history::search::{searchable, words};
use contexture_history::{Item, Seq};
use rusqlite::{Row, params};

use crate::numbers::{from_sql, seq, to_sql};
use crate::read::FORWARD;
use crate::rows::{LogRows, Unreadable};

pub(crate) const KNOWN: &str = "SELECT seq FROM archived WHERE log = ?1 AND seq >= ?2 AND seq <= ?3";

/// Adds the items of ranges to the index, unless they are already in it.
///
/// An unreadable row is skipped: reading it reports the error, and the thread stays writable.
pub(crate) fn index(log: &LogRows<'_>, ranges: &[(Seq, Seq)]) -> rusqlite::Result<()> {
    ranges.iter().try_for_each(|(first, last)| index_range(log, *first, (*last).min(log.end)))
}

fn index_range(log: &LogRows<'_>, first: Seq, last: Seq) -> rusqlite::Result<()> {
    let known = known(log, first, last)?;
    let is_new = |it: Seq| (first..=last).contains(&it) && !known.contains(&it);
    let mut statement = log.conn.prepare_cached(FORWARD)?;
    let mut rows = statement.query(params![log.log, to_sql(first.0)])?;
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

fn known(log: &LogRows<'_>, first: Seq, last: Seq) -> rusqlite::Result<BTreeSet<Seq>> {
    let mut statement = log.conn.prepare_cached(KNOWN)?;
    let found = statement.query_map(params![log.log, to_sql(first.0), to_sql(last.0)], |row| row.get(0))?;
    found.map(|it| it.map(seq)).collect()
}

/// Returns the positions of a row of `first, count, …`.
fn positions(row: &Row<'_>) -> rusqlite::Result<std::ops::Range<Seq>> {
    let (first, count): (i64, i64) = (row.get(0)?, row.get(1)?);
    Ok(seq(first)..seq(first).plus(from_sql(count)))
}

fn insert(log: &LogRows<'_>, item: &Item) -> rusqlite::Result<()> {
    let sql = "INSERT INTO archived (log, seq) VALUES (?1, ?2)";
    let no = log.conn.prepare_cached(sql)?.insert(params![log.log, to_sql(item.seq.0)])?;
    let words = searchable(item).map(|it| words(&it)).unwrap_or_default();
    if words.is_empty() {
        return Ok(());
    }
    let mut terms = String::new();
    words.iter().for_each(|it| push_term(&mut terms, log.log, it));
    let sql = "INSERT INTO words (rowid, text) VALUES (?1, ?2)";
    log.conn.prepare_cached(sql)?.execute(params![no, terms])?;
    Ok(())
}

/// Adds a word of a log, and a space. The separator is not an ASCII character, so the tokenizer does not split
/// there.
pub(crate) fn push_term(terms: &mut String, log: i64, word: &str) {
    let _ = write!(terms, "{log}·{word} "); // Writing to a string does not fail.
}
