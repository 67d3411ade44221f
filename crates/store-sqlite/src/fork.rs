//! A thread that starts with a copy of another's items.

use contexture_history::Item;
use contexture_session::search::ranges_of;
use contexture_session::{NewThread, StoreError, ThreadKey};
use rusqlite::{Connection, params};

use crate::archive::index;
use crate::blobs::copy_blob_uses;
use crate::create::{insert_thread, place_for};
use crate::failure::{Failure, StorePath};
use crate::file::commit::Change;
use crate::head::end_of;
use crate::numbers::to_sql;
use crate::rows::{Log, encode, insert_rows};

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
