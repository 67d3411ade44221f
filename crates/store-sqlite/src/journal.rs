//! Prunes journals from their start.

use contexture_history::Timestamp;
use rusqlite::{Connection, params};

use crate::append::SET_OLDEST;
use crate::blobs::REMOVE_UNUSED;
use crate::failure::Failure;
use crate::numbers::{from_sql, to_sql};

/// The name of a journal follows that of its session, which has no `/`, and three of them.
pub(crate) const OLD: &str = "SELECT no FROM logs INDEXED BY logs_by_age
    WHERE oldest < ?1 AND substr(name, instr(name, '/') + 3) = ?2 ORDER BY oldest LIMIT ?3";
/// With the time of a row's newest item. A row that can't be read has none, and is removed.
pub(crate) const FIRST_ROWS: &str = "SELECT first, count, blobs IS NOT NULL, CASE WHEN json_valid(body) THEN
    max(coalesce(body ->> '$.at', 0), coalesce((SELECT max(value ->> '$.at') FROM json_each(body, '$.items')), 0))
    ELSE 0 END FROM commits WHERE log = ?1 ORDER BY first";
pub(crate) const REMOVE_ROWS: &str = "DELETE FROM commits WHERE log = ?1 AND first < ?2";

/// Prunes the items of all journals with a name. Returns how many were removed.
pub(crate) fn prune_journals(
    conn: &Connection,
    name: &str,
    before: Timestamp,
    max: usize,
) -> Result<u64, Failure> {
    let max = max as u64;
    let mut statement = conn.prepare_cached(OLD)?;
    let old = statement.query_map(params![before.0, name, to_sql(max)], |row| row.get(0))?;
    let mut n_pruned = 0;
    for log in old.collect::<Result<Vec<i64>, _>>()? {
        if n_pruned >= max {
            break;
        }
        n_pruned += prune(conn, log, before, max - n_pruned)?;
    }
    Ok(n_pruned)
}

/// Prunes the start of a journal, row by row. Returns how many items were removed.
fn prune(conn: &Connection, log: i64, before: Timestamp, max: u64) -> rusqlite::Result<u64> {
    let mut statement = conn.prepare_cached(FIRST_ROWS)?;
    let mut rows = statement.query([log])?;
    let (mut n_pruned, mut had_blobs, mut kept) = (0, false, None);
    while let Some(row) = rows.next()? {
        let (first, at): (i64, i64) = (row.get(0)?, row.get(3)?);
        if n_pruned >= max || at >= before.0 {
            kept = Some((first, at));
            break;
        }
        n_pruned += from_sql(row.get(1)?);
        had_blobs |= row.get::<_, bool>(2)?;
    }
    drop(rows);
    let first_kept = kept.map_or(i64::MAX, |it| it.0);
    conn.prepare_cached(REMOVE_ROWS)?.execute([log, first_kept])?;
    conn.prepare_cached(SET_OLDEST)?.execute(params![log, kept.map(|it| it.1)])?;
    for sql in REMOVE_UNUSED.iter().filter(|_| had_blobs) {
        conn.prepare_cached(sql)?.execute([log])?;
    }
    Ok(n_pruned)
}
