//! Writes documents as one change.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use contexture_session::documents::{Document, DocumentKey, Writes};
use contexture_session::{SessionId, StoreError, Tenant};
use rusqlite::{Connection, params};

use super::session_name;
use crate::create::find_session;
use crate::failure::Failure;
use crate::file::commit::Change;

const EXISTS: &str = "SELECT 1 FROM documents WHERE kind = ?1 AND tenant = ?2 AND session = ?3 AND name = ?4";
const DELETE: &str = "DELETE FROM documents WHERE kind = ?1 AND tenant = ?2 AND session = ?3 AND name = ?4";
const PUT: &str =
    "INSERT INTO documents (kind, tenant, session, name, at, data) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
    ON CONFLICT (kind, tenant, session, name) DO UPDATE SET at = excluded.at, data = excluded.data";

#[cfg(test)]
pub(crate) const QUERIES: [&str; 2] = [EXISTS, DELETE];

/// Writes of more parts, or of more bytes, are left to the thread that writes.
const SMALL: (usize, usize) = (16, 64 * 1024);

/// Documents to write, checked.
#[derive(Debug)]
pub(crate) struct WriteDocuments(Writes);

impl WriteDocuments {
    pub(crate) fn new(writes: Writes) -> Result<Self, StoreError> {
        writes.check()?;
        Ok(Self(writes))
    }
}

impl Change for WriteDocuments {
    type Output = ();

    fn make(&self, conn: &Connection) -> Result<(), Failure> {
        let mut sessions = Sessions { conn, known: BTreeMap::new() };
        let there = |it: &&Document, sessions: &mut Sessions<'_>| {
            sessions.has(&it.key.tenant, it.key.session.as_ref())
        };
        let mut documents = Vec::new();
        for put in &self.0.puts {
            documents.extend(there(&put, &mut sessions)?.then_some(put));
        }
        // Whether it is refused is known before anything is written.
        self.0.required().into_iter().try_for_each(|it| refuse_missing(conn, it))?;
        for create in &self.0.creates {
            if there(&create, &mut sessions)? {
                refuse_existing(conn, &create.key)?;
                documents.push(create);
            }
        }
        documents.into_iter().try_for_each(|it| put(conn, it))?;
        self.0.deletes.iter().try_for_each(|it| delete(conn, it))?;
        Ok(())
    }

    fn is_small(&self) -> bool {
        let Writes { puts, creates, deletes, requires } = &self.0;
        let bytes: usize = puts.iter().chain(creates).map(|it| it.data.len()).sum();
        puts.len() + creates.len() + deletes.len() + requires.len() <= SMALL.0 && bytes <= SMALL.1
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
