//! Deleting: all of it, or nothing.

use contexture_session::{SessionKey, StoreError, ThreadKey};
use rusqlite::{Connection, OptionalExtension as _, params};

use crate::create::find_session;
use crate::failure::Failure;
use crate::file::commit::{Change, Touched};

/// Removes a session with everything in it.
#[derive(Debug)]
pub(crate) struct DeleteSession(pub(crate) SessionKey);

impl Change for DeleteSession {
    type Output = bool;

    fn make(&self, conn: &Connection) -> Result<bool, Failure> {
        let (tenant, name) = (self.0.tenant.as_str(), self.0.session.as_str());
        let Some(session) = find_session(conn, tenant, name)? else { return Ok(false) };
        let mut statement = conn.prepare_cached(THREADS_OF_SESSION)?;
        let threads = statement.query_map([session], |row| row.get(0))?;
        for thread in threads.collect::<Result<Vec<i64>, _>>()? {
            remove_thread(conn, thread)?;
        }
        for sql in REMOVE_KEPT {
            conn.prepare_cached(sql)?.execute([tenant, name])?;
        }
        conn.prepare_cached("DELETE FROM sessions WHERE no = ?1")?.execute([session])?;
        Ok(true)
    }

    fn touched(&self) -> Touched<'_> {
        Touched::Everything
    }
}

/// Removes one isolated thread.
#[derive(Debug)]
pub(crate) struct DeleteThread(pub(crate) ThreadKey);

impl Change for DeleteThread {
    type Output = bool;

    fn make(&self, conn: &Connection) -> Result<bool, Failure> {
        let mut statement =
            conn.prepare_cached("SELECT no, main FROM threads WHERE tenant = ?1 AND name = ?2")?;
        let (tenant, name) = (self.0.tenant.as_str(), self.0.thread.as_str());
        let found = statement.query_row([tenant, name], |row| Ok((row.get(0)?, row.get(1)?))).optional()?;
        match found {
            None => Ok(false),
            Some((_, true)) => Err(StoreError::IsMain { thread: name.to_owned() }.into()),
            Some((thread, false)) => {
                remove_thread(conn, thread)?;
                Ok(true)
            }
        }
    }

    fn touched(&self) -> Touched<'_> {
        Touched::Thread(&self.0)
    }
}

pub(crate) const THREADS_OF_SESSION: &str = "SELECT no FROM threads WHERE session = ?1";
/// The order matters: blobs are found by their references, words by their items.
pub(crate) const REMOVE_THREAD: [&str; 7] = [
    "DELETE FROM blobs WHERE no IN (SELECT blob FROM blob_uses WHERE thread = ?1)
     AND NOT EXISTS (SELECT 1 FROM blob_uses WHERE blob = blobs.no AND thread <> ?1)",
    "DELETE FROM blob_uses WHERE thread = ?1",
    "DELETE FROM words WHERE rowid IN (SELECT no FROM archived WHERE thread = ?1)",
    "DELETE FROM archived WHERE thread = ?1",
    "DELETE FROM turn_keys WHERE thread = ?1",
    "DELETE FROM commits WHERE thread = ?1",
    "DELETE FROM threads WHERE no = ?1",
];

/// Data of a session besides its threads. The records are found by their streams.
pub(crate) const REMOVE_KEPT: [&str; 3] = [
    "DELETE FROM records WHERE stream IN (SELECT no FROM streams WHERE tenant = ?1 AND session = ?2)",
    "DELETE FROM streams WHERE tenant = ?1 AND session = ?2",
    "DELETE FROM documents WHERE tenant = ?1 AND session = ?2 AND session <> ''",
];

pub(crate) fn remove_thread(conn: &Connection, thread: i64) -> rusqlite::Result<()> {
    for sql in REMOVE_THREAD {
        conn.prepare_cached(sql)?.execute(params![thread])?;
    }
    Ok(())
}
