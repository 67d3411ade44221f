//! The numbered items of a session.

use contexture_history::Seq;
use contexture_session::{FeedItem, SessionKey, ThreadId, ThreadKey};
use rusqlite::{Connection, OptionalExtension as _, Row, params};

use crate::failure::{Failure, StorePath};
use crate::head::id;
use crate::numbers::{from_sql, seq, to_sql};
use crate::rows::LogRows;
use crate::waiters::FeedState;

/// Rows from the one that has a number on.
pub(crate) const FEED: &str =
    "SELECT c.first, c.count, c.blobs, c.body, c.number, l.name, c.log FROM commits AS c CROSS JOIN logs AS l ON l.no = c.log
    WHERE c.session = ?1 AND c.number >= (SELECT coalesce(max(number), 0) FROM commits
        WHERE session = ?1 AND number <= ?2 AND number IS NOT NULL) AND c.number IS NOT NULL ORDER BY c.number";
/// How far a session is.
pub(crate) const FEED_END: &str =
    "SELECT session, numbered FROM logs WHERE tenant = ?1 AND name = ?2 AND kind = 'main'";
/// The main thread has the name of its session. The items that were numbered last may have been deleted.
pub(crate) const FEED_STATE: &str = "SELECT session, coalesce((SELECT number + count - 1 FROM commits
        WHERE session = logs.session AND number IS NOT NULL ORDER BY number DESC LIMIT 1), 0),
    (SELECT coalesce(sum(saves), 0) FROM unfinished WHERE session = logs.session) FROM logs
    WHERE tenant = ?1 AND name = ?2 AND kind = 'main'";

/// The number of an item.
pub(crate) const NUMBER_AT: &str = "SELECT number + ?3 - first FROM commits
    WHERE log = (SELECT no FROM logs WHERE tenant = ?1 AND name = ?2) AND first <= ?3 AND first + count > ?3
    ORDER BY first DESC LIMIT 1";

/// Returns how far a session is, if it exists.
pub(crate) fn feed_state(conn: &Connection, session: &SessionKey) -> rusqlite::Result<Option<FeedState>> {
    let found = |row: &Row<'_>| {
        let (end, saves) = (from_sql(row.get(1)?), from_sql(row.get(2)?));
        Ok(FeedState { session: row.get(0)?, end, saves })
    };
    let names = [session.tenant.as_str(), session.session.as_str()];
    conn.prepare_cached(FEED_STATE)?.query_row(names, found).optional()
}

/// Returns the row number of a session and the number of its newest item, if it exists.
pub(crate) fn feed_end(conn: &Connection, session: &SessionKey) -> rusqlite::Result<Option<(i64, u64)>> {
    let names = [session.tenant.as_str(), session.session.as_str()];
    let found = |row: &Row<'_>| Ok((row.get(0)?, from_sql(row.get(1)?)));
    conn.prepare_cached(FEED_END)?.query_row(names, found).optional()
}

/// Returns the items after a number, at least `max` of them.
pub(crate) fn feed(
    conn: &Connection,
    place: &StorePath,
    session: &SessionKey,
    after: u64,
    max: usize,
) -> Result<Vec<FeedItem>, Failure> {
    let Some((no, _)) = feed_end(conn, session)?.filter(|(_, end)| *end > after) else {
        return Ok(Vec::new());
    };
    let mut statement = conn.prepare_cached(FEED)?;
    let mut rows = statement.query(params![no, to_sql(after + 1)])?;
    let mut items = Vec::new();
    while items.len() < max
        && let Some(row) = rows.next()?
    {
        let key = ThreadKey { tenant: session.tenant.clone(), thread: id(row, 5, ThreadId::parse)? };
        let log = LogRows { conn, place, key: &key, log: row.get(6)?, end: seq(row.get(0)?) };
        let first = from_sql(row.get(4)?);
        let numbered = (first..).zip(log.decode(row)?).filter(|(number, _)| *number > after);
        let thread = &key.thread;
        items.extend(numbered.map(|(number, item)| FeedItem { number, thread: thread.clone(), item }));
    }
    Ok(items)
}

/// Returns the number of the item at a position.
pub(crate) fn number_at(conn: &Connection, key: &ThreadKey, at: Seq) -> rusqlite::Result<Option<u64>> {
    let values = params![key.tenant.as_str(), key.thread.as_str(), to_sql(at.0)];
    let number = |row: &Row<'_>| row.get::<_, Option<i64>>(0);
    Ok(conn.prepare_cached(NUMBER_AT)?.query_row(values, number).optional()?.flatten().map(from_sql))
}
