//! Walks a table row by row, past what can't be read.

use rusqlite::{Connection, Row};

/// More rows than a page can hold: bounds the search when the end of a table can't be found.
const ROWS_OF_A_PAGE: i64 = 128;
/// A search goes number by number for so long. A damaged page can name numbers that are far too large.
const NEAR: u32 = 20_000;

/// Calls `take` with each readable row of `table`, in number order. The number is the first column. `take` says whether
/// it could read the rest of the row. Returns how many gaps could not be read.
pub(super) fn walk<E>(
    conn: &Connection,
    table: &str,
    columns: &str,
    mut take: impl FnMut(&Row<'_>) -> Result<bool, E>,
) -> Result<u64, E> {
    let last = last_number(conn, table);
    let sql = format!("SELECT rowid, {columns} FROM {table} WHERE rowid >= ?1 ORDER BY rowid");
    let (mut places, mut missed) = (0, None);
    let mut next = 1;
    while next <= last {
        let begin = next;
        if walk_from(conn, &sql, &mut next, &mut take)? {
            break;
        }
        if next > begin {
            places += 1;
            missed = Some(0);
        } else {
            // A page that can't be read holds a run of numbers: the next one that can be is searched for.
            places += u64::from(missed.is_none());
            let misses = missed.unwrap_or(0);
            next = next.saturating_add(stride(misses));
            missed = Some(misses + 1);
        }
    }
    Ok(places)
}

/// Returns how far to skip after a number of misses: one by one at first, then exponentially further.
fn stride(misses: u32) -> i64 {
    match misses.checked_sub(NEAR) {
        None => 1,
        Some(far) => 1 << far.min(60),
    }
}

/// Reads on from the number `next` and moves it past what was read. Returns whether that was all to the end.
fn walk_from<E>(
    conn: &Connection,
    sql: &str,
    next: &mut i64,
    take: &mut impl FnMut(&Row<'_>) -> Result<bool, E>,
) -> Result<bool, E> {
    let Ok(mut statement) = conn.prepare_cached(sql) else { return Ok(false) };
    let Ok(mut rows) = statement.query([*next]) else { return Ok(false) };
    loop {
        let row = match rows.next() {
            Ok(None) => return Ok(true),
            Ok(Some(row)) => row,
            Err(_) => return Ok(false),
        };
        // A damaged tree may lead back; numbers only grow.
        match row.get::<_, i64>(0) {
            Ok(no) if no >= *next => *next = no.saturating_add(1),
            _ => return Ok(false),
        }
        if !take(row)? {
            return Ok(false);
        }
    }
}

fn last_number(conn: &Connection, table: &str) -> i64 {
    let last =
        conn.query_row(&format!("SELECT max(rowid) FROM {table}"), [], |row| row.get::<_, Option<i64>>(0));
    let pages = || conn.query_row("PRAGMA page_count", [], |row| row.get::<_, i64>(0)).unwrap_or(0);
    match last {
        Ok(last) => last.unwrap_or(0),
        Err(_) => pages().saturating_mul(ROWS_OF_A_PAGE),
    }
}
