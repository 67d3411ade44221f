//! New sessions and threads.

use contexture_session::{NewSession, NewThread, State, StoreError};
use rusqlite::{Connection, OptionalExtension as _, params};

use crate::failure::Failure;
use crate::file::commit::Change;
use crate::head::{EncodedState, end_of};
use crate::numbers::to_sql;

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

/// Returns the session's number, if it exists and has no such thread.
pub(crate) fn place_for(conn: &Connection, thread: &NewThread) -> Result<i64, Failure> {
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

pub(crate) fn insert_thread(
    conn: &Connection,
    session: i64,
    main: bool,
    thread: &NewThread,
) -> Result<i64, Failure> {
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
