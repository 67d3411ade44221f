//! Data kept next to conversations: events sent to clients, requests sent to models, API keys.
//!
//! There are two shapes. A *stream* is a log that only grows at its end, is pruned from its start, or dropped as a
//! whole; its records are numbered from 1 without gaps, in the order in which readers see them. A *document* is one
//! value under a name; the last writer wins.
//!
//! Every implementation guarantees the following, and the conformance suite checks it:
//!
//! 1. One write is one commit. When it returns, it survives a crash of the process and of the machine.
//! 2. A number is assigned once, even with several concurrent processes, and even after its record was pruned. A
//!    reader that has read up to a number has missed nothing before it. Only a dropped stream starts again at 1.
//! 3. Nothing of a tenant is visible under another tenant's key.
//! 4. Data of a session is deleted with it ([`Store::delete_session`](crate::Store::delete_session)), and nothing is
//!    written for a missing session.
//! 5. A read costs what it returns.
//!
//! ```
//! # use std::sync::Arc;
//! # use contexture_history::Timestamp;
//! # use contexture_session::conformance::SystemTime;
//! use contexture_session::records::{NewRecord, Records, StreamKey, Writes};
//! use contexture_session::{MemoryStore, Tenant};
//!
//! # futures::executor::block_on(async {
//! let store = MemoryStore::new(Arc::new(SystemTime));
//! let stream = StreamKey::of_tenant(&Tenant::default(), "events");
//! let record = |data: &str| NewRecord { stream: stream.clone(), at: Timestamp(1), data: data.to_owned() };
//! let records = vec![record("one"), record("two")];
//! assert_eq!(store.write(Writes { records, ..Writes::default() }).await?, [1, 2]);
//! assert_eq!(store.read(stream.clone(), 1, 10).await?[0].data, "two");
//! # Ok::<(), contexture_session::StoreError>(())
//! # })?;
//! # Ok::<(), contexture_session::StoreError>(())
//! ```

use std::collections::BTreeSet;

use contexture_history::Timestamp;

use crate::{SessionId, StoreError, StoreFuture, Tenant};

pub use crate::ids::{DocumentKey, StreamKey};

/// How long the kind of a stream or document may be, in bytes.
pub const MAX_KIND_BYTES: usize = 200;
/// How long the name of a document may be, in bytes: some databases can't find longer ones.
pub const MAX_NAME_BYTES: usize = 1024;

/// A place for streams and documents. Every [`Store`](crate::Store) of this workspace is one too.
pub trait Records: std::fmt::Debug + Send + Sync + 'static {
    /// Writes records and documents as one commit. Returns the numbers of the records, in order: 0 for a record whose
    /// session does not exist, which is skipped (as are documents of such a session).
    fn write(&self, writes: Writes) -> StoreFuture<'_, Vec<u64>>;

    /// Returns the records of a stream after a number, oldest first, at most `max`.
    fn read(&self, stream: StreamKey, after: u64, max: usize) -> StoreFuture<'_, Vec<Record>>;

    /// Returns the records of a stream before a number (`None`: from the newest on), newest first, at most `max`.
    fn read_back(&self, stream: StreamKey, before: Option<u64>, max: usize) -> StoreFuture<'_, Vec<Record>>;

    /// Returns which numbers a stream has.
    fn extent(&self, stream: StreamKey) -> StoreFuture<'_, Extent>;

    /// Waits until a stream may have grown beyond a number. It may return early, and it returns immediately if the
    /// stream is already longer; callers read and wait again.
    fn grown(&self, stream: StreamKey, after: u64) -> StoreFuture<'_, ()>;

    /// Returns the existing documents with these keys, in key order.
    fn documents(&self, keys: Vec<DocumentKey>) -> StoreFuture<'_, Vec<Document>>;

    /// Lists documents in the order of tenant, session and name.
    fn list(&self, list: DocumentList) -> StoreFuture<'_, Vec<Document>>;

    /// Verifies that writes are durable: makes a small durable write, and checks the storage behind any cache. Callers
    /// limit how often this happens.
    fn probe(&self, at: Timestamp) -> StoreFuture<'_, ()> {
        Box::pin(async move { self.write(Writes::probe(at)).await.map(drop) })
    }

    /// Prunes records and documents of a kind that are older than `before`, in all tenants, at most about `max` of
    /// them. Returns how many were removed. A stream is pruned from its start only.
    fn prune(&self, kind: String, before: Timestamp, max: usize) -> StoreFuture<'_, u64>;
}

/// One commit: first the records, then the puts, the creates, the deletes and the drops.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Writes {
    /// Records to append to streams, in this order.
    pub records: Vec<NewRecord>,
    /// Documents to create or replace.
    pub puts: Vec<Document>,
    /// Documents to create; if one exists, the whole write fails with
    /// [`StoreError::Exists`](crate::StoreError::Exists).
    pub creates: Vec<Document>,
    /// Documents to delete; missing ones are ignored.
    pub deletes: Vec<DocumentKey>,
    /// Streams to remove with all their records; missing streams are ignored. A new stream under the same key starts
    /// at number 1, so drop only streams that have no writers or followers.
    pub drops: Vec<StreamKey>,
    /// Documents that must exist already or be put by this write; otherwise the whole write fails with
    /// [`StoreError::NotFound`](crate::StoreError::NotFound). A concurrent delete happens either before or after the
    /// write.
    pub requires: Vec<DocumentKey>,
}

/// A record to append.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewRecord {
    /// The stream to append to.
    pub stream: StreamKey,
    /// The time of the record.
    pub at: Timestamp,
    /// The content, an arbitrary text.
    pub data: String,
}

/// A record of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Its number, from 1.
    pub number: u64,
    /// The time of the append.
    pub at: Timestamp,
    /// The content.
    pub data: String,
}

/// The range of numbers in a stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Extent {
    /// The number of the newest pruned record; 0 if there is none.
    pub forgotten: u64,
    /// The number of the newest record that was ever appended; 0 if none was.
    pub last: u64,
}

/// A stored document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Document {
    /// The stream to append to.
    pub key: DocumentKey,
    /// The time of the last write.
    pub at: Timestamp,
    /// The content, an arbitrary text.
    pub data: String,
}

/// A query for documents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DocumentList {
    /// The kind to list.
    pub kind: String,
    /// The tenant to list; `None` lists all tenants.
    pub tenant: Option<Tenant>,
    /// Of which session; those of all sessions and of none if none is named. Counts only with a tenant.
    pub session: Option<SessionId>,
    /// Only those after this one.
    pub after: Option<DocumentKey>,
    /// How many at most.
    pub max: usize,
}

impl Writes {
    /// Returns the write of [`Records::probe`]: one document, the same for all.
    pub fn probe(at: Timestamp) -> Self {
        let key = DocumentKey::of_tenant(&Tenant::default(), "probe", "probe");
        Self { puts: vec![Document { key, at, data: String::new() }], ..Self::default() }
    }

    /// Returns what must be there already: each once, in the order of the keys.
    pub fn required(&self) -> BTreeSet<&DocumentKey> {
        let mut required: BTreeSet<&DocumentKey> = self.requires.iter().collect();
        self.puts.iter().for_each(|it| _ = required.remove(&it.key));
        required
    }

    /// Whether there is nothing to write.
    pub fn is_empty(&self) -> bool {
        let Self { records, puts, creates, deletes, drops, requires: _ } = self;
        let has_documents = !(puts.is_empty() && creates.is_empty() && deletes.is_empty());
        !has_documents && records.is_empty() && drops.is_empty()
    }

    /// Checks that all names can be keys, and that no document is created that is put or created here already. Every
    /// implementation calls it first.
    pub fn check(&self) -> Result<(), StoreError> {
        self.check_names()?;
        let mut taken: BTreeSet<&DocumentKey> = self.puts.iter().map(|it| &it.key).collect();
        match self.creates.iter().find(|it| !taken.insert(&it.key)) {
            Some(twice) => Err(StoreError::document_exists(&twice.key)),
            None => Ok(()),
        }
    }

    fn check_names(&self) -> Result<(), StoreError> {
        let documents = self.puts.iter().chain(&self.creates).map(|it| &it.key);
        let kinds = self.records.iter().map(|it| &it.stream.kind);
        let kinds = kinds.chain(documents.clone().map(|it| &it.kind)).map(|it| ("kind", it, MAX_KIND_BYTES));
        let names = documents.map(|it| ("document's name", &it.name, MAX_NAME_BYTES));
        match kinds.chain(names).find(|(_, it, max)| it.len() > *max) {
            Some((what, it, max)) => Err(StoreError::NameTooLong { what, bytes: it.len(), max }),
            None => Ok(()),
        }
    }
}

/// The start of a list, see [`DocumentList::start`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListStart {
    /// The first tenant; empty if it is the first there is.
    pub tenant: String,
    /// The first session of that tenant; empty for what belongs to none, which comes first.
    pub session: String,
    /// The first name of that session.
    pub name: String,
}

impl DocumentList {
    /// Returns a list of all documents of a kind, of all tenants.
    pub fn of_kind(kind: &str) -> Self {
        Self { kind: kind.to_owned(), tenant: None, session: None, after: None, max: usize::MAX }
    }

    /// Returns the smallest sort key that a document of this list may have, for databases that compare keys byte by
    /// byte. Returns `None` if no document can be listed.
    pub fn start(&self) -> Option<ListStart> {
        let text = |id: Option<&SessionId>| id.map_or(String::new(), ToString::to_string);
        let least = ListStart {
            tenant: self.tenant.as_ref().map_or(String::new(), ToString::to_string),
            session: self.tenant.as_ref().map_or(String::new(), |_| text(self.session.as_ref())),
            name: String::new(),
        };
        let Some(after) = &self.after else { return Some(least) };
        // The very next name there is.
        let name = format!("{}\0", after.name);
        let next =
            ListStart { tenant: after.tenant.to_string(), session: text(after.session.as_ref()), name };
        let is_tenant_over = self.tenant.is_some() && next.tenant > least.tenant;
        let is_session_over = !least.session.is_empty() && next.session > least.session;
        match (&next.tenant, &next.session, &next.name) > (&least.tenant, &least.session, &least.name) {
            true if is_tenant_over || is_session_over => None,
            true => Some(next),
            false => Some(least),
        }
    }
}
