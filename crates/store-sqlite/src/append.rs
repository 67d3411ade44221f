//! Appends, and the leases that guard them.

use std::sync::Arc;

use contexture_history::{Seq, Timestamp};
use contexture_session::codec::{self, Blob, BlobRef};
use contexture_session::search::archived_ranges;
use contexture_session::{
    Append, Appended, Fence, Guard, KeyedTurn, LeaseRefusal, LeaseRow, StoreError, ThreadKey, Time,
};
use rusqlite::{Connection, OptionalExtension as _, params};

use crate::commit::{Change, Touched};
use crate::failure::{Failure, StorePath};
use crate::numbers::{from_sql, seq, to_sql};
use crate::read::Log;
use crate::search::index;

/// Appends of more rows are left to the thread that writes.
const SMALL: usize = 4;

/// An append with its rows written out, ready for the file.
#[derive(Debug)]
pub(crate) struct AppendItems {
    key: ThreadKey,
    expected: Seq,
    guard: Guard,
    keys: Vec<(String, KeyedTurn)>,
    rows: Vec<EncodedRow>,
    state: EncodedState,
    /// The ranges archived by its summaries.
    archived: Vec<(Seq, Seq)>,
    time: Arc<dyn Time>,
    place: StorePath,
}

/// A row as stored.
#[derive(Debug)]
pub(crate) struct EncodedRow {
    row: codec::Row,
    /// The references of its blobs, as JSON.
    places: Option<String>,
}

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

/// Writes items out as rows.
pub(crate) fn encode(items: &[contexture_history::Item]) -> serde_json::Result<Vec<EncodedRow>> {
    let encoded = |row: codec::Row| {
        let places: Vec<&BlobRef> = row.blobs.iter().map(|it| &it.place).collect();
        let places = if places.is_empty() { None } else { Some(serde_json::to_string(&places)?) };
        Ok(EncodedRow { places, row })
    };
    codec::encode(items)?.into_iter().map(encoded).collect()
}

impl AppendItems {
    /// Checks an append and writes it out. This is the costly part, and it happens in the caller's thread.
    pub(crate) fn new(
        key: ThreadKey,
        append: Append,
        time: Arc<dyn Time>,
        place: StorePath,
    ) -> Result<Self, StoreError> {
        append.check(&key)?;
        let malformed = |err: serde_json::Error| StoreError::Malformed {
            thread: key.thread.to_string(),
            detail: err.to_string(),
        };
        let rows = encode(&append.items).map_err(malformed)?;
        let state = EncodedState::new(&append.state).map_err(malformed)?;
        let archived = archived_ranges(&append.items);
        let Append { expected, guard, keys, .. } = append;
        Ok(Self { key, expected, guard, keys, rows, state, archived, time, place })
    }
}

impl Change for AppendItems {
    type Output = Appended;

    fn make(&self, conn: &Connection) -> Result<Appended, Failure> {
        let thread = find(conn, &self.key)?;
        let lease = admit(&self.key, &thread.lease, &self.guard, self.time.now())?;
        if thread.end != self.expected {
            let (expected, found) = (self.expected, thread.end);
            return Err(StoreError::Conflict { thread: self.key.thread.to_string(), expected, found }.into());
        }
        set_state(conn, thread.no, &self.state, &lease)?;
        insert_rows(conn, &self.key, thread.no, &self.rows)?;
        insert_keys(conn, thread.no, &self.keys)?;
        let end = self.state.end;
        index(&Log { conn, place: &self.place, key: &self.key, thread: thread.no, end }, &self.archived)?;
        Ok(Appended { end: self.state.end, fence: lease.fence_of(&self.guard) })
    }

    fn is_small(&self) -> bool {
        self.rows.len() <= SMALL && self.archived.is_empty()
    }

    fn touched(&self) -> Touched<'_> {
        Touched::Thread(&self.key)
    }
}

/// A change of a lease alone.
#[derive(Debug)]
pub(crate) struct ChangeLease {
    pub(crate) key: ThreadKey,
    pub(crate) guard: Guard,
    pub(crate) time: Arc<dyn Time>,
}

impl Change for ChangeLease {
    type Output = Option<Fence>;

    fn is_small(&self) -> bool {
        true
    }

    fn make(&self, conn: &Connection) -> Result<Option<Fence>, Failure> {
        let thread = find(conn, &self.key)?;
        let lease = admit(&self.key, &thread.lease, &self.guard, self.time.now())?;
        if lease != thread.lease {
            let sql = "UPDATE threads SET owner = ?2, fence = ?3, until = ?4 WHERE no = ?1";
            let values = params![thread.no, lease.owner.as_deref(), to_sql(lease.fence.0), lease.until.0];
            conn.prepare_cached(sql)?.execute(values)?;
        }
        Ok(lease.fence_of(&self.guard))
    }
}

/// A thread as a writer finds it.
struct CurrentThread {
    no: i64,
    end: Seq,
    lease: LeaseRow,
}

pub(crate) const FIND_THREAD: &str =
    r#"SELECT no, "end", owner, fence, until FROM threads WHERE tenant = ?1 AND name = ?2"#;

fn find(conn: &Connection, key: &ThreadKey) -> Result<CurrentThread, Failure> {
    let found = |row: &rusqlite::Row<'_>| {
        let owner: Option<Arc<str>> = row.get(2)?;
        let lease = LeaseRow { owner, fence: Fence(from_sql(row.get(3)?)), until: Timestamp(row.get(4)?) };
        Ok(CurrentThread { no: row.get(0)?, end: seq(row.get(1)?), lease })
    };
    let mut statement = conn.prepare_cached(FIND_THREAD)?;
    let thread = statement.query_row([key.tenant.as_str(), key.thread.as_str()], found).optional()?;
    thread.ok_or_else(|| StoreError::no_thread(&key.thread).into())
}

fn admit(key: &ThreadKey, lease: &LeaseRow, guard: &Guard, now: Timestamp) -> Result<LeaseRow, StoreError> {
    lease.admit(guard, now).map_err(|refused| {
        let thread = key.thread.to_string();
        match refused {
            LeaseRefusal::Held => StoreError::Held { thread },
            LeaseRefusal::Fenced(fence) => StoreError::Fenced { thread, fence },
        }
    })
}

fn set_state(conn: &Connection, thread: i64, state: &EncodedState, lease: &LeaseRow) -> rusqlite::Result<()> {
    let sql = r#"UPDATE threads SET "end" = ?2, turns = ?3, updated = max(updated, ?4), owner = ?5, fence = ?6,
                 until = ?7, state = ?8 WHERE no = ?1"#;
    conn.prepare_cached(sql)?.execute(params![
        thread,
        to_sql(state.end.0),
        to_sql(state.turns),
        state.updated.0,
        lease.owner.as_deref(),
        to_sql(lease.fence.0),
        lease.until.0,
        state.json,
    ])?;
    Ok(())
}

/// Adds commits to a thread, with their blobs.
pub(crate) fn insert_rows(
    conn: &Connection,
    key: &ThreadKey,
    thread: i64,
    rows: &[EncodedRow],
) -> rusqlite::Result<()> {
    let sql = "INSERT INTO commits (thread, first, count, blobs, body) VALUES (?1, ?2, ?3, ?4, ?5)";
    let mut insert = conn.prepare_cached(sql)?;
    for EncodedRow { row, places } in rows {
        insert.execute(params![thread, to_sql(row.first.0), row.count, places, row.body])?;
        row.blobs.iter().try_for_each(|it| insert_blob(conn, key, thread, it))?;
    }
    Ok(())
}

fn insert_blob(conn: &Connection, key: &ThreadKey, thread: i64, blob: &Blob) -> rusqlite::Result<()> {
    let (tenant, hash) = (key.tenant.as_str(), blob.place.hash.as_str());
    let sql = "INSERT INTO blobs (tenant, hash, bytes, body) VALUES (?1, ?2, ?3, ?4) ON CONFLICT DO NOTHING";
    conn.prepare_cached(sql)?.execute(params![tenant, hash, to_sql(blob.text.len() as u64), blob.text])?;
    let sql = "INSERT INTO blob_uses (thread, blob)
               SELECT ?1, no FROM blobs WHERE tenant = ?2 AND hash = ?3 ON CONFLICT DO NOTHING";
    conn.prepare_cached(sql)?.execute(params![thread, tenant, hash])?;
    Ok(())
}

pub(crate) fn insert_keys(
    conn: &Connection,
    thread: i64,
    keys: &[(String, KeyedTurn)],
) -> rusqlite::Result<()> {
    let sql = "INSERT INTO turn_keys (thread, name, turn, began) VALUES (?1, ?2, ?3, ?4)
               ON CONFLICT DO UPDATE SET turn = excluded.turn, began = excluded.began";
    for (name, KeyedTurn { turn, began }) in keys {
        conn.prepare_cached(sql)?.execute(params![thread, name, to_sql(turn.0), to_sql(began.0)])?;
    }
    Ok(())
}
