//! Logs that need a writer and have none.
//!
//! They are searched among those that are listed. A log is listed by the append that makes it need a writer, and taken off
//! the list by a search that finds it at rest.

use contexture_history::Timestamp;
use contexture_session::{DueKind, Tenant, ThreadId, ThreadKey};
use rusqlite::{Connection, Row, params};

use crate::failure::Failure;
use crate::head::id;
use crate::numbers::to_sql;

pub(crate) const DUE_THREADS: &str =
    "SELECT tenant, name FROM logs INDEXED BY logs_due WHERE is_listed = 1 AND needs_writer = 1
    AND kind IN ('main', 'isolated') AND (owner IS NULL OR until <= ?1) AND (tenant, name) > (?2, ?3)
    ORDER BY tenant, name LIMIT ?4";
pub(crate) const DUE_RUNS: &str =
    "SELECT tenant, name FROM logs INDEXED BY logs_due WHERE is_listed = 1 AND needs_writer = 1
    AND kind = 'run' AND (owner IS NULL OR until <= ?1) AND (tenant, name) > (?2, ?3)
    ORDER BY tenant, name LIMIT ?4";

/// Whether any listed log has needed no writer for a while.
pub(crate) const HAS_RESTING: &str = "SELECT EXISTS (SELECT 1 FROM logs INDEXED BY logs_due
    WHERE is_listed = 1 AND needs_writer = 0 AND updated < ?1)";
pub(crate) const UNLIST: &str = "UPDATE logs SET is_listed = 0 WHERE no IN (
    SELECT no FROM logs INDEXED BY logs_due WHERE is_listed = 1 AND needs_writer = 0 AND updated < ?1 LIMIT ?2)";
/// How many logs one transaction takes off the list: it must not take long.
pub(crate) const UNLISTED_AT_ONCE: usize = 500;
/// How long a log that needs no writer stays listed, in milliseconds: conversations go on for a while, and a log that
/// stays on the list costs no page.
const REST: i64 = 20_000;

/// Whether there are logs that [`unlist`] takes off the list.
pub(crate) fn has_resting(conn: &Connection, now: Timestamp) -> Result<bool, Failure> {
    Ok(conn.prepare_cached(HAS_RESTING)?.query_row([now.0.saturating_sub(REST)], |row| row.get(0))?)
}

/// Takes logs off the list that have needed no writer for a while, and returns how many.
pub(crate) fn unlist(conn: &Connection, now: Timestamp) -> Result<usize, Failure> {
    let values = params![now.0.saturating_sub(REST), to_sql(UNLISTED_AT_ONCE as u64)];
    Ok(conn.prepare_cached(UNLIST)?.execute(values)?)
}

/// Returns the logs that are due after a key, in the order of their keys.
pub(crate) fn due(
    conn: &Connection,
    kind: DueKind,
    after: Option<&ThreadKey>,
    now: Timestamp,
    max: usize,
) -> Result<Vec<ThreadKey>, Failure> {
    let sql = match kind {
        DueKind::Threads => DUE_THREADS,
        DueKind::Runs => DUE_RUNS,
    };
    // No name is empty, so all keys come after the empty one.
    let (tenant, name) = after.map_or(("", ""), |it| (it.tenant.as_str(), it.thread.as_str()));
    let mut statement = conn.prepare_cached(sql)?;
    let rows = statement.query_map(params![now.0, tenant, name, to_sql(max as u64)], key)?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// Reads a row of `tenant, name`.
pub(crate) fn key(row: &Row<'_>) -> rusqlite::Result<ThreadKey> {
    Ok(ThreadKey { tenant: id(row, 0, Tenant::parse)?, thread: id(row, 1, ThreadId::parse)? })
}
