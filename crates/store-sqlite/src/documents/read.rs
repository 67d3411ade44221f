//! Reads documents.

use contexture_history::Timestamp;
use contexture_session::documents::{Document, DocumentKey, DocumentList};
use contexture_session::{SessionId, Tenant};
use rusqlite::{Connection, OptionalExtension as _, Row, params};

use super::session_name;
use crate::failure::Failure;
use crate::head::id;
use crate::numbers::to_sql;

const DOCUMENT: &str =
    "SELECT at, data FROM documents WHERE kind = ?1 AND tenant = ?2 AND session = ?3 AND name = ?4";
const LIST: &str = "SELECT tenant, session, name, at, data FROM documents
    WHERE kind = ?1 AND (tenant, session, name) >= (?2, ?3, ?4) ORDER BY tenant, session, name LIMIT ?5";
const LIST_OF_TENANT: &str = "SELECT tenant, session, name, at, data FROM documents
    WHERE kind = ?1 AND tenant = ?2 AND (session, name) >= (?3, ?4) ORDER BY session, name LIMIT ?5";
const LIST_OF_SESSION: &str = "SELECT tenant, session, name, at, data FROM documents
    WHERE kind = ?1 AND tenant = ?2 AND session = ?3 AND name >= ?4 ORDER BY name LIMIT ?5";

#[cfg(test)]
pub(crate) const QUERIES: [&str; 4] = [DOCUMENT, LIST, LIST_OF_TENANT, LIST_OF_SESSION];

/// Returns the existing documents.
pub(crate) fn documents(conn: &Connection, keys: &[DocumentKey]) -> Result<Vec<Document>, Failure> {
    let mut statement = conn.prepare_cached(DOCUMENT)?;
    let mut documents = Vec::new();
    for key in keys {
        let found =
            |row: &Row<'_>| Ok(Document { key: key.clone(), at: Timestamp(row.get(0)?), data: row.get(1)? });
        let session = session_name(key.session.as_ref());
        let found = statement.query_row([&key.kind, key.tenant.as_str(), session, &key.name], found);
        documents.extend(found.optional()?);
    }
    Ok(documents)
}

/// Returns a part of a list of documents.
pub(crate) fn list(conn: &Connection, list: &DocumentList) -> Result<Vec<Document>, Failure> {
    let Some(start) = list.start() else { return Ok(Vec::new()) };
    let sql = match (&list.tenant, &list.session) {
        (None, _) => LIST,
        (Some(_), None) => LIST_OF_TENANT,
        (Some(_), Some(_)) => LIST_OF_SESSION,
    };
    let values = params![list.kind, start.tenant, start.session, start.name, to_sql(list.max as u64)];
    let mut statement = conn.prepare_cached(sql)?;
    let rows = statement.query_map(values, |row| listed(row, &list.kind))?;
    Ok(rows.collect::<Result<_, _>>()?)
}

fn listed(row: &Row<'_>, kind: &str) -> rusqlite::Result<Document> {
    let has_session = row.get_ref(1)?.as_str().is_ok_and(|it| !it.is_empty());
    let session = has_session.then(|| id(row, 1, SessionId::parse)).transpose()?;
    let (tenant, name) = (id(row, 0, Tenant::parse)?, row.get(2)?);
    let key = DocumentKey { tenant, session, kind: kind.to_owned(), name };
    Ok(Document { key, at: Timestamp(row.get(3)?), data: row.get(4)? })
}
