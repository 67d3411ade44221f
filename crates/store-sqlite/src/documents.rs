//! Documents, next to the logs.

use contexture_history::Timestamp;
use contexture_session::documents::{Document, DocumentKey};
use contexture_session::{SessionId, StoreError, Tenant};
use rusqlite::{Connection, OptionalExtension as _, Row, params};

use crate::create::find_session;
use crate::failure::Failure;
use crate::file::commit::Change;
use crate::head::id;
use crate::numbers::to_sql;

const DOCUMENT: &str =
    "SELECT at, data FROM documents WHERE kind = ?1 AND tenant = ?2 AND session = ?3 AND name = ?4";
const LIST: &str = "SELECT tenant, session, name, at, data FROM documents
    WHERE kind = ?1 AND (tenant, session, name) > (?2, ?3, ?4) ORDER BY tenant, session, name LIMIT ?5";
const DELETE: &str = "DELETE FROM documents WHERE kind = ?1 AND tenant = ?2 AND session = ?3 AND name = ?4";
const PUT: &str =
    "INSERT INTO documents (kind, tenant, session, name, at, data) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
    ON CONFLICT (kind, tenant, session, name) DO UPDATE SET at = excluded.at, data = excluded.data";
const PRUNE: &str = "DELETE FROM documents WHERE no IN
    (SELECT no FROM documents WHERE kind = ?1 AND at < ?2 ORDER BY at LIMIT ?3)";

#[cfg(test)]
pub(crate) const QUERIES: [&str; 4] = [DOCUMENT, LIST, DELETE, PRUNE];

/// Longer documents are left to the thread that writes.
const SMALL: usize = 64 * 1024;

fn names(key: &DocumentKey) -> [&str; 4] {
    [&key.kind, key.tenant.as_str(), key.session_name(), &key.name]
}

/// Returns the change that writes a document, which must not exist if it `is_new`.
pub(crate) fn write(
    written: Document,
    is_new: bool,
) -> Result<Change<impl Fn(&Connection) -> Result<(), Failure>>, StoreError> {
    written.check()?;
    let is_small = written.data.len() <= SMALL;
    let make = move |conn: &Connection| {
        let Document { key, at, data } = &written;
        let [kind, tenant, session, name] = names(key);
        if !session.is_empty() && find_session(conn, tenant, session)?.is_none() {
            return Ok(());
        }
        if is_new && document(conn, key)?.is_some() {
            return Err(StoreError::document_exists(key).into());
        }
        conn.prepare_cached(PUT)?.execute(params![kind, tenant, session, name, at.0, data])?;
        Ok(())
    };
    Ok(Change { is_small, ..Change::new(make) })
}

pub(crate) fn delete(conn: &Connection, key: &DocumentKey) -> Result<(), Failure> {
    conn.prepare_cached(DELETE)?.execute(names(key))?;
    Ok(())
}

/// Prunes documents of a kind.
pub(crate) fn prune(conn: &Connection, kind: &str, before: Timestamp, max: usize) -> Result<u64, Failure> {
    Ok(conn.prepare_cached(PRUNE)?.execute(params![kind, before.0, to_sql(max as u64)])? as u64)
}

/// Returns a document, if it exists.
pub(crate) fn document(conn: &Connection, key: &DocumentKey) -> Result<Option<Document>, Failure> {
    let found =
        |row: &Row<'_>| Ok(Document { key: key.clone(), at: Timestamp(row.get(0)?), data: row.get(1)? });
    Ok(conn.prepare_cached(DOCUMENT)?.query_row(names(key), found).optional()?)
}

/// Returns the documents of a kind after one of them.
pub(crate) fn list(
    conn: &Connection,
    kind: &str,
    after: Option<&DocumentKey>,
    max: usize,
) -> Result<Vec<Document>, Failure> {
    // No tenant is empty, so all keys come after the empty one.
    let [_, tenant, session, name] = after.map_or([""; 4], names);
    let listed = |row: &Row<'_>| {
        let has_session = row.get_ref(1)?.as_str().is_ok_and(|it| !it.is_empty());
        let session = has_session.then(|| id(row, 1, SessionId::parse)).transpose()?;
        let (tenant, name) = (id(row, 0, Tenant::parse)?, row.get(2)?);
        let key = DocumentKey { tenant, session, kind: kind.to_owned(), name };
        Ok(Document { key, at: Timestamp(row.get(3)?), data: row.get(4)? })
    };
    let mut statement = conn.prepare_cached(LIST)?;
    let rows = statement.query_map(params![kind, tenant, session, name, to_sql(max as u64)], listed)?;
    Ok(rows.collect::<Result<_, _>>()?)
}
