//! Appends.

use std::sync::{Arc, Mutex, PoisonError};

use contexture_history::{Item, Seq, Timestamp};
use contexture_session::codec;
use contexture_session::search::archived_ranges;
use contexture_session::{
    Append, Appended, FeedItem, KeyedTurn, LeaseRow, LogKind, LogState, StoreError, ThreadKey,
};
use rusqlite::{Connection, params};

use crate::archive::index;
use crate::config::Context;
use crate::failure::Failure;
use crate::file::commit::Change;
use crate::head::{CurrentLog, find};
use crate::numbers::{from_sql, seq, to_sql};
use crate::rows::LogRows;
use crate::waiters::NewItems;

/// Appends of more rows are left to the thread that writes.
const SMALL: usize = 4;
/// Appends of more items are not handed to waiters.
const MAX_HANDED: usize = 128;

/// An append with its rows written out, ready for the file.
#[derive(Debug)]
pub(crate) struct AppendItems {
    key: ThreadKey,
    append: Append,
    rows: Vec<codec::Row>,
    /// The ranges archived by its summaries.
    archived: Vec<(Seq, Seq)>,
    cx: Context,
    /// The session of its items and the number of the last one, once it is made; nothing if they have no numbers.
    numbered: Mutex<Option<(i64, u64)>>,
}

impl AppendItems {
    /// Checks an append and writes it out. This is the costly part, and it happens in the caller's thread.
    pub(crate) fn change(
        key: ThreadKey,
        append: Append,
        cx: Context,
    ) -> Result<Change<impl Fn(&Connection) -> Result<Appended, Failure>>, StoreError> {
        append.check(&key)?;
        let rows = codec::encode(&append.items).map_err(|err| StoreError::malformed(&key, err))?;
        let archived = archived_ranges(&append.items);
        let (is_small, is_lazy) = (rows.len() <= SMALL && archived.is_empty(), append.lazy);
        // Events never include a journal, so it has no waiters.
        let touched = Some(key.clone()).filter(|it| !it.thread.is_journal());
        let it = Arc::new(Self { key, append, rows, archived, cx, numbered: Mutex::default() });
        let is_held = is_lazy && touched.is_none();
        let done = Arc::clone(&it);
        let appended: Box<dyn Fn() -> Option<NewItems> + Send> = Box::new(move || done.new_items());
        let make = move |conn: &Connection| it.make(conn);
        Ok(Change { is_small, is_lazy, is_held, touched, appended: Some(appended), ..Change::new(make) })
    }

    /// Returns its items with their numbers, once it is made. Many items are better read page by page.
    fn new_items(&self) -> Option<NewItems> {
        let (session, last) = (*self.numbered.lock().unwrap_or_else(PoisonError::into_inner))?;
        let Append { items, expected, .. } = &self.append;
        // Without an expected end, the positions of the items were not known before.
        if expected.is_none() || items.len() > MAX_HANDED {
            return None;
        }
        let first = (last + 1).checked_sub(items.len() as u64)?;
        let numbered = (first..).zip(items).map(|(number, item)| FeedItem {
            number,
            thread: self.key.thread.clone(),
            item: item.clone(),
        });
        Some(NewItems { session, items: numbered.collect() })
    }

    /// Returns the result of this append, if it was made before.
    fn landed(
        &self,
        conn: &Connection,
        log: &CurrentLog,
        expected: Seq,
    ) -> rusqlite::Result<Option<Appended>> {
        let mut statement = conn.prepare_cached(LANDED)?;
        let mut rows = statement.query(params![log.no, to_sql(expected.0)])?;
        let (mut end, mut number) = (expected, 0);
        while let Some(row) = rows.next()? {
            let is_same = row.get_ref(3)?.as_str_or_null()? == Some(&self.append.nonce);
            if !is_same || seq(row.get(0)?) != end.next() {
                break;
            }
            let count = from_sql(row.get(1)?);
            end = end.plus(count);
            number = row.get::<_, Option<i64>>(2)?.map_or(0, |it| from_sql(it) + count - 1);
        }
        let fence = log.lease.held_fence(&self.append.guard);
        Ok((end > expected).then_some(Appended { end, fence, number }))
    }

    /// Moves the end of the log, and takes the numbers of its items: see [`take_numbers`].
    fn set_log(
        &self,
        conn: &Connection,
        log: &CurrentLog,
        lease: &LeaseRow,
    ) -> rusqlite::Result<Option<(i64, u64)>> {
        let state = self.append.state.as_ref();
        let count = self.append.items.len() as u64;
        let end = log.end.plus(count);
        let needs_writer = self.append.needs_writer().unwrap_or(log.needs_writer);
        // The row of the main thread counts the numbers of its session.
        let n_own = if log.kind == LogKind::Main { count } else { 0 };
        let values = params![
            log.no,
            to_sql(end.0),
            updated(&self.append.items, state).0,
            lease.owner.as_deref(),
            to_sql(lease.fence.0),
            lease.until.0,
            state.map(|it| to_sql(it.turns)),
            state.map(|it| &it.json),
            to_sql(n_own),
            needs_writer,
        ];
        let numbered: i64 = conn.prepare_cached(SET_LOG)?.query_row(values, |row| row.get(0))?;
        // What most appends leave as it is has a statement of its own: it has an index.
        if needs_writer && !log.is_listed {
            conn.prepare_cached(LIST)?.execute([log.no])?;
        }
        if log.kind == LogKind::Journal && log.oldest.is_none() {
            let oldest = self.append.items.first().map(|it| it.at.0);
            conn.prepare_cached(SET_OLDEST)?.execute(params![log.no, oldest])?;
        }
        match log.kind {
            LogKind::Main => Ok(Some((log.session, from_sql(numbered).saturating_sub(count)))),
            _ => take_numbers(conn, log.session, log.kind, count),
        }
    }
}

pub(crate) const LANDED: &str =
    "SELECT first, count, number, nonce FROM commits WHERE log = ?1 AND first > ?2 ORDER BY first";
pub(crate) const SET_LOG: &str = r#"UPDATE logs SET "end" = ?2, updated = max(updated, ?3), owner = ?4, fence = ?5,
    until = ?6, turns = coalesce(?7, turns), state = coalesce(?8, state), numbered = numbered + ?9, needs_writer = ?10
    WHERE no = ?1 RETURNING numbered"#;
const LIST: &str = "UPDATE logs SET is_listed = 1 WHERE no = ?1";
pub(crate) const SET_OLDEST: &str = "UPDATE logs SET oldest = ?2 WHERE no = ?1";
pub(crate) const TAKE_NUMBERS: &str =
    "UPDATE logs SET numbered = numbered + ?2 WHERE session = ?1 AND kind = 'main' RETURNING numbered";

impl AppendItems {
    fn make(&self, conn: &Connection) -> Result<Appended, Failure> {
        let log = find(conn, &self.key)?;
        let expected = self.append.expected.unwrap_or(log.end);
        if expected < log.end
            && !self.append.nonce.is_empty()
            && let Some(appended) = self.landed(conn, &log, expected)?
        {
            return Ok(appended);
        }
        let lease = log.lease.admit(&self.key, &self.append.guard, self.cx.time.now())?;
        if log.end != expected {
            return Err(StoreError::conflict(&self.key, expected, log.end).into());
        }
        let numbered = self.set_log(conn, &log, &lease)?;
        let count = self.append.items.len() as u64;
        let end = log.end.plus(count);
        let rows = LogRows { conn, place: &self.cx.place, key: &self.key, log: log.no, end };
        rows.insert(log.end, numbered, &self.append.nonce, &self.rows)?;
        insert_keys(conn, log.no, &self.append.keys)?;
        index(&rows, &self.archived)?;
        let number = numbered.map_or(0, |(_, last)| last + count);
        let numbered = numbered.map(|(session, _)| (session, number));
        *self.numbered.lock().unwrap_or_else(PoisonError::into_inner) = numbered;
        Ok(Appended { end, fence: self.append.guard.fence(lease.fence), number })
    }
}

/// Returns the time of the last of the items, or of the state after them.
pub(crate) fn updated(items: &[Item], state: Option<&LogState>) -> Timestamp {
    let last = items.last().map(|it| it.at);
    last.max(state.map(|it| it.updated)).unwrap_or_default()
}

/// Takes the next numbers of a session for the items of a log. Returns the session and its last number before them;
/// nothing for a log whose items have no numbers.
pub(crate) fn take_numbers(
    conn: &Connection,
    session: i64,
    kind: LogKind,
    count: u64,
) -> rusqlite::Result<Option<(i64, u64)>> {
    if !kind.is_numbered() {
        return Ok(None);
    }
    let mut statement = conn.prepare_cached(TAKE_NUMBERS)?;
    let last = statement.query_row(params![session, to_sql(count)], |row| row.get(0).map(from_sql))?;
    Ok(Some((session, last.saturating_sub(count))))
}

pub(crate) fn insert_keys(conn: &Connection, log: i64, keys: &[(String, KeyedTurn)]) -> rusqlite::Result<()> {
    let sql = "INSERT INTO turn_keys (log, name, turn, began) VALUES (?1, ?2, ?3, ?4)
               ON CONFLICT DO UPDATE SET turn = excluded.turn, began = excluded.began";
    for (name, KeyedTurn { turn, began }) in keys {
        conn.prepare_cached(sql)?.execute(params![log, name, to_sql(turn.0), to_sql(began.0)])?;
    }
    Ok(())
}
