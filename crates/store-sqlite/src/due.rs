//! Logs that need a writer and have none.

use contexture_history::Timestamp;
use contexture_session::{DueKind, Tenant, ThreadId, ThreadKey};
use rusqlite::{Connection, Row, params};

use crate::failure::Failure;
use crate::head::id;
use crate::numbers::to_sql;

pub(crate) const DUE_THREADS: &str =
    "SELECT tenant, name FROM logs INDEXED BY logs_due WHERE needs_writer = 1
    AND kind IN ('main', 'isolated') AND (owner IS NULL OR until <= ?1) AND (tenant, name) > (?2, ?3)
    ORDER BY tenant, name LIMIT ?4";
pub(crate) const DUE_RUNS: &str = "SELECT tenant, name FROM logs INDEXED BY logs_due WHERE needs_writer = 1
    AND kind = 'run' AND (owner IS NULL OR until <= ?1) AND (tenant, name) > (?2, ?3)
    ORDER BY tenant, name LIMIT ?4";

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
