//! The text of answers that are not whole yet.

use contexture_session::{Fence, LeaseRefusal, SessionKey, StoreError, ThreadId, ThreadKey, UnfinishedText};
use rusqlite::{Connection, params};

use crate::append::malformed;
use crate::failure::{Failure, StorePath};
use crate::file::commit::{Change, Touched};
use crate::guard::{find, refused};
use crate::head::id;

/// Longer texts are left to the thread that writes.
const SMALL: usize = 64 * 1024;

const SAVE: &str = "INSERT INTO unfinished (log, session, saves, body) VALUES (?1, ?2, 1, ?3)
    ON CONFLICT DO UPDATE SET saves = saves + 1, body = excluded.body";
pub(crate) const SAVED: &str =
    "SELECT l.name, u.body FROM logs AS m CROSS JOIN unfinished AS u ON u.session = m.session
    CROSS JOIN logs AS l ON l.no = u.log WHERE m.tenant = ?1 AND m.name = ?2";

/// Keeps a text in place of the one kept before.
#[derive(Debug)]
pub(crate) struct SaveText {
    key: ThreadKey,
    fence: Fence,
    body: String,
}

impl SaveText {
    pub(crate) fn new(key: ThreadKey, fence: Fence, text: &UnfinishedText) -> Result<Self, StoreError> {
        let body = serde_json::to_string(text).map_err(|err| malformed(&key, err))?;
        Ok(Self { key, fence, body })
    }
}

impl Change for SaveText {
    type Output = ();

    fn make(&self, conn: &Connection) -> Result<(), Failure> {
        let log = find(conn, &self.key)?;
        if !log.lease.is_held_as(self.fence) {
            return Err(refused(&self.key, LeaseRefusal::Fenced(self.fence)).into());
        }
        conn.prepare_cached(SAVE)?.execute(params![log.no, log.session, self.body])?;
        Ok(())
    }

    fn is_small(&self) -> bool {
        self.body.len() <= SMALL
    }

    fn is_lazy(&self) -> bool {
        true
    }

    fn touched(&self) -> Touched<'_> {
        Touched::Log(&self.key)
    }
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
        let text = serde_json::from_str(row.get_ref(1)?.as_str().map_err(rusqlite::Error::from)?)
            .map_err(|err| place.damaged(format!("the unfinished text of `{log}`: {err}")))?;
        saved.push((log, text));
    }
    saved.sort_by(|a, b| a.0.cmp(&b.0));
    Ok(saved)
}
