//! New sessions and threads.

use contexture_history::Item;
use contexture_session::search::ranges_of;
use contexture_session::{NewSession, NewThread, State, StoreError, ThreadKey};
use rusqlite::{Connection, OptionalExtension as _, params};

use crate::append::{EncodedState, encode, insert_rows};
use crate::commit::Change;
use crate::failure::{Failure, StorePath};
use crate::numbers::to_sql;
use crate::read::{Log, end_of};
use crate::search::index;

impl Change for NewSession {
    type Output = ();

    fn make(&self, conn: &Connection) -> Result<(), Failure> {
        let (key, main) = (&self.key, self.key.main());
        // An isolated thread of another session may have taken the name.
        let is_taken = find_session(conn, key.tenant.as_str(), key.session.as_str())?.is_some()
            || end_of(conn, &main)?.is_some();
        if is_taken {
            return Err(StoreError::Exists { what: "session", id: key.session.to_string() }.into());
        }
        let sql = "INSERT INTO sessions (tenant, name, label, created) VALUES (?1, ?2, ?3, ?4)";
        let values = params![key.tenant.as_str(), key.session.as_str(), self.label, self.at.0];
        let session = conn.prepare_cached(sql)?.insert(values)?;
        let thread = NewThread {
            session: key.clone(),
            thread: main.thread,
            label: self.label.clone(),
            base: None,
            at: self.at,
            state: State::default(),
        };
        insert_thread(conn, session, true, &thread)?;
        Ok(())
    }
}

impl Change for NewThread {
    type Output = ();

    fn make(&self, conn: &Connection) -> Result<(), Failure> {
        let session = place_for(conn, self)?;
        insert_thread(conn, session, false, self)?;
        Ok(())
    }
}

/// A thread that starts with the items of another.
#[derive(Debug)]
pub(crate) struct ForkThread {
    pub(crate) from: ThreadKey,
    pub(crate) thread: NewThread,
    pub(crate) place: StorePath,
}

impl Change for ForkThread {
    type Output = ();

    fn make(&self, conn: &Connection) -> Result<(), Failure> {
        let (from, thread) = (&self.from, &self.thread);
        let no_thread = || StoreError::no_thread(&from.thread);
        let (source, source_end) = end_of(conn, from)?.ok_or_else(no_thread)?;
        if from.tenant != thread.session.tenant {
            return Err(no_thread().into());
        }
        let session = place_for(conn, thread)?;
        let end = thread.state.end;
        if end > source_end {
            let detail = format!("it copies up to {end}, thread `{}` ends at {source_end}", from.thread);
            return Err(StoreError::Malformed { thread: thread.thread.to_string(), detail }.into());
        }
        let log = Log { conn, place: &self.place, key: from, thread: source, end };
        let cut = cut_items(&log)?;
        let cut = encode(&cut).map_err(|err| self.place.damaged(err))?;
        let target = insert_thread(conn, session, false, thread)?;
        copy_rows(conn, source, target, to_sql(end.0))?;
        insert_rows(conn, &thread.key(), target, &cut)?;
        copy_blob_uses(conn, thread.session.tenant.as_str(), target)?;
        let log = Log { conn, place: &self.place, key: &thread.key(), thread: target, end };
        index(&log, &ranges_of(&thread.state.archives))?;
        Ok(())
    }
}

/// Returns the session's number, if it exists and has no such thread.
fn place_for(conn: &Connection, thread: &NewThread) -> Result<i64, Failure> {
    let key = thread.key();
    let session = thread.session.session.as_str();
    let Some(no) = find_session(conn, key.tenant.as_str(), session)? else {
        return Err(StoreError::NotFound { what: "session", id: session.to_owned() }.into());
    };
    if end_of(conn, &key)?.is_some() {
        return Err(StoreError::Exists { what: "thread", id: key.thread.to_string() }.into());
    }
    Ok(no)
}

pub(crate) const FIND_SESSION: &str = "SELECT no FROM sessions WHERE tenant = ?1 AND name = ?2";

pub(crate) fn find_session(conn: &Connection, tenant: &str, name: &str) -> rusqlite::Result<Option<i64>> {
    conn.prepare_cached(FIND_SESSION)?.query_row([tenant, name], |row| row.get(0)).optional()
}

fn insert_thread(conn: &Connection, session: i64, main: bool, thread: &NewThread) -> Result<i64, Failure> {
    let state = EncodedState::new(&thread.state).map_err(|err| StoreError::Malformed {
        thread: thread.thread.to_string(),
        detail: err.to_string(),
    })?;
    let sql = r#"INSERT INTO threads (session, tenant, name, main, label, base_thread, base_seq, created, updated,
                 "end", turns, state) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)"#;
    let no = conn.prepare_cached(sql)?.insert(params![
        session,
        thread.session.tenant.as_str(),
        thread.thread.as_str(),
        main,
        thread.label,
        thread.base.as_ref().map(|it| it.thread.as_str()),
        thread.base.as_ref().map(|it| to_sql(it.seq.0)),
        thread.at.0,
        thread.at.0.max(state.updated.0),
        to_sql(state.end.0),
        to_sql(state.turns),
        state.json,
    ])?;
    Ok(no)
}

/// Returns the items before the end of a row that goes beyond it; no items if a row ends right there.
fn cut_items(log: &Log<'_>) -> Result<Vec<Item>, Failure> {
    let sql = "SELECT first, count, blobs, body FROM commits
               WHERE thread = ?1 AND first <= ?2 ORDER BY first DESC LIMIT 1";
    let mut statement = log.conn.prepare_cached(sql)?;
    let mut rows = statement.query(params![log.thread, to_sql(log.end.0)])?;
    let Some(row) = rows.next()? else { return Ok(Vec::new()) };
    let mut items = log.decode(row)?;
    if items.last().is_none_or(|it| it.seq <= log.end) {
        return Ok(Vec::new());
    }
    items.retain(|it| it.seq <= log.end);
    Ok(items)
}

fn copy_rows(conn: &Connection, source: i64, target: i64, end: i64) -> rusqlite::Result<()> {
    let sql = "INSERT INTO commits (thread, first, count, blobs, body)
               SELECT ?2, first, count, blobs, body FROM commits
               WHERE thread = ?1 AND first <= ?3 AND first + count - 1 <= ?3 ORDER BY first";
    conn.prepare_cached(sql)?.execute(params![source, target, end])?;
    Ok(())
}

/// Notes the blobs of the rows that were copied.
pub(crate) fn copy_blob_uses(conn: &Connection, tenant: &str, thread: i64) -> rusqlite::Result<()> {
    let sql = "INSERT INTO blob_uses (thread, blob)
               SELECT DISTINCT ?1, blobs.no FROM commits
               CROSS JOIN json_each(commits.blobs) AS places
               CROSS JOIN blobs ON blobs.tenant = ?2 AND blobs.hash = places.value ->> 'hash'
               WHERE commits.thread = ?1 AND commits.blobs IS NOT NULL
               ON CONFLICT DO NOTHING";
    conn.prepare_cached(sql)?.execute(params![thread, tenant])?;
    Ok(())
}
