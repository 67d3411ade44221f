//! Lists and totals of a tenant.

use contexture_history::Timestamp;
use contexture_session::{SessionId, SessionInfo, Tenant, Usage};
use rusqlite::{Connection, Row, params};

use crate::failure::Failure;
use crate::head::id;
use crate::numbers::{from_sql, to_sql};

pub(crate) const SESSIONS: &str = r#"SELECT s.name, s.label, s.created, max(l.updated), count(*), sum(l."end"),
    sum(l.turns * (l.kind = 'main')) FROM sessions AS s CROSS JOIN logs AS l ON l.session = s.no
    WHERE s.tenant = ?1 AND s.name > ?2 AND l.kind IN ('main', 'isolated')
    GROUP BY s.name ORDER BY s.name LIMIT ?3"#;
pub(crate) const USAGE: &str = r#"SELECT (SELECT count(*) FROM sessions WHERE tenant = ?1),
    (SELECT count(*) FROM logs WHERE tenant = ?1 AND kind IN ('main', 'isolated')),
    (SELECT coalesce(sum("end"), 0) FROM logs WHERE tenant = ?1 AND kind IN ('main', 'isolated')),
    (SELECT count(*) FROM blobs WHERE tenant = ?1), (SELECT coalesce(sum(bytes), 0) FROM blobs WHERE tenant = ?1)"#;

/// Returns the sessions of a tenant after a name, in the order of their names.
pub(crate) fn sessions(
    conn: &Connection,
    tenant: &Tenant,
    after: Option<&SessionId>,
    max: usize,
) -> Result<Vec<SessionInfo>, Failure> {
    // No name is empty, so all names come after the empty one.
    let after = after.map_or("", SessionId::as_str);
    let info = |row: &Row<'_>| {
        Ok(SessionInfo {
            session: id(row, 0, SessionId::parse)?,
            label: row.get(1)?,
            created: Timestamp(row.get(2)?),
            updated: Timestamp(row.get(3)?),
            threads: from_sql(row.get(4)?),
            items: from_sql(row.get(5)?),
            turns: from_sql(row.get(6)?),
        })
    };
    let mut statement = conn.prepare_cached(SESSIONS)?;
    let rows = statement.query_map(params![tenant.as_str(), after, to_sql(max as u64)], info)?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// Returns what there is of a tenant.
pub(crate) fn usage(conn: &Connection, tenant: &Tenant) -> Result<Usage, Failure> {
    let usage = |row: &Row<'_>| {
        Ok(Usage {
            sessions: from_sql(row.get(0)?),
            threads: from_sql(row.get(1)?),
            items: from_sql(row.get(2)?),
            blobs: from_sql(row.get(3)?),
            blob_bytes: from_sql(row.get(4)?),
        })
    };
    Ok(conn.prepare_cached(USAGE)?.query_row([tenant.as_str()], usage)?)
}
