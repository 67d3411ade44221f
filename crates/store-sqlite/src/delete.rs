//! Deleting: all of it, or nothing.

use contexture_session::{LogKind, SessionKey, StoreError, ThreadKey};
use rusqlite::{Connection, params};

use crate::blobs::REMOVE_UNUSED;
use crate::create::find_session;
use crate::failure::Failure;
use crate::head::find_opt;

/// Removes a session with everything in it. Returns whether it existed.
pub(crate) fn delete_session(conn: &Connection, key: &SessionKey) -> Result<bool, Failure> {
    let (tenant, name) = (key.tenant.as_str(), key.session.as_str());
    let Some(session) = find_session(conn, tenant, name)? else { return Ok(false) };
    let mut statement = conn.prepare_cached(LOGS_OF_SESSION)?;
    let logs = statement.query_map([session], |row| row.get(0))?;
    for log in logs.collect::<Result<Vec<i64>, _>>()? {
        remove_log(conn, log)?;
    }
    conn.prepare_cached(REMOVE_DOCUMENTS)?.execute([tenant, name])?;
    conn.prepare_cached("DELETE FROM sessions WHERE no = ?1")?.execute([session])?;
    Ok(true)
}

/// Removes one log other than a main thread. Returns whether it existed.
pub(crate) fn delete_log(conn: &Connection, key: &ThreadKey) -> Result<bool, Failure> {
    let Some(log) = find_opt(conn, key)? else { return Ok(false) };
    if log.kind == LogKind::Main {
        return Err(StoreError::is_main(key).into());
    }
    remove_log(conn, log.no)?;
    Ok(true)
}

pub(crate) const LOGS_OF_SESSION: &str = "SELECT no FROM logs WHERE session = ?1";
/// The order matters: a large text is used as long as a row has it, and words are found by their items.
pub(crate) const REMOVE_LOG: [&str; 9] = [
    "DELETE FROM commits WHERE log = ?1",
    REMOVE_UNUSED[0],
    REMOVE_UNUSED[1],
    "DELETE FROM words WHERE rowid IN (SELECT no FROM archived WHERE log = ?1)",
    "DELETE FROM archived WHERE log = ?1",
    "DELETE FROM archives WHERE log = ?1",
    "DELETE FROM turn_keys WHERE log = ?1",
    "DELETE FROM unfinished WHERE log = ?1",
    "DELETE FROM logs WHERE no = ?1",
];

/// Documents are found by their kinds: an index by session alone would cost more than these few lookups.
pub(crate) const REMOVE_DOCUMENTS: &str = "WITH RECURSIVE kinds (kind) AS (
        SELECT min(kind) FROM documents UNION ALL
        SELECT (SELECT min(kind) FROM documents WHERE kind > kinds.kind) FROM kinds WHERE kinds.kind IS NOT NULL
    ) DELETE FROM documents WHERE no IN (SELECT d.no FROM kinds CROSS JOIN documents AS d
        ON d.kind = kinds.kind AND d.tenant = ?1 AND d.session = ?2)";

pub(crate) fn remove_log(conn: &Connection, log: i64) -> rusqlite::Result<()> {
    for sql in REMOVE_LOG {
        conn.prepare_cached(sql)?.execute(params![log])?;
    }
    Ok(())
}
