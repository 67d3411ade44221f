//! Streams and documents of the store.

use contexture_history::Timestamp;
use contexture_session::StoreFuture;
use contexture_session::records::{
    Document, DocumentKey, DocumentList, Extent, Record, Records, StreamKey, Writes,
};
use rusqlite::Connection;

use super::SqliteStore;
use crate::file::readers::Size;
use crate::records::prune::PruneRecords;
use crate::records::read;
use crate::records::write::WriteRecords;

/// Reads of more records or documents are left to the threads that read.
const SMALL: usize = 128;

fn size_of(count: usize) -> Size {
    if count <= SMALL { Size::Small } else { Size::Large }
}

impl Records for SqliteStore {
    fn write(&self, writes: Writes) -> StoreFuture<'_, Vec<u64>> {
        Box::pin(async move { self.writer()?.make(|| WriteRecords::new(writes)).await })
    }

    fn probe(&self, at: Timestamp) -> StoreFuture<'_, ()> {
        Box::pin(async move {
            // First: a file that is not well is left alone.
            self.probe_file().await?;
            self.write(Writes::probe(at)).await.map(drop)
        })
    }

    fn read(&self, stream: StreamKey, after: u64, max: usize) -> StoreFuture<'_, Vec<Record>> {
        let query = move |conn: &Connection| read::forward(conn, &stream, after, max);
        Box::pin(async move { self.readers()?.ask(size_of(max), query).await })
    }

    fn read_back(&self, stream: StreamKey, before: Option<u64>, max: usize) -> StoreFuture<'_, Vec<Record>> {
        let query = move |conn: &Connection| read::backward(conn, &stream, before, max);
        Box::pin(async move { self.readers()?.ask(size_of(max), query).await })
    }

    fn extent(&self, stream: StreamKey) -> StoreFuture<'_, Extent> {
        let query = move |conn: &Connection| Ok(read::extent(conn, &stream)?);
        Box::pin(async move { self.readers()?.ask(Size::Small, query).await })
    }

    fn grown(&self, stream: StreamKey, after: u64) -> StoreFuture<'_, ()> {
        Box::pin(async move {
            // In the list before looking: what is written in between is not missed.
            let wait = self.waiters().wait(stream.clone().into(), after);
            if Records::extent(self, stream).await?.last <= after {
                wait.notified().await;
            }
            Ok(())
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
        Box::pin(async move { self.writer()?.make(|| Ok(PruneRecords { kind, before, max })).await })
    }
}
