//! Leases, checked in the transaction of the write that they guard.

use contexture_history::{Seq, Timestamp};
use contexture_session::{Fence, Guard, LeaseRow, LogKind, StoreError, ThreadKey};
use rusqlite::{Connection, OptionalExtension as _, Row, params};

use crate::failure::Failure;
use crate::head::{kind, lease};
use crate::numbers::{seq, to_sql};

/// Changes a lease alone.
pub(crate) fn change_lease(
    conn: &Connection,
    key: &ThreadKey,
    guard: &Guard,
    now: Timestamp,
) -> Result<Option<Fence>, Failure> {
    let log = find(conn, key)?;
    let lease = log.lease.admit(key, guard, now)?;
    if lease != log.lease {
        let sql = "UPDATE logs SET owner = ?2, fence = ?3, until = ?4 WHERE no = ?1";
        let values = params![log.no, lease.owner.as_deref(), to_sql(lease.fence.0), lease.until.0];
        conn.prepare_cached(sql)?.execute(values)?;
    }
    Ok(lease.fence_of(guard))
}

/// A log as a writer finds it.
pub(crate) struct CurrentLog {
    pub(crate) no: i64,
    pub(crate) session: i64,
    pub(crate) kind: LogKind,
    pub(crate) end: Seq,
    pub(crate) lease: LeaseRow,
    pub(crate) needs_writer: bool,
    pub(crate) oldest: Option<Timestamp>,
}

pub(crate) const FIND_LOG: &str = r#"SELECT no, session, kind, "end", owner, fence, until, needs_writer, oldest FROM logs
    WHERE tenant = ?1 AND name = ?2"#;

pub(crate) fn find(conn: &Connection, key: &ThreadKey) -> Result<CurrentLog, Failure> {
    find_opt(conn, key)?.ok_or_else(|| StoreError::no_thread(&key.thread).into())
}

pub(crate) fn find_opt(conn: &Connection, key: &ThreadKey) -> rusqlite::Result<Option<CurrentLog>> {
    let found = |row: &Row<'_>| {
        Ok(CurrentLog {
            no: row.get(0)?,
            session: row.get(1)?,
            kind: kind(row, 2)?,
            end: seq(row.get(3)?),
            lease: lease(row, 4)?,
            needs_writer: row.get(7)?,
            oldest: row.get::<_, Option<i64>>(8)?.map(Timestamp),
        })
    };
    let mut statement = conn.prepare_cached(FIND_LOG)?;
    statement.query_row([key.tenant.as_str(), key.thread.as_str()], found).optional()
}
