//! The current state of a thread.

use contexture_history::{Seq, Timestamp, TurnNo};
use contexture_session::{
    Fence, ForkPoint, Head, KeyedTurn, Lease, LeaseRow, SessionId, StoreError, ThreadId, ThreadInfo,
    ThreadKey, ThreadKind,
};
use rusqlite::types::Type;
use rusqlite::{Connection, OptionalExtension as _, Row, params};

use crate::failure::{Failure, StorePath};
use crate::numbers::{from_sql, seq};

/// A thread's state as stored.
#[derive(Debug)]
pub(crate) struct EncodedState {
    pub(crate) end: Seq,
    pub(crate) turns: u64,
    pub(crate) updated: Timestamp,
    pub(crate) json: String,
}

impl EncodedState {
    pub(crate) fn new(state: &contexture_session::State) -> serde_json::Result<Self> {
        let json = serde_json::to_string(state)?;
        Ok(Self { end: state.end, turns: state.turn.0, updated: state.updated, json })
    }
}

pub(crate) const END: &str = r#"SELECT no, "end" FROM threads WHERE tenant = ?1 AND name = ?2"#;

pub(crate) const KEYED: &str = "SELECT turn, began FROM turn_keys WHERE thread = ?1 AND name = ?2";

/// Returns a thread's number and its end.
pub(crate) fn end_of(conn: &Connection, key: &ThreadKey) -> rusqlite::Result<Option<(i64, Seq)>> {
    let found = |row: &Row<'_>| Ok((row.get(0)?, seq(row.get(1)?)));
    conn.prepare_cached(END)?.query_row([key.tenant.as_str(), key.thread.as_str()], found).optional()
}

/// Returns where the turn with an idempotency key began.
pub(crate) fn turn_with_key(
    conn: &Connection,
    key: &ThreadKey,
    name: &str,
) -> Result<Option<KeyedTurn>, Failure> {
    let (thread, _) = existing(conn, key)?;
    let found =
        |row: &Row<'_>| Ok(KeyedTurn { turn: TurnNo(from_sql(row.get(0)?)), began: seq(row.get(1)?) });
    Ok(conn.prepare_cached(KEYED)?.query_row(params![thread, name], found).optional()?)
}

pub(crate) fn existing(conn: &Connection, key: &ThreadKey) -> Result<(i64, Seq), Failure> {
    end_of(conn, key)?.ok_or_else(|| StoreError::no_thread(&key.thread).into())
}

pub(crate) const HEAD: &str = r#"SELECT t.name, s.name, t.main, t.label, t.base_thread, t.base_seq, t.created,
    t.updated, t."end", t.turns, t.owner, t.fence, t.until, t.state
    FROM threads AS t CROSS JOIN sessions AS s ON s.no = t.session WHERE t.tenant = ?1 AND t.name = ?2"#;

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

/// Reads the first ten columns of [`HEAD`] and [`THREADS`].
pub(crate) fn thread_info(row: &Row<'_>) -> rusqlite::Result<ThreadInfo> {
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
