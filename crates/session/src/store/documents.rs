//! Documents beside the logs: API keys, definitions of flows, what `cache` nodes remember. A document is one value under
//! a name; the last writer wins.
//!
//! Every implementation guarantees the following, and the conformance suite checks it:
//!
//! 1. A write is one commit. When it returns, it survives a crash of the process and of the machine.
//! 2. Nothing of a tenant is visible under another tenant's key.
//! 3. Documents of a session are deleted with it ([`Store::delete_session`](crate::Store::delete_session)), and nothing
//!    is written for a session that does not exist.

use contexture_history::Timestamp;

use crate::{SessionId, StoreError, StoreFuture, Tenant};

pub use crate::ids::DocumentKey;

/// How long the kind of a document may be, in bytes.
pub const MAX_KIND_BYTES: usize = 200;
/// How long the name of a document may be, in bytes: some databases can't find longer ones.
pub const MAX_NAME_BYTES: usize = 1024;

/// A place for documents. Every [`Store`](crate::Store) of this workspace is one too.
pub trait Documents: std::fmt::Debug + Send + Sync + 'static {
    /// Creates or replaces a document. One of a session that does not exist is skipped.
    fn put(&self, document: Document) -> StoreFuture<'_, ()>;

    /// Creates a document. One that exists already is [`StoreError::Exists`]; one of a session that does not exist is
    /// skipped.
    fn create(&self, document: Document) -> StoreFuture<'_, ()>;

    /// Deletes a document; a missing one is ignored.
    fn delete(&self, key: DocumentKey) -> StoreFuture<'_, ()>;

    /// Returns a document, if it exists.
    fn document(&self, key: DocumentKey) -> StoreFuture<'_, Option<Document>>;

    /// Lists the documents of a kind, of all tenants, that come after `after`: in the order of tenant, session and name,
    /// those that belong to no session first.
    fn list(&self, kind: String, after: Option<DocumentKey>, max: usize) -> StoreFuture<'_, Vec<Document>>;

    /// Verifies that writes are durable: makes a durable write of about the size of a turn, and checks the storage
    /// behind any cache. Callers limit how often this happens.
    fn probe(&self, at: Timestamp) -> StoreFuture<'_, ()> {
        self.put(Document::probe(at))
    }

    /// Prunes documents of a kind that are older than `before`, in all tenants, at most about `max` of them. Returns
    /// how many were removed.
    fn prune(&self, kind: String, before: Timestamp, max: usize) -> StoreFuture<'_, u64>;
}

/// The size of the document that a probe writes. A turn writes a little less: where a probe has room, so has a turn.
const PROBE_BYTES: usize = 48 * 1024;

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

impl DocumentKey {
    /// Returns the name of its session in a database: empty if it belongs to none. Real names are never empty.
    pub fn session_name(&self) -> &str {
        self.session.as_ref().map_or("", SessionId::as_str)
    }
}

impl Document {
    /// Returns what [`Documents::probe`] writes: one document, the same for all.
    pub fn probe(at: Timestamp) -> Self {
        let key = DocumentKey::of_tenant(&Tenant::default(), "probe", "probe");
        Self { key, at, data: " ".repeat(PROBE_BYTES) }
    }

    /// Checks that its names can be keys. Every implementation calls it before it writes.
    pub fn check(&self) -> Result<(), StoreError> {
        let kind = ("kind", &self.key.kind, MAX_KIND_BYTES);
        let name = ("document's name", &self.key.name, MAX_NAME_BYTES);
        match [kind, name].into_iter().find(|(_, it, max)| it.len() > *max) {
            Some((what, it, max)) => Err(StoreError::NameTooLong { what, bytes: it.len(), max }),
            None => Ok(()),
        }
    }
}
