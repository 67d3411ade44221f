//! Documents of the store.

use contexture_history::Timestamp;
use contexture_session::StoreFuture;
use contexture_session::documents::{Document, DocumentKey, DocumentList, Documents, Writes};
use rusqlite::Connection;

use super::{SqliteStore, size_of};
use crate::documents::prune::PruneDocuments;
use crate::documents::read;
use crate::documents::write::WriteDocuments;

impl Documents for SqliteStore {
    fn write(&self, writes: Writes) -> StoreFuture<'_, ()> {
        Box::pin(async move { self.writer()?.make(|| WriteDocuments::new(writes)).await })
    }

    fn probe(&self, at: Timestamp) -> StoreFuture<'_, ()> {
        Box::pin(async move {
            // First: a file that is not well is left alone.
            self.probe_file().await?;
            self.write(Writes::probe(at)).await
        })
    }

    fn documents(&self, keys: Vec<DocumentKey>) -> StoreFuture<'_, Vec<Document>> {
        let size = size_of(keys.len());
        let query = move |conn: &Connection| read::documents(conn, &keys);
        Box::pin(async move { self.readers()?.ask(size, query).await })
    }

    fn list(&self, list: DocumentList) -> StoreFuture<'_, Vec<Document>> {
        let size = size_of(list.max);
        let query = move |conn: &Connection| read::list(conn, &list);
        Box::pin(async move { self.readers()?.ask(size, query).await })
    }

    fn prune(&self, kind: String, before: Timestamp, max: usize) -> StoreFuture<'_, u64> {
        Box::pin(async move { self.writer()?.make(|| Ok(PruneDocuments { kind, before, max })).await })
    }
}
