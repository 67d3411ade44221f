//! Makes whole threads of the rows that were saved.

use contexture_history::{Item, Seq};
use contexture_session::search::ranges_of;
use contexture_session::{Append, KeyedTurn, State, Tenant, ThreadId, ThreadKey};
use rusqlite::{Connection, Row, params};

use super::Recovered;
use crate::append::insert_keys;
use crate::archive::index;
use crate::blobs::copy_blob_uses;
use crate::failure::{Failure, StorePath};
use crate::head::EncodedState;
use crate::numbers::{seq, to_sql};
use crate::rows::Log;

/// A thread as described by its row.
struct Thread {
    no: i64,
    key: ThreadKey,
    end: Seq,
    /// The last item that came from another thread.
    base: Seq,
}

/// The readable part of a thread's log.
#[derive(Default)]
struct Salvage {
    state: State,
    keys: Vec<(String, KeyedTurn)>,
    /// Why the log ends early, if it does.
    trouble: Option<String>,
}

pub(super) fn rebuild(
    conn: &Connection,
    place: &StorePath,
    recovered: &mut Recovered,
) -> Result<(), Failure> {
    restore_missing_names(conn, &mut recovered.lost)?;
    for thread in threads(conn)? {
        rebuild_thread(conn, place, &thread, recovered)?;
    }
    conn.execute("DELETE FROM blobs WHERE no NOT IN (SELECT blob FROM blob_uses)", [])?;
    let sums = r#"SELECT (SELECT count(*) FROM sessions), count(*), coalesce(sum("end"), 0) FROM threads"#;
    let sums = conn.query_row(sums, [], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
    let (sessions, threads, items): (i64, i64, i64) = sums;
    recovered.sessions = sessions.unsigned_abs();
    recovered.threads = threads.unsigned_abs();
    recovered.items = items.unsigned_abs();
    Ok(())
}

/// Gives commits without a thread, threads without a session and sessions without a main thread what they miss.
fn restore_missing_names(conn: &Connection, lost: &mut Vec<String>) -> rusqlite::Result<()> {
    let nameless =
        numbers(conn, "SELECT DISTINCT thread FROM commits WHERE thread NOT IN (SELECT no FROM threads)")?;
    for no in nameless {
        let name = format!("recovered-{no}");
        lost.push(format!("the name of a thread; it is called `{name}` now, in a session of that name"));
        let sql = r#"INSERT OR IGNORE INTO threads (no, session, tenant, name, main, created, updated, "end", turns, state)
                     VALUES (?1, coalesce((SELECT no FROM sessions WHERE tenant = ?2 AND name = ?3), -?1), ?2, ?3, 1,
                     0, 0, 0, 0, '{}')"#;
        conn.execute(sql, params![no, Tenant::default().as_str(), name])?;
    }
    adopt_threads(conn, lost)?;
    add_main_threads(conn, lost)
}

fn adopt_threads(conn: &Connection, lost: &mut Vec<String>) -> rusqlite::Result<()> {
    let orphans =
        numbers(conn, "SELECT DISTINCT session FROM threads WHERE session NOT IN (SELECT no FROM sessions)")?;
    for no in orphans {
        // The main thread has the name of the session.
        let sql = "INSERT OR IGNORE INTO sessions (no, tenant, name, created)
                   SELECT session, tenant, iif(main, name, 'recovered-session-' || abs(session)), created
                   FROM threads WHERE session = ?1 ORDER BY main DESC LIMIT 1";
        conn.execute(sql, [no])?;
        lost.push(format!("the entry of session number {no}; its threads are kept"));
    }
    Ok(())
}

fn add_main_threads(conn: &Connection, lost: &mut Vec<String>) -> rusqlite::Result<()> {
    let headless =
        numbers(conn, "SELECT no FROM sessions WHERE no NOT IN (SELECT session FROM threads WHERE main)")?;
    for no in headless {
        let sql = r#"INSERT OR IGNORE INTO threads (session, tenant, name, main, created, updated, "end", turns, state)
                     SELECT no, tenant, name, 1, created, created, 0, 0, '{}' FROM sessions WHERE no = ?1"#;
        conn.execute(sql, [no])?;
        lost.push(format!("the main thread of session number {no}"));
    }
    Ok(())
}

fn numbers(conn: &Connection, sql: &str) -> rusqlite::Result<Vec<i64>> {
    conn.prepare(sql)?.query_map([], |row| row.get(0))?.collect()
}

fn threads(conn: &Connection) -> rusqlite::Result<Vec<Thread>> {
    let invalid = |err| rusqlite::Error::ToSqlConversionFailure(Box::new(err));
    let thread = |row: &Row<'_>| {
        let tenant = Tenant::parse(row.get::<_, String>(1)?).map_err(invalid)?;
        let thread = ThreadId::parse(row.get::<_, String>(2)?).map_err(invalid)?;
        let base = row.get::<_, Option<i64>>(4)?.map_or(Seq(0), seq);
        Ok(Thread { no: row.get(0)?, key: ThreadKey { tenant, thread }, end: seq(row.get(3)?), base })
    };
    let sql = r#"SELECT no, tenant, name, "end", base_seq FROM threads ORDER BY no"#;
    conn.prepare(sql)?.query_map([], thread)?.collect()
}

fn rebuild_thread(
    conn: &Connection,
    place: &StorePath,
    thread: &Thread,
    recovered: &mut Recovered,
) -> Result<(), Failure> {
    let salvage = salvage(conn, place, thread)?;
    let end = salvage.state.end;
    let beyond = conn.query_row(
        "SELECT coalesce(max(first + count - 1), 0) FROM commits WHERE thread = ?1",
        [thread.no],
        |row| row.get(0).map(seq),
    )?;
    let was = thread.end.max(beyond);
    if was > end {
        let why = salvage.trouble.as_deref().unwrap_or("it is missing");
        let (first, name) = (end.next(), &thread.key.thread);
        recovered.lost.push(format!("thread `{name}`: items {first} to {was}; item {first}: {why}"));
    }
    conn.execute("DELETE FROM commits WHERE thread = ?1 AND first > ?2", params![thread.no, to_sql(end.0)])?;
    insert_keys(conn, thread.no, &salvage.keys)?;
    copy_blob_uses(conn, thread.key.tenant.as_str(), thread.no)?;
    let log = Log { conn, place, key: &thread.key, thread: thread.no, end };
    index(&log, &ranges_of(&salvage.state.archives))?;
    set_state(conn, place, thread, &salvage.state)
}

/// Reads a thread's rows as long as they follow each other and can be decoded.
fn salvage(conn: &Connection, place: &StorePath, thread: &Thread) -> Result<Salvage, Failure> {
    let sql = "SELECT first, count, blobs, body FROM commits WHERE thread = ?1 ORDER BY first";
    let mut statement = conn.prepare_cached(sql)?;
    let mut rows = statement.query([thread.no])?;
    let log = Log { conn, place, key: &thread.key, thread: thread.no, end: thread.end };
    let mut salvage = Salvage::default();
    while let Some(row) = rows.next()? {
        match log.decode_row(row) {
            Ok(items) if follows(salvage.state.end, &items) => salvage.take(&items, thread.base),
            Ok(_) => break,
            Err(err) => {
                salvage.trouble = Some(err.to_string());
                break;
            }
        }
    }
    Ok(salvage)
}

fn follows(end: Seq, items: &[Item]) -> bool {
    items.first().is_some_and(|it| it.seq == end.next())
}

impl Salvage {
    fn take(&mut self, items: &[Item], base: Seq) {
        items.iter().for_each(|it| self.state.apply(it));
        // The keys of copied turns belong to the thread that they were copied from.
        self.keys.extend(Append::keys_of(items).into_iter().filter(|(_, it)| it.began > base));
    }
}

fn set_state(conn: &Connection, place: &StorePath, thread: &Thread, state: &State) -> Result<(), Failure> {
    let state = EncodedState::new(state).map_err(|err| place.damaged(err))?;
    let sql =
        r#"UPDATE threads SET "end" = ?2, turns = ?3, updated = max(updated, ?4), state = ?5 WHERE no = ?1"#;
    let values = params![thread.no, to_sql(state.end.0), to_sql(state.turns), state.updated.0, state.json];
    conn.execute(sql, values)?;
    Ok(())
}
