//! The text of answers that are not whole yet.

use contexture_session::{Fence, SessionKey, StoreError, ThreadId, ThreadKey, UnfinishedText};
use rusqlite::{Connection, params};

use crate::failure::{Failure, StorePath};
use crate::file::commit::Change;
use crate::head::{find, id};

/// Longer texts are left to the thread that writes.
const SMALL: usize = 64 * 1024;

const SAVE: &str = "INSERT INTO unfinished (log, session, saves, body) VALUES (?1, ?2, 1, ?3)
    ON CONFLICT DO UPDATE SET saves = saves + 1, body = excluded.body";
pub(crate) const SAVED: &str =
    "SELECT l.name, u.body FROM logs AS m CROSS JOIN unfinished AS u ON u.session = m.session
    CROSS JOIN logs AS l ON l.no = u.log WHERE m.tenant = ?1 AND m.name = ?2";

/// Returns the change that keeps a text in place of the one kept before.
pub(crate) fn save(
    key: ThreadKey,
    fence: Fence,
    text: UnfinishedText,
) -> Result<Change<impl Fn(&Connection) -> Result<(), Failure>>, StoreError> {
    let body = serde_json::to_string(&text).map_err(|err| StoreError::malformed(&key, err))?;
    let (is_small, touched) = (body.len() <= SMALL, key.clone());
    let make = move |conn: &Connection| {
        let log = find(conn, &key)?;
        if !log.lease.is_held_as(fence) {
            return Err(StoreError::fenced(&key, fence).into());
        }
        conn.prepare_cached(SAVE)?.execute(params![log.no, log.session, body])?;
        Ok(())
    };
    Ok(Change { is_small, is_lazy: true, touched: Some(touched), ..Change::new(make) })
}

/// Returns the texts of a session's logs that were saved last, by log.
pub(crate) fn saved(
    conn: &Connection,
    place: &StorePath,
    session: &SessionKey,
) -> Result<Vec<(ThreadId, UnfinishedText)>, Failure> {
    let mut statement = conn.prepare_cached(SAVED)?;
    let mut rows = statement.query([session.tenant.as_str(), session.session.as_str()])?;
    let mut saved = Vec::new();
    while let Some(row) = rows.next()? {
        let log = id(row, 0, ThreadId::parse)?;
        let text = serde_json::from_str(row.get_ref(1)?.as_str()?)
            .map_err(|err| place.damaged(format!("the unfinished text of `{log}`: {err}")))?;
        saved.push((log, text));
    }
    saved.sort_by(|a, b| a.0.cmp(&b.0));
    Ok(saved)
}
