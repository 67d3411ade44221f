//! Writes records and documents as one change.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use contexture_history::Timestamp;
use contexture_session::records::{Document, DocumentKey, NewRecord, StreamKey, Writes};
use contexture_session::{SessionId, StoreError, Tenant};
use rusqlite::{Connection, OptionalExtension as _, params};

use super::session_name;
use crate::create::find_session;
use crate::failure::Failure;
use crate::file::commit::{Change, Touched};
use crate::numbers::{from_sql, to_sql};

const STREAM: &str =
    "SELECT no, forgotten, last FROM streams WHERE tenant = ?1 AND session = ?2 AND kind = ?3";
const EXISTS: &str = "SELECT 1 FROM documents WHERE kind = ?1 AND tenant = ?2 AND session = ?3 AND name = ?4";
const DELETE: &str = "DELETE FROM documents WHERE kind = ?1 AND tenant = ?2 AND session = ?3 AND name = ?4";
const DROP_RECORDS: &str = "DELETE FROM records
    WHERE stream = (SELECT no FROM streams WHERE tenant = ?1 AND session = ?2 AND kind = ?3)";
const DROP_STREAM: &str = "DELETE FROM streams WHERE tenant = ?1 AND session = ?2 AND kind = ?3";
const PUT: &str =
    "INSERT INTO documents (kind, tenant, session, name, at, data) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
    ON CONFLICT (kind, tenant, session, name) DO UPDATE SET at = excluded.at, data = excluded.data";
const NEW_STREAM: &str =
    "INSERT INTO streams (tenant, session, kind, forgotten, last) VALUES (?1, ?2, ?3, 0, 0)";
const RECORD: &str = "INSERT INTO records (stream, number, at, data) VALUES (?1, ?2, ?3, ?4)";
const GROWN: &str = "UPDATE streams SET last = ?2 WHERE no = ?1";
const BEGUN: &str = "UPDATE streams SET last = ?2, oldest = ?3 WHERE no = ?1";

#[cfg(test)]
pub(crate) const QUERIES: [&str; 7] = [STREAM, EXISTS, DELETE, DROP_RECORDS, DROP_STREAM, GROWN, BEGUN];

/// Writes of more parts, or of more bytes, are left to the thread that writes.
const SMALL: (usize, usize) = (16, 64 * 1024);

/// Records and documents to write, checked.
#[derive(Debug)]
pub(crate) struct WriteRecords {
    writes: Writes,
    /// The streams that grow or are dropped, each once.
    streams: Vec<StreamKey>,
}

impl WriteRecords {
    pub(crate) fn new(writes: Writes) -> Result<Self, StoreError> {
        writes.check()?;
        let streams = writes.records.iter().map(|it| &it.stream).chain(&writes.drops);
        let mut streams: Vec<StreamKey> = streams.cloned().collect();
        streams.sort();
        streams.dedup();
        Ok(Self { writes, streams })
    }
}

impl Change for WriteRecords {
    type Output = Vec<u64>;

    fn make(&self, conn: &Connection) -> Result<Vec<u64>, Failure> {
        let mut sessions = Sessions { conn, known: BTreeMap::new() };
        let there = |it: &&Document, sessions: &mut Sessions<'_>| {
            sessions.has(&it.key.tenant, it.key.session.as_ref())
        };
        let mut documents = Vec::new();
        for put in &self.writes.puts {
            documents.extend(there(&put, &mut sessions)?.then_some(put));
        }
        // Whether it is refused is known before anything is written.
        self.writes.required().into_iter().try_for_each(|it| refuse_missing(conn, it))?;
        for create in &self.writes.creates {
            if there(&create, &mut sessions)? {
                refuse_existing(conn, &create.key)?;
                documents.push(create);
            }
        }
        let numbers = append(conn, &mut sessions, &self.writes.records)?;
        documents.into_iter().try_for_each(|it| put(conn, it))?;
        self.writes.deletes.iter().try_for_each(|it| delete(conn, it))?;
        self.writes.drops.iter().try_for_each(|it| drop_stream(conn, it))?;
        Ok(numbers)
    }

    fn is_small(&self) -> bool {
        let Writes { records, puts, creates, deletes, drops, requires } = &self.writes;
        let documents = puts.iter().chain(creates).map(|it| it.data.len());
        let bytes: usize = records.iter().map(|it| it.data.len()).chain(documents).sum();
        let parts = records.len() + puts.len() + creates.len() + deletes.len() + requires.len();
        // The size of a dropped stream is unknown.
        parts <= SMALL.0 && bytes <= SMALL.1 && drops.is_empty()
    }

    fn touched(&self) -> Touched<'_> {
        Touched::Streams(&self.streams)
    }
}

/// Which sessions exist; each is looked up once.
struct Sessions<'a> {
    conn: &'a Connection,
    known: BTreeMap<(Tenant, SessionId), bool>,
}

impl Sessions<'_> {
    fn has(&mut self, tenant: &Tenant, session: Option<&SessionId>) -> rusqlite::Result<bool> {
        let Some(session) = session else { return Ok(true) };
        Ok(match self.known.entry((tenant.clone(), session.clone())) {
            Entry::Occupied(known) => *known.get(),
            Entry::Vacant(place) => {
                *place.insert(find_session(self.conn, tenant.as_str(), session.as_str())?.is_some())
            }
        })
    }
}

/// A stream while it grows.
struct StreamCursor {
    no: i64,
    last: u64,
    /// The time of its first record, if it had none.
    oldest: Option<Timestamp>,
    was_empty: bool,
}

fn append(
    conn: &Connection,
    sessions: &mut Sessions<'_>,
    records: &[NewRecord],
) -> rusqlite::Result<Vec<u64>> {
    let mut streams: BTreeMap<&StreamKey, StreamCursor> = BTreeMap::new();
    let mut numbers = Vec::with_capacity(records.len());
    let mut insert = conn.prepare_cached(RECORD)?;
    for record in records {
        if !sessions.has(&record.stream.tenant, record.stream.session.as_ref())? {
            numbers.push(0);
            continue;
        }
        let stream = match streams.entry(&record.stream) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(place) => place.insert(stream(conn, &record.stream)?),
        };
        stream.last += 1;
        stream.oldest.get_or_insert(record.at);
        insert.execute(params![stream.no, to_sql(stream.last), record.at.0, record.data])?;
        numbers.push(stream.last);
    }
    for stream in streams.values() {
        // Most of the time the index by age is left alone.
        match stream.was_empty {
            true => conn.prepare_cached(BEGUN)?.execute(params![
                stream.no,
                to_sql(stream.last),
                stream.oldest.map(|it| it.0)
            ])?,
            false => conn.prepare_cached(GROWN)?.execute(params![stream.no, to_sql(stream.last)])?,
        };
    }
    Ok(numbers)
}

fn stream_names(key: &StreamKey) -> [&str; 3] {
    [key.tenant.as_str(), session_name(key.session.as_ref()), &key.kind]
}

fn drop_stream(conn: &Connection, key: &StreamKey) -> rusqlite::Result<()> {
    conn.prepare_cached(DROP_RECORDS)?.execute(stream_names(key))?;
    conn.prepare_cached(DROP_STREAM)?.execute(stream_names(key))?;
    Ok(())
}

fn stream(conn: &Connection, key: &StreamKey) -> rusqlite::Result<StreamCursor> {
    let names = stream_names(key);
    let found = |row: &rusqlite::Row<'_>| {
        let (forgotten, last): (i64, i64) = (row.get(1)?, row.get(2)?);
        Ok(StreamCursor { no: row.get(0)?, last: from_sql(last), oldest: None, was_empty: forgotten == last })
    };
    match conn.prepare_cached(STREAM)?.query_row(names, found).optional()? {
        Some(stream) => Ok(stream),
        None => {
            let no = conn.prepare_cached(NEW_STREAM)?.insert(names)?;
            Ok(StreamCursor { no, last: 0, oldest: None, was_empty: true })
        }
    }
}

fn names(key: &DocumentKey) -> [&str; 4] {
    [&key.kind, key.tenant.as_str(), session_name(key.session.as_ref()), &key.name]
}

fn refuse_existing(conn: &Connection, key: &DocumentKey) -> Result<(), Failure> {
    match conn.prepare_cached(EXISTS)?.exists(names(key))? {
        true => Err(StoreError::document_exists(key).into()),
        false => Ok(()),
    }
}

fn refuse_missing(conn: &Connection, key: &DocumentKey) -> Result<(), Failure> {
    match conn.prepare_cached(EXISTS)?.exists(names(key))? {
        true => Ok(()),
        false => Err(StoreError::no_document(key).into()),
    }
}

fn put(conn: &Connection, document: &Document) -> rusqlite::Result<()> {
    let [kind, tenant, session, name] = names(&document.key);
    let values = params![kind, tenant, session, name, document.at.0, document.data];
    conn.prepare_cached(PUT)?.execute(values)?;
    Ok(())
}

fn delete(conn: &Connection, key: &DocumentKey) -> rusqlite::Result<()> {
    conn.prepare_cached(DELETE)?.execute(names(key))?;
    Ok(())
}
