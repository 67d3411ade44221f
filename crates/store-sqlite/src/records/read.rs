//! Reads records and documents.

use contexture_history::Timestamp;
use contexture_session::records::{Document, DocumentKey, DocumentList, Extent, Record, StreamKey};
use contexture_session::{SessionId, Tenant};
use rusqlite::{Connection, OptionalExtension as _, Row, params};

use super::session_name;
use crate::failure::Failure;
use crate::head::id;
use crate::numbers::{from_sql, to_sql};

const FORWARD: &str = "SELECT number, at, data FROM records
    WHERE stream = (SELECT no FROM streams WHERE tenant = ?1 AND session = ?2 AND kind = ?3)
    AND number > ?4 ORDER BY number LIMIT ?5";
const BACKWARD: &str = "SELECT number, at, data FROM records
    WHERE stream = (SELECT no FROM streams WHERE tenant = ?1 AND session = ?2 AND kind = ?3)
    AND number < ?4 ORDER BY number DESC LIMIT ?5";
const EXTENT: &str = "SELECT forgotten, last FROM streams WHERE tenant = ?1 AND session = ?2 AND kind = ?3";
const DOCUMENT: &str =
    "SELECT at, data FROM documents WHERE kind = ?1 AND tenant = ?2 AND session = ?3 AND name = ?4";
const LIST: &str = "SELECT tenant, session, name, at, data FROM documents
    WHERE kind = ?1 AND (tenant, session, name) >= (?2, ?3, ?4) ORDER BY tenant, session, name LIMIT ?5";
const LIST_OF_TENANT: &str = "SELECT tenant, session, name, at, data FROM documents
    WHERE kind = ?1 AND tenant = ?2 AND (session, name) >= (?3, ?4) ORDER BY session, name LIMIT ?5";
const LIST_OF_SESSION: &str = "SELECT tenant, session, name, at, data FROM documents
    WHERE kind = ?1 AND tenant = ?2 AND session = ?3 AND name >= ?4 ORDER BY name LIMIT ?5";

#[cfg(test)]
pub(crate) const QUERIES: [&str; 7] =
    [FORWARD, BACKWARD, EXTENT, DOCUMENT, LIST, LIST_OF_TENANT, LIST_OF_SESSION];

/// Returns the records after a number, oldest first.
pub(crate) fn forward(
    conn: &Connection,
    stream: &StreamKey,
    after: u64,
    max: usize,
) -> Result<Vec<Record>, Failure> {
    records(conn, FORWARD, stream, after, max)
}

/// Returns the records before a number, newest first.
pub(crate) fn backward(
    conn: &Connection,
    stream: &StreamKey,
    before: Option<u64>,
    max: usize,
) -> Result<Vec<Record>, Failure> {
    records(conn, BACKWARD, stream, before.unwrap_or(u64::MAX), max)
}

fn records(
    conn: &Connection,
    sql: &str,
    stream: &StreamKey,
    bound: u64,
    max: usize,
) -> Result<Vec<Record>, Failure> {
    let record = |row: &Row<'_>| {
        Ok(Record { number: from_sql(row.get(0)?), at: Timestamp(row.get(1)?), data: row.get(2)? })
    };
    let (tenant, session) = (stream.tenant.as_str(), session_name(stream.session.as_ref()));
    let values = params![tenant, session, stream.kind, to_sql(bound), to_sql(max as u64)];
    let mut statement = conn.prepare_cached(sql)?;
    let rows = statement.query_map(values, record)?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// Returns which numbers a stream has.
pub(crate) fn extent(conn: &Connection, stream: &StreamKey) -> rusqlite::Result<Extent> {
    let found = |row: &Row<'_>| Ok(Extent { forgotten: from_sql(row.get(0)?), last: from_sql(row.get(1)?) });
    let (tenant, session) = (stream.tenant.as_str(), session_name(stream.session.as_ref()));
    let mut statement = conn.prepare_cached(EXTENT)?;
    Ok(statement.query_row([tenant, session, &stream.kind], found).optional()?.unwrap_or_default())
}

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
