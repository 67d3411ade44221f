//! Makes whole logs of the rows that were saved.

use contexture_history::Seq;
use contexture_session::search::ranges_of;
use contexture_session::{Append, KeyedTurn, LogKind, LogState, State, ThreadKey};
use rusqlite::{Connection, Row, params};

use super::Recovered;
use crate::append::insert_keys;
use crate::archive::index;
use crate::blobs::copy_blob_uses;
use crate::due::key;
use crate::failure::{Failure, StorePath};
use crate::head::kind;
use crate::numbers::{from_sql, seq, to_sql};
use crate::rows::LogRows;

/// A log as described by its row.
struct DamagedLog {
    no: i64,
    key: ThreadKey,
    kind: LogKind,
    /// Its end, or that of its last row.
    end: Seq,
    /// The last item that came from another thread.
    base: Seq,
}

/// The readable part of a log.
#[derive(Default)]
struct Salvage {
    state: State,
    keys: Vec<(String, KeyedTurn)>,
    /// Why the log ends early, if it does.
    trouble: Option<String>,
}

/// What belongs to a session or a log that could not be recovered is removed, as if that had been deleted.
const REMOVE_ORPHANS: &str = "DELETE FROM documents WHERE session <> '' AND NOT EXISTS
    (SELECT 1 FROM sessions WHERE tenant = documents.tenant AND name = documents.session)";
const TIDY: [&str; 4] = [
    "UPDATE logs SET owner = NULL, is_listed = needs_writer",
    "DELETE FROM unfinished WHERE log NOT IN (SELECT no FROM logs)",
    "UPDATE unfinished SET session = (SELECT session FROM logs WHERE no = unfinished.log)",
    "DELETE FROM blobs WHERE no NOT IN (SELECT blob FROM blob_uses)",
];
/// Rows keep their numbers; those that lost theirs with their session get the next ones of the session they are in now.
const NUMBER: [&str; 4] = [
    "UPDATE commits SET session = NULL, number = NULL
     WHERE session IS NOT NULL AND session <> (SELECT session FROM logs WHERE no = commits.log)",
    NUMBERED,
    "UPDATE commits SET session = n.session, number = n.number FROM (
         SELECT c.no, l.session, sum(c.count) OVER (PARTITION BY l.session ORDER BY c.no) - c.count + 1
             + (SELECT numbered FROM logs WHERE session = l.session AND kind = 'main') AS number
         FROM commits AS c JOIN logs AS l ON l.no = c.log
         WHERE c.number IS NULL AND l.kind <> 'journal' AND c.first + c.count - 1 > coalesce(l.base_seq, 0)
     ) AS n WHERE commits.no = n.no",
    NUMBERED,
];
const NUMBERED: &str =
    "UPDATE logs SET numbered = max(numbered, coalesce((SELECT max(number + count - 1) FROM commits
    WHERE session = logs.session AND number IS NOT NULL), 0)) WHERE kind = 'main'";

pub(super) fn rebuild(
    conn: &Connection,
    place: &StorePath,
    recovered: &mut Recovered,
) -> Result<(), Failure> {
    restore_missing(conn, &mut recovered.lost)?;
    for log in logs(conn)? {
        let rows = LogRows { conn, place, key: &log.key, log: log.no, end: log.end };
        recovered.lost.extend(match log.kind {
            LogKind::Journal => rebuild_journal(&rows)?,
            _ => rebuild_log(&rows, &log)?,
        });
        copy_blob_uses(conn, log.key.tenant.as_str(), log.no)?;
    }
    for sql in TIDY.iter().chain(&NUMBER) {
        conn.execute(sql, [])?;
    }
    let orphans = conn.execute(REMOVE_ORPHANS, [])?;
    if orphans > 0 {
        recovered.lost.push(format!("{orphans} documents whose session is lost"));
    }
    let sums = r#"SELECT (SELECT count(*) FROM sessions), count(*), coalesce(sum("end"), 0) FROM logs
                  WHERE kind IN ('main', 'isolated')"#;
    let sum = |row: &Row<'_>, column| row.get(column).map(from_sql);
    (recovered.sessions, recovered.threads, recovered.items) =
        conn.query_row(sums, [], |row| Ok((sum(row, 0)?, sum(row, 1)?, sum(row, 2)?)))?;
    Ok(())
}

/// What commits without a log, logs without a session and sessions without a main thread miss: how it is found and
/// added, and what is told about it. The main thread has the name of the session.
const MISSING: [[&str; 3]; 3] = [
    [
        "SELECT DISTINCT log FROM commits WHERE log NOT IN (SELECT no FROM logs)",
        r#"INSERT OR IGNORE INTO logs (no, session, tenant, name, kind, created, updated, "end", turns, state)
           VALUES (?1, coalesce((SELECT no FROM sessions WHERE tenant = 'default' AND name = 'recovered-' || ?1), -?1),
           'default', 'recovered-' || ?1, 'main', 0, 0, 0, 0, '{}')"#,
        "the name of a thread; it is called `recovered-{no}` now, in a session of that name",
    ],
    [
        "SELECT DISTINCT session FROM logs WHERE session NOT IN (SELECT no FROM sessions)",
        "INSERT OR IGNORE INTO sessions (no, tenant, name, created)
           SELECT session, tenant, iif(kind = 'main', name, 'recovered-session-' || abs(session)), created
           FROM logs WHERE session = ?1 ORDER BY kind = 'main' DESC LIMIT 1",
        "the entry of session number {no}; its threads are kept",
    ],
    [
        "SELECT no FROM sessions WHERE no NOT IN (SELECT session FROM logs WHERE kind = 'main')",
        r#"INSERT OR IGNORE INTO logs (session, tenant, name, kind, created, updated, "end", turns, state)
           SELECT no, tenant, name, 'main', created, created, 0, 0, '{}' FROM sessions WHERE no = ?1"#,
        "the main thread of session number {no}",
    ],
];

fn restore_missing(conn: &Connection, lost: &mut Vec<String>) -> rusqlite::Result<()> {
    for [find, add, told] in MISSING {
        let missing: Vec<i64> =
            conn.prepare(find)?.query_map([], |row| row.get(0))?.collect::<Result<_, _>>()?;
        for no in missing {
            conn.execute(add, [no])?;
            lost.push(told.replace("{no}", &no.to_string()));
        }
    }
    Ok(())
}

fn logs(conn: &Connection) -> rusqlite::Result<Vec<DamagedLog>> {
    let log = |row: &Row<'_>| {
        let base = row.get::<_, Option<i64>>(4)?.map_or(Seq(0), seq);
        Ok(DamagedLog { key: key(row)?, no: row.get(2)?, end: seq(row.get(3)?), base, kind: kind(row, 5)? })
    };
    let sql = r#"SELECT tenant, name, no, max("end", coalesce((SELECT max(first + count - 1) FROM commits WHERE log = logs.no), 0)),
                 base_seq, kind FROM logs ORDER BY no"#;
    conn.prepare(sql)?.query_map([], log)?.collect()
}

/// Keeps a log up to its first gap. Returns what is lost.
fn rebuild_log(rows: &LogRows<'_>, log: &DamagedLog) -> Result<Option<String>, Failure> {
    let (conn, was) = (rows.conn, rows.end);
    let salvage = salvage(rows, log.base)?;
    let end = salvage.state.end;
    let why = salvage.trouble.as_deref().unwrap_or("it is missing");
    let (first, name) = (end.next(), &log.key.thread);
    let lost = || format!("thread `{name}`: items {first} to {was}; item {first}: {why}");
    let lost = (was > end).then(lost);
    conn.execute("DELETE FROM commits WHERE log = ?1 AND first > ?2", params![log.no, to_sql(end.0)])?;
    conn.execute(r#"UPDATE logs SET "end" = ?2 WHERE no = ?1"#, params![log.no, to_sql(end.0)])?;
    // The state of a run is its driver's: only what was saved of it is known.
    if log.kind.is_thread() {
        insert_keys(conn, log.no, &salvage.keys)?;
        index(&LogRows { end, ..*rows }, &ranges_of(&salvage.state.archives))?;
        set_state(conn, log, &LogState::from(&salvage.state))?;
    }
    Ok(lost)
}

const ROWS: &str = "SELECT first, count, blobs, body FROM commits WHERE log = ?1 ORDER BY first";

/// Reads a log's rows as long as they follow each other and can be decoded.
fn salvage(log: &LogRows<'_>, base: Seq) -> Result<Salvage, Failure> {
    let mut statement = log.conn.prepare_cached(ROWS)?;
    let mut rows = statement.query([log.log])?;
    let mut salvage = Salvage::default();
    while let Some(row) = rows.next()? {
        match log.decode_row(row) {
            Ok(items) if items.first().is_some_and(|it| it.seq == salvage.state.end.next()) => {
                items.iter().for_each(|it| salvage.state.apply(it));
                // The keys of copied turns belong to the thread that they were copied from.
                salvage.keys.extend(Append::keys_of(&items).into_iter().filter(|(_, it)| it.began > base));
            }
            Ok(_) => break,
            Err(err) => {
                salvage.trouble = Some(err.to_string());
                break;
            }
        }
    }
    Ok(salvage)
}

fn set_state(conn: &Connection, log: &DamagedLog, state: &LogState) -> rusqlite::Result<()> {
    let sql =
        "UPDATE logs SET turns = ?2, updated = max(updated, ?3), needs_writer = ?4, state = ?5 WHERE no = ?1";
    let values = params![log.no, to_sql(state.turns), state.updated.0, state.needs_writer, state.json];
    conn.execute(sql, values).map(drop)
}

/// Keeps what can be read of a journal: its items do not build on each other. No position is used again. Returns what is
/// lost.
fn rebuild_journal(log: &LogRows<'_>) -> Result<Option<String>, Failure> {
    let (mut oldest, mut unreadable, mut next) = (None, Vec::new(), None);
    let mut holes = 0;
    let mut statement = log.conn.prepare_cached(ROWS)?;
    let mut rows = statement.query([log.log])?;
    while let Some(row) = rows.next()? {
        let Ok(items) = log.decode_row(row) else {
            unreadable.push(row.get::<_, i64>(0)?);
            continue;
        };
        let (Some(first), Some(last)) = (items.first(), items.last()) else { continue };
        oldest.get_or_insert(first.at.0);
        holes += next.map_or(0, |it: Seq| first.seq.0.saturating_sub(it.0));
        next = Some(last.seq.next());
    }
    drop(rows);
    holes += next.map_or(0, |it| log.end.next().0.saturating_sub(it.0));
    for first in unreadable {
        log.conn.execute("DELETE FROM commits WHERE log = ?1 AND first = ?2", params![log.log, first])?;
    }
    let sql = r#"UPDATE logs SET "end" = ?2, oldest = ?3 WHERE no = ?1"#;
    log.conn.execute(sql, params![log.log, to_sql(log.end.0), oldest])?;
    Ok((holes > 0).then(|| format!("journal `{}`: {holes} items", log.key.thread)))
}
