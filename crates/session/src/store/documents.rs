//! Documents beside the logs: API keys, definitions of flows, prompt blocks. A document is one value under a name; the
//! last writer wins.
//!
//! Every implementation guarantees the following, and the conformance suite checks it:
//!
//! 1. One write is one commit. When it returns, it survives a crash of the process and of the machine.
//! 2. Nothing of a tenant is visible under another tenant's key.
//! 3. Documents of a session are deleted with it ([`Store::delete_session`](crate::Store::delete_session)), and nothing
//!    is written for a session that does not exist.

use std::collections::BTreeSet;

use contexture_history::Timestamp;

use crate::{SessionId, StoreError, StoreFuture, Tenant};

pub use crate::ids::DocumentKey;

/// How long the kind of a document may be, in bytes.
pub const MAX_KIND_BYTES: usize = 200;
/// How long the name of a document may be, in bytes: some databases can't find longer ones.
pub const MAX_NAME_BYTES: usize = 1024;

/// A place for documents. Every [`Store`](crate::Store) of this workspace is one too.
pub trait Documents: std::fmt::Debug + Send + Sync + 'static {
    /// Writes documents as one commit. Those of a session that does not exist are skipped.
    fn write(&self, writes: Writes) -> StoreFuture<'_, ()>;

    /// Returns the existing documents with these keys, in key order.
    fn documents(&self, keys: Vec<DocumentKey>) -> StoreFuture<'_, Vec<Document>>;

    /// Lists documents in the order of tenant, session and name.
    fn list(&self, list: DocumentList) -> StoreFuture<'_, Vec<Document>>;

    /// Verifies that writes are durable: makes a durable write of about the size of a turn, and checks the storage
    /// behind any cache. Callers limit how often this happens.
    fn probe(&self, at: Timestamp) -> StoreFuture<'_, ()> {
        self.write(Writes::probe(at))
    }

    /// Prunes documents of a kind that are older than `before`, in all tenants, at most about `max` of them. Returns
    /// how many were removed.
    fn prune(&self, kind: String, before: Timestamp, max: usize) -> StoreFuture<'_, u64>;
}

/// The size of the document that a probe writes. A turn writes a little less: where a probe has room, so has a turn.
const PROBE_BYTES: usize = 48 * 1024;

/// One commit: first the puts, then the creates, then the deletes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Writes {
    /// Documents to create or replace.
    pub puts: Vec<Document>,
    /// Documents to create; if one exists, the whole write fails with
    /// [`StoreError::Exists`](crate::StoreError::Exists).
    pub creates: Vec<Document>,
    /// Documents to delete; missing ones are ignored.
    pub deletes: Vec<DocumentKey>,
    /// Documents that must exist already or be put by this write; otherwise the whole write fails with
    /// [`StoreError::NotFound`](crate::StoreError::NotFound). A concurrent delete happens either before or after the
    /// write.
    pub requires: Vec<DocumentKey>,
}

/// A stored document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Document {
    /// Its key.
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
    /// Returns the write of [`Documents::probe`]: one document, the same for all.
    pub fn probe(at: Timestamp) -> Self {
        let key = DocumentKey::of_tenant(&Tenant::default(), "probe", "probe");
        Self { puts: vec![Document { key, at, data: " ".repeat(PROBE_BYTES) }], ..Self::default() }
    }

    /// Returns what must be there already: each once, in the order of the keys.
    pub fn required(&self) -> BTreeSet<&DocumentKey> {
        let mut required: BTreeSet<&DocumentKey> = self.requires.iter().collect();
        self.puts.iter().for_each(|it| _ = required.remove(&it.key));
        required
    }

    /// Whether there is nothing to write.
    pub fn is_empty(&self) -> bool {
        let Self { puts, creates, deletes, requires: _ } = self;
        puts.is_empty() && creates.is_empty() && deletes.is_empty()
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
        let kinds = documents.clone().map(|it| ("kind", &it.kind, MAX_KIND_BYTES));
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
