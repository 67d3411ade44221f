//! Lists of logs, and a log by its start key.

use contexture_history::Timestamp;
use contexture_session::{LogHead, LogList, Tenant, ThreadKey};
use rusqlite::{Connection, OptionalExtension as _, Row, ToSql, params};

use crate::due::key;
use crate::failure::Failure;
use crate::head::{log_head, select_heads};
use crate::numbers::to_sql;

pub(crate) const OF_ALL: &str = select_heads!(
    "FROM logs AS l CROSS JOIN sessions AS s ON s.no = l.session
    WHERE l.kind = ?1 AND (l.tenant, l.name) > (?2, ?3) ORDER BY l.tenant, l.name LIMIT ?4"
);
pub(crate) const OF_TENANT: &str = select_heads!(
    "FROM logs AS l CROSS JOIN sessions AS s ON s.no = l.session
    WHERE l.kind = ?1 AND l.tenant = ?2 AND l.name > ?3 ORDER BY l.name LIMIT ?4"
);
pub(crate) const OF_SESSION: &str = select_heads!(
    "FROM sessions AS s CROSS JOIN logs AS l ON l.session = s.no
    WHERE s.tenant = ?2 AND s.name = ?5 AND l.kind = ?1 AND l.name > ?3 ORDER BY l.name LIMIT ?4"
);
pub(crate) const WITH_START_KEY: &str = "SELECT tenant, name FROM logs WHERE tenant = ?1 AND start_key = ?2";

/// Returns a part of a list of logs.
pub(crate) fn logs(conn: &Connection, list: &LogList, now: Timestamp) -> Result<Vec<LogHead>, Failure> {
    let Some((tenant, name)) = list.start() else { return Ok(Vec::new()) };
    let (kind, max) = (list.kind.as_str(), to_sql(list.max as u64));
    let mut values: Vec<&dyn ToSql> = vec![&kind, &tenant, &name, &max];
    let session = list.session.as_ref().map(ToString::to_string);
    let sql = match (&list.tenant, &session) {
        (None, _) => OF_ALL,
        (Some(_), None) => OF_TENANT,
        (Some(_), Some(session)) => {
            values.push(session);
            OF_SESSION
        }
    };
    let mut statement = conn.prepare_cached(sql)?;
    let rows = statement.query_map(&*values, |row: &Row<'_>| log_head(row, now))?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// Returns the log of a tenant that has a start key.
pub(crate) fn log_with_start_key(
    conn: &Connection,
    tenant: &Tenant,
    start_key: &str,
) -> Result<Option<ThreadKey>, Failure> {
    let mut statement = conn.prepare_cached(WITH_START_KEY)?;
    Ok(statement.query_row(params![tenant.as_str(), start_key], key).optional()?)
}
