//! Puts other content in the place of items.

use std::collections::BTreeMap;

use contexture_history::{Item, Seq};
use contexture_session::search::ItemAnalyzer;
use contexture_session::{StoreError, ThreadKey, codec};
use rusqlite::{Connection, OptionalExtension as _, params};

use crate::archive::index;
use crate::blobs::{REMOVE_UNUSED, insert_blob};
use crate::failure::{Failure, StorePath};
use crate::head::find;
use crate::numbers::to_sql;
use crate::read::FORWARD;
use crate::rows::LogRows;

pub(crate) const SET_ROW: &str = "UPDATE commits SET blobs = ?3, body = ?4 WHERE log = ?1 AND first = ?2";
pub(crate) const ARCHIVED: &str = "SELECT no, terms IS NOT NULL FROM archived WHERE log = ?1 AND seq = ?2";
const UNCOUNT: &str = "UPDATE archives SET texts = texts - 1, length = length - ?2 WHERE log = ?1";

/// Replaces items in their rows.
pub(crate) fn rewrite(
    conn: &Connection,
    place: &StorePath,
    key: &ThreadKey,
    items: &[Item],
) -> Result<(), Failure> {
    let log = find(conn, key)?;
    conn.prepare_cached("DELETE FROM unfinished WHERE log = ?1")?.execute([log.no])?;
    let new: BTreeMap<Seq, &Item> = items.iter().map(|it| (it.seq, it)).collect();
    let rows = LogRows { conn, place, key, log: log.no, end: log.end };
    for row in rows_with(&rows, &new)? {
        rewrite_row(&rows, row, &new)?;
    }
    for sql in REMOVE_UNUSED {
        conn.prepare_cached(sql)?.execute([log.no])?;
    }
    Ok(())
}

/// Reads the rows that have one of the items.
fn rows_with(rows: &LogRows<'_>, new: &BTreeMap<Seq, &Item>) -> Result<Vec<Vec<Item>>, Failure> {
    let (Some((first, _)), Some((last, _))) = (new.first_key_value(), new.last_key_value()) else {
        return Ok(Vec::new());
    };
    let mut statement = rows.conn.prepare_cached(FORWARD)?;
    let mut found = statement.query(params![rows.log, to_sql(first.0)])?;
    let mut touched = Vec::new();
    while let Some(row) = found.next()? {
        let items = rows.decode(row)?;
        if items.first().is_some_and(|it| it.seq > *last) {
            break;
        }
        if items.iter().any(|it| new.contains_key(&it.seq)) {
            touched.push(items);
        }
    }
    Ok(touched)
}

fn rewrite_row(rows: &LogRows<'_>, old: Vec<Item>, new: &BTreeMap<Seq, &Item>) -> Result<(), Failure> {
    let (mut analyzer, mut archived) = (ItemAnalyzer::default(), Vec::new());
    let mut items = Vec::with_capacity(old.len());
    for item in old {
        let Some(new) = new.get(&item.seq) else {
            items.push(item);
            continue;
        };
        if unindex(rows, &mut analyzer, &item)? {
            archived.push((item.seq, item.seq));
        }
        items.push(Item { body: new.body.clone(), cost: new.cost.clone(), ..item });
    }
    let row = codec::encode_row(&items).map_err(|err| StoreError::malformed(rows.key, err))?;
    let values = params![rows.log, to_sql(row.first.0), row.places, row.body];
    rows.conn.prepare_cached(SET_ROW)?.execute(values)?;
    row.blobs.iter().try_for_each(|it| insert_blob(rows.conn, rows.key, rows.log, it))?;
    Ok(index(rows, &archived)?)
}

/// Takes an item out of the index of what is archived. Returns whether it was in it.
fn unindex(rows: &LogRows<'_>, analyzer: &mut ItemAnalyzer, item: &Item) -> Result<bool, Failure> {
    let values = params![rows.log, to_sql(item.seq.0)];
    let found: Option<(i64, bool)> = rows
        .conn
        .prepare_cached(ARCHIVED)?
        .query_row(values, |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    let Some((no, has_words)) = found else { return Ok(false) };
    rows.conn.prepare_cached("DELETE FROM archived WHERE no = ?1")?.execute([no])?;
    if has_words {
        rows.conn.prepare_cached("DELETE FROM words WHERE rowid = ?1")?.execute([no])?;
        let length = analyzer.terms(item).map_or(0, |it| it.vector.length());
        rows.conn.prepare_cached(UNCOUNT)?.execute(params![rows.log, length])?;
    }
    Ok(true)
}
