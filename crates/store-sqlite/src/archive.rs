//! The index of archived items.
//!
//! An append with a summary puts the items that it covers into the index, in its own transaction; no other append
//! touches it.

use std::collections::BTreeSet;

use contexture_history::{Item, Seq};
use contexture_session::search::ItemAnalyzer;
use rusqlite::{Connection, Row, TransactionBehavior, params};

use crate::due::key;
use crate::failure::{Failure, StorePath};
use crate::numbers::{from_sql, seq, to_sql};
use crate::read::FORWARD;
use crate::rows::LogRows;

const COUNT: &str = "INSERT INTO archives (log, texts, length) VALUES (?1, 1, ?2)
    ON CONFLICT (log) DO UPDATE SET texts = texts + 1, length = length + excluded.length";
/// The ranges of consecutive positions that are archived.
const ARCHIVED: &str = r#"SELECT l.tenant, l.name, l.no, l."end", min(a.seq), max(a.seq) FROM
    (SELECT log, seq, seq - row_number() OVER (PARTITION BY log ORDER BY seq) AS island FROM archived) AS a
    JOIN logs AS l ON l.no = a.log GROUP BY a.log, a.island ORDER BY a.log, 5"#;
pub(crate) const KNOWN: &str = "SELECT seq FROM archived WHERE log = ?1 AND seq >= ?2 AND seq <= ?3";

/// Adds the items of ranges to the index, unless they are already in it.
///
/// An unreadable row is skipped: reading it reports the error, and the thread stays writable.
pub(crate) fn index(log: &LogRows<'_>, ranges: &[(Seq, Seq)]) -> Result<(), Failure> {
    if ranges.is_empty() {
        // Most appends archive nothing, and an analyzer is not made for nothing.
        return Ok(());
    }
    let mut analyzer = ItemAnalyzer::default();
    ranges.iter().try_for_each(|(first, last)| index_range(log, &mut analyzer, *first, (*last).min(log.end)))
}

fn index_range(log: &LogRows<'_>, analyzer: &mut ItemAnalyzer, first: Seq, last: Seq) -> Result<(), Failure> {
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
            Err(Failure::Damaged(_)) => continue,
            items => items?,
        };
        items.iter().filter(|it| is_new(it.seq)).try_for_each(|it| insert(log, analyzer, it))?;
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

fn insert(log: &LogRows<'_>, analyzer: &mut ItemAnalyzer, item: &Item) -> rusqlite::Result<()> {
    let terms = analyzer.terms(item);
    let vector = terms.as_ref().map(|it| it.vector.as_bytes());
    let sql = "INSERT INTO archived (log, seq, at, terms) VALUES (?1, ?2, ?3, ?4)";
    let values = params![log.log, to_sql(item.seq.0), item.at.0, vector];
    let no = log.conn.prepare_cached(sql)?.insert(values)?;
    let Some(terms) = terms else { return Ok(()) };
    let sql = "INSERT INTO words (rowid, text) VALUES (?1, ?2)";
    log.conn.prepare_cached(sql)?.execute(params![no, terms.tokens(log.log)])?;
    log.conn.prepare_cached(COUNT)?.execute(params![log.log, terms.vector.length()])?;
    Ok(())
}

/// Makes the index again if an older program made it.
pub(crate) fn refresh(conn: &mut Connection, place: &StorePath) -> Result<(), Failure> {
    let is_outdated = "SELECT EXISTS (SELECT 1 FROM outdated WHERE what = 'archives')";
    if !conn.query_row(is_outdated, [], |row| row.get(0))? {
        return Ok(());
    }
    let tx = conn.transaction_with_behavior(TransactionBehavior::Immediate)?;
    // Another process may have done it in between.
    if tx.query_row(is_outdated, [], |row| row.get(0))? {
        let range = |row: &Row<'_>| {
            Ok((key(row)?, row.get(2)?, seq(row.get(3)?), (seq(row.get(4)?), seq(row.get(5)?))))
        };
        let ranges: Vec<_> = tx.prepare(ARCHIVED)?.query_map([], range)?.collect::<Result<_, _>>()?;
        tx.execute_batch(
            "INSERT INTO words (words) VALUES ('delete-all'); DELETE FROM archived; DELETE FROM archives",
        )?;
        for (key, log, end, range) in &ranges {
            index(&LogRows { conn: &tx, place, key, log: *log, end: *end }, &[*range])?;
        }
        tx.execute("DELETE FROM outdated WHERE what = 'archives'", [])?;
    }
    Ok(tx.commit()?)
}
