//! Heads, lists and totals.

use contexture_history::Timestamp;
use contexture_session::{
    Fence, ForkPoint, Head, Lease, LeaseRow, SessionId, SessionInfo, SessionKey, Tenant, ThreadId,
    ThreadInfo, ThreadKey, ThreadKind, Usage,
};
use rusqlite::types::Type;
use rusqlite::{Connection, OptionalExtension as _, Row, params};

use crate::failure::{Failure, StorePath};
use crate::numbers::{from_sql, seq, to_sql};

pub(crate) const HEAD: &str = r#"SELECT t.name, s.name, t.main, t.label, t.base_thread, t.base_seq, t.created,
    t.updated, t."end", t.turns, t.owner, t.fence, t.until, t.state
    FROM threads AS t CROSS JOIN sessions AS s ON s.no = t.session WHERE t.tenant = ?1 AND t.name = ?2"#;
pub(crate) const THREADS: &str = r#"SELECT t.name, s.name, t.main, t.label, t.base_thread, t.base_seq, t.created,
    t.updated, t."end", t.turns FROM sessions AS s CROSS JOIN threads AS t ON t.session = s.no
    WHERE s.tenant = ?1 AND s.name = ?2 ORDER BY t.main DESC, t.name"#;
pub(crate) const SESSIONS: &str = r#"SELECT s.name, s.label, s.created, max(t.updated), count(*), sum(t."end"),
    sum(t.turns * t.main) FROM sessions AS s CROSS JOIN threads AS t ON t.session = s.no
    WHERE s.tenant = ?1 AND s.name > ?2 GROUP BY s.name ORDER BY s.name LIMIT ?3"#;
pub(crate) const USAGE: &str = r#"SELECT (SELECT count(*) FROM sessions WHERE tenant = ?1),
    (SELECT count(*) FROM threads WHERE tenant = ?1), (SELECT coalesce(sum("end"), 0) FROM threads WHERE tenant = ?1),
    (SELECT count(*) FROM blobs WHERE tenant = ?1), (SELECT coalesce(sum(bytes), 0) FROM blobs WHERE tenant = ?1)"#;

/// Returns the current state of a thread.
pub(crate) fn head(
    conn: &Connection,
    place: &StorePath,
    key: &ThreadKey,
    now: Timestamp,
) -> Result<Option<Head>, Failure> {
    let found = |row: &Row<'_>| {
        let lease = LeaseRow {
            owner: row.get(10)?,
            fence: Fence(from_sql(row.get(11)?)),
            until: Timestamp(row.get(12)?),
        };
        Ok((thread_info(row)?, lease, row.get::<_, String>(13)?))
    };
    let mut statement = conn.prepare_cached(HEAD)?;
    let found = statement.query_row([key.tenant.as_str(), key.thread.as_str()], found).optional()?;
    let Some((info, lease, state)) = found else { return Ok(None) };
    let damaged = |err| place.damaged(format!("the state of thread `{}`: {err}", key.thread));
    let state = serde_json::from_str(&state).map_err(damaged)?;
    let live = lease.is_live(now);
    let lease = lease.owner.map(|owner| Lease { owner, fence: lease.fence, live });
    Ok(Some(Head { info, state, lease }))
}

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

/// Returns the threads of a session, the main one first.
pub(crate) fn threads(conn: &Connection, session: &SessionKey) -> Result<Vec<ThreadInfo>, Failure> {
    let mut statement = conn.prepare_cached(THREADS)?;
    let rows = statement.query_map([session.tenant.as_str(), session.session.as_str()], thread_info)?;
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

/// Reads the first ten columns of [`HEAD`] and [`THREADS`].
fn thread_info(row: &Row<'_>) -> rusqlite::Result<ThreadInfo> {
    let base = match row.get::<_, Option<i64>>(5)? {
        Some(position) => Some(ForkPoint { thread: id(row, 4, ThreadId::parse)?, seq: seq(position) }),
        None => None,
    };
    Ok(ThreadInfo {
        thread: id(row, 0, ThreadId::parse)?,
        session: id(row, 1, SessionId::parse)?,
        kind: if row.get(2)? { ThreadKind::Main } else { ThreadKind::Isolated },
        label: row.get(3)?,
        base,
        created: Timestamp(row.get(6)?),
        updated: Timestamp(row.get(7)?),
        items: from_sql(row.get(8)?),
        turns: from_sql(row.get(9)?),
    })
}

pub(crate) fn id<T, E: std::error::Error + Send + Sync + 'static>(
    row: &Row<'_>,
    column: usize,
    parse: impl Fn(String) -> Result<T, E>,
) -> rusqlite::Result<T> {
    parse(row.get(column)?)
        .map_err(|err| rusqlite::Error::FromSqlConversionFailure(column, Type::Text, Box::new(err)))
}
