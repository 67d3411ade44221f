//! Puts other content in the place of items.

use std::collections::BTreeMap;

use contexture_history::{Item, Seq};
use contexture_session::rank::TermVector;
use contexture_session::{StoreError, ThreadKey, codec, rewritten};
use rusqlite::{Connection, OptionalExtension as _, params};

use crate::archive::index;
use crate::blobs::{REMOVE_UNUSED, insert_blob};
use crate::failure::{Failure, StorePath};
use crate::head::find;
use crate::numbers::to_sql;
use crate::read::FORWARD;
use crate::rows::LogRows;

pub(crate) const SET_ROW: &str = "UPDATE commits SET blobs = ?3, body = ?4 WHERE log = ?1 AND first = ?2";
pub(crate) const ARCHIVED: &str = "SELECT no, terms FROM archived WHERE log = ?1 AND seq = ?2";
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
    for items in rewritten_rows(&rows, &new)? {
        set_row(&rows, &items)?;
    }
    let mut again = Vec::new();
    for seq in new.keys() {
        if unindex(&rows, *seq)? {
            again.push((*seq, *seq));
        }
    }
    index(&rows, &again)?;
    for sql in REMOVE_UNUSED {
        conn.prepare_cached(sql)?.execute([log.no])?;
    }
    Ok(())
}

/// Returns the rows that have one of the items, with the new content.
fn rewritten_rows(rows: &LogRows<'_>, new: &BTreeMap<Seq, &Item>) -> Result<Vec<Vec<Item>>, Failure> {
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
        touched.extend(rewritten(items, new));
    }
    Ok(touched)
}

fn set_row(rows: &LogRows<'_>, items: &[Item]) -> Result<(), Failure> {
    let row = codec::encode_row(items).map_err(|err| StoreError::malformed(rows.key, err))?;
    let values = params![rows.log, to_sql(row.first.0), row.places, row.body];
    rows.conn.prepare_cached(SET_ROW)?.execute(values)?;
    Ok(row.blobs.iter().try_for_each(|it| insert_blob(rows.conn, rows.key, rows.log, it))?)
}

/// Takes an item out of the index of what is archived. Returns whether it was in it.
fn unindex(rows: &LogRows<'_>, seq: Seq) -> rusqlite::Result<bool> {
    let values = params![rows.log, to_sql(seq.0)];
    let mut statement = rows.conn.prepare_cached(ARCHIVED)?;
    let found =
        statement.query_row(values, |row| Ok((row.get::<_, i64>(0)?, row.get::<_, Option<Vec<u8>>>(1)?)));
    let Some((no, terms)) = found.optional()? else { return Ok(false) };
    rows.conn.prepare_cached("DELETE FROM archived WHERE no = ?1")?.execute([no])?;
    if let Some(terms) = terms {
        rows.conn.prepare_cached("DELETE FROM words WHERE rowid = ?1")?.execute([no])?;
        let length = TermVector::from_bytes(terms).length();
        rows.conn.prepare_cached(UNCOUNT)?.execute(params![rows.log, length])?;
    }
    Ok(true)
}
