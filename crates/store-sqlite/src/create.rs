//! New sessions and logs.

use contexture_history::Seq;
use contexture_session::{LogKind, NewLog, StoreError, codec};
use rusqlite::{Connection, OptionalExtension as _, params};

use crate::append::{SET_OLDEST, take_numbers, updated};
use crate::archive::index;
use crate::failure::{Failure, StorePath};
use crate::file::commit::Change;
use crate::head::find_opt;
use crate::logs::log_with_start_key;
use crate::numbers::to_sql;
use crate::rows::LogRows;

/// Returns the change that creates a log with its first items, which are written out here.
pub(crate) fn create_log(
    log: NewLog,
    place: StorePath,
) -> Result<Change<impl Fn(&Connection) -> Result<(), Failure>>, StoreError> {
    log.check()?;
    let key = log.key();
    let rows = codec::encode(&log.items).map_err(|err| StoreError::malformed(&key, err))?;
    let main = log.session.main();
    let make = move |conn: &Connection| {
        let session = place_for(conn, &log)?;
        let no = insert_log(conn, session, &log)?;
        let new = LogRows { conn, place: &place, key: &key, log: no, end: log.state.end };
        if let Some(first) = log.items.first() {
            let numbered = take_numbers(conn, session, log.kind, log.items.len() as u64)?;
            new.insert(Seq(0), numbered, "", &rows)?;
            if log.kind == LogKind::Journal {
                conn.prepare_cached(SET_OLDEST)?.execute(params![no, first.at.0])?;
            }
        }
        index(&new, &log.archived)
    };
    Ok(Change { touched: Some(main), ..Change::new(make) })
}

/// Returns the number of the session in which the log can be created. That of a main thread is created here.
pub(crate) fn place_for(conn: &Connection, log: &NewLog) -> Result<i64, Failure> {
    let (key, session) = (log.key(), log.session.session.as_str());
    let no = find_session(conn, key.tenant.as_str(), session)?;
    let has_start_key = |it: &String| log_with_start_key(conn, &key.tenant, it).map(|it| it.is_some());
    let is_taken = log.kind == LogKind::Main && no.is_some()
        // An isolated thread of another session may have taken the name of a main thread.
        || find_opt(conn, &key)?.is_some()
        || log.start_key.as_ref().map_or(Ok(false), has_start_key)?;
    if is_taken {
        return Err(log.exists().into());
    }
    match log.kind {
        LogKind::Main => {
            let sql = "INSERT INTO sessions (tenant, name, label, created) VALUES (?1, ?2, ?3, ?4)";
            let values = params![key.tenant.as_str(), session, log.label, log.at.0];
            Ok(conn.prepare_cached(sql)?.insert(values)?)
        }
        _ => no.ok_or_else(|| StoreError::no_session(&log.session.session).into()),
    }
}

pub(crate) const FIND_SESSION: &str = "SELECT no FROM sessions WHERE tenant = ?1 AND name = ?2";

pub(crate) fn find_session(conn: &Connection, tenant: &str, name: &str) -> rusqlite::Result<Option<i64>> {
    conn.prepare_cached(FIND_SESSION)?.query_row([tenant, name], |row| row.get(0)).optional()
}

pub(crate) fn insert_log(conn: &Connection, session: i64, log: &NewLog) -> rusqlite::Result<i64> {
    let sql = r#"INSERT INTO logs (session, tenant, name, kind, label, base_thread, base_seq, start_key, created, updated,
                 "end", turns, needs_writer, is_listed, state)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?13, ?14)"#;
    conn.prepare_cached(sql)?.insert(params![
        session,
        log.session.tenant.as_str(),
        log.thread.as_str(),
        log.kind.as_str(),
        log.label,
        log.base.as_ref().map(|it| it.thread.as_str()),
        log.base.as_ref().map(|it| to_sql(it.seq.0)),
        log.start_key,
        log.at.0,
        log.at.max(updated(&log.items, Some(&log.state))).0,
        to_sql(log.state.end.0),
        to_sql(log.state.turns),
        log.state.needs_writer,
        log.state.json,
    ])
}
