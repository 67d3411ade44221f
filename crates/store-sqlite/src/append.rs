//! Appends.

use std::sync::Arc;

use contexture_history::Seq;
use contexture_session::search::archived_ranges;
use contexture_session::{Append, Appended, Guard, KeyedTurn, LeaseRow, StoreError, ThreadKey, Time};
use rusqlite::{Connection, params};

use crate::archive::index;
use crate::failure::{Failure, StorePath};
use crate::file::commit::{Change, Touched};
use crate::guard::{admit, find};
use crate::head::EncodedState;
use crate::numbers::to_sql;
use crate::rows::{EncodedRow, Log, encode, insert_rows};

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
