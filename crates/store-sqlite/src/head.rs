//! The current state of a log.

use std::error::Error;

use contexture_history::{Seq, Timestamp, TurnNo};
use contexture_session::{
    Fence, ForkPoint, KeyedTurn, LeaseRow, LogHead, LogKind, SessionId, StoreError, Tenant, ThreadId,
    ThreadInfo, ThreadKey,
};
use rusqlite::types::Type;
use rusqlite::{Connection, OptionalExtension as _, Row, params};
use serde::de::DeserializeOwned;

use crate::failure::Failure;
use crate::numbers::{from_sql, seq};

pub(crate) const KEYED: &str = "SELECT turn, began FROM turn_keys WHERE log = ?1 AND name = ?2";

/// The row of a log, without what only lists show.
pub(crate) struct CurrentLog {
    pub(crate) no: i64,
    pub(crate) session: i64,
    pub(crate) kind: LogKind,
    pub(crate) end: Seq,
    pub(crate) lease: LeaseRow,
    pub(crate) needs_writer: bool,
    /// Whether it is among those that are searched for lost writers.
    pub(crate) is_listed: bool,
    pub(crate) oldest: Option<Timestamp>,
}

pub(crate) const FIND_LOG: &str = r#"SELECT no, session, kind, "end", owner, fence, until, needs_writer, oldest,
    is_listed FROM logs WHERE tenant = ?1 AND name = ?2"#;

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
            is_listed: row.get(9)?,
        })
    };
    let mut statement = conn.prepare_cached(FIND_LOG)?;
    statement.query_row([key.tenant.as_str(), key.thread.as_str()], found).optional()
}

/// Returns where the turn with an idempotency key began.
pub(crate) fn turn_with_key(
    conn: &Connection,
    key: &ThreadKey,
    name: &str,
) -> Result<Option<KeyedTurn>, Failure> {
    let log = find(conn, key)?.no;
    let found =
        |row: &Row<'_>| Ok(KeyedTurn { turn: TurnNo(from_sql(row.get(0)?)), began: seq(row.get(1)?) });
    Ok(conn.prepare_cached(KEYED)?.query_row(params![log, name], found).optional()?)
}

/// The columns of [`log_head`].
macro_rules! select_heads {
    ($rest:literal) => {
        concat!(
            r#"SELECT l.name, s.name, l.kind, l.label, l.base_thread, l.base_seq, l.created, l.updated, l."end", l.turns,
            l.tenant, l.owner, l.fence, l.until, l.state "#,
            $rest
        )
    };
}
pub(crate) use select_heads;

pub(crate) const HEAD: &str = select_heads!(
    "FROM logs AS l CROSS JOIN sessions AS s ON s.no = l.session WHERE l.tenant = ?1 AND l.name = ?2"
);

/// Returns the current state of a log.
pub(crate) fn head(conn: &Connection, key: &ThreadKey, now: Timestamp) -> Result<Option<LogHead>, Failure> {
    let mut statement = conn.prepare_cached(HEAD)?;
    let names = [key.tenant.as_str(), key.thread.as_str()];
    Ok(statement.query_row(names, |row| log_head(row, now)).optional()?)
}

/// Reads a row of [`select_heads`].
pub(crate) fn log_head(row: &Row<'_>, now: Timestamp) -> rusqlite::Result<LogHead> {
    let base = match row.get::<_, Option<i64>>(5)? {
        Some(position) => Some(ForkPoint { thread: id(row, 4, ThreadId::parse)?, seq: seq(position) }),
        None => None,
    };
    let info = ThreadInfo {
        thread: id(row, 0, ThreadId::parse)?,
        session: id(row, 1, SessionId::parse)?,
        kind: kind(row, 2)?,
        label: row.get(3)?,
        base,
        created: Timestamp(row.get(6)?),
        updated: Timestamp(row.get(7)?),
        items: from_sql(row.get(8)?),
        turns: from_sql(row.get(9)?),
    };
    let lease = lease(row, 11)?.lease_at(now);
    Ok(LogHead { tenant: id(row, 10, Tenant::parse)?, info, state: row.get(14)?, lease })
}

/// Reads the columns `owner, fence, until`.
pub(crate) fn lease(row: &Row<'_>, column: usize) -> rusqlite::Result<LeaseRow> {
    Ok(LeaseRow {
        owner: row.get(column)?,
        fence: Fence(from_sql(row.get(column + 1)?)),
        until: Timestamp(row.get(column + 2)?),
    })
}

pub(crate) fn kind(row: &Row<'_>, column: usize) -> rusqlite::Result<LogKind> {
    let name = row.get_ref(column)?.as_str()?;
    LogKind::parse(name).ok_or_else(|| invalid(column, format!("unknown kind of log `{name}`")))
}

pub(crate) fn id<T, E: Error + Send + Sync + 'static>(
    row: &Row<'_>,
    column: usize,
    parse: impl Fn(String) -> Result<T, E>,
) -> rusqlite::Result<T> {
    parse(row.get(column)?).map_err(|err| invalid(column, err))
}

/// Reads a column that holds JSON.
pub(crate) fn json<T: DeserializeOwned>(row: &Row<'_>, column: usize) -> rusqlite::Result<T> {
    serde_json::from_str(row.get_ref(column)?.as_str()?).map_err(|err| invalid(column, err))
}

fn invalid(column: usize, err: impl Into<Box<dyn Error + Send + Sync>>) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(column, Type::Text, err.into())
}
