//! A thread that starts with a copy of another's items.

use contexture_history::{Item, Seq};
use contexture_session::{NewLog, ThreadKey, codec};
use rusqlite::{Connection, params};

use crate::archive::index;
use crate::blobs::copy_blob_uses;
use crate::create::{insert_log, place_for};
use crate::failure::{Failure, StorePath};
use crate::head::find;
use crate::numbers::to_sql;
use crate::rows::LogRows;

/// Creates a thread that starts with the items of another.
pub(crate) fn fork(
    conn: &Connection,
    place: &StorePath,
    from: &ThreadKey,
    log: &NewLog,
) -> Result<(), Failure> {
    let source = find(conn, from)?;
    log.check_copy(from, source.end)?;
    let session = place_for(conn, log)?;
    let (key, end) = (&log.key(), log.state.end);
    let cut = cut_items(&LogRows { conn, place, key: from, log: source.no, end })?;
    let after = cut.first().map_or(Seq(0), |it| Seq(it.seq.0.saturating_sub(1)));
    let cut = codec::encode(&cut).map_err(|err| place.damaged(err))?;
    let target = insert_log(conn, session, log)?;
    copy_rows(conn, source.no, target, to_sql(end.0))?;
    let copy = LogRows { conn, place, key, log: target, end };
    copy.insert(after, None, "", &cut)?;
    copy_blob_uses(conn, key.tenant.as_str(), target)?;
    index(&copy, &log.archived)
}

/// Returns the items before the end of a row that goes beyond it; no items if a row ends right there.
fn cut_items(log: &LogRows<'_>) -> Result<Vec<Item>, Failure> {
    let sql = "SELECT first, count, blobs, body FROM commits
               WHERE log = ?1 AND first <= ?2 ORDER BY first DESC LIMIT 1";
    let mut statement = log.conn.prepare_cached(sql)?;
    let mut rows = statement.query(params![log.log, to_sql(log.end.0)])?;
    let Some(row) = rows.next()? else { return Ok(Vec::new()) };
    let mut items = log.decode(row)?;
    if items.last().is_none_or(|it| it.seq <= log.end) {
        return Ok(Vec::new());
    }
    items.retain(|it| it.seq <= log.end);
    Ok(items)
}

fn copy_rows(conn: &Connection, source: i64, target: i64, end: i64) -> rusqlite::Result<()> {
    let sql = "INSERT INTO commits (log, first, count, blobs, body)
               SELECT ?2, first, count, blobs, body FROM commits
               WHERE log = ?1 AND first <= ?3 AND first + count - 1 <= ?3 ORDER BY first";
    conn.prepare_cached(sql)?.execute(params![source, target, end])?;
    Ok(())
}
