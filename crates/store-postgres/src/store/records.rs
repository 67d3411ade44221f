//! Streams and documents of the store.

use contexture_history::Timestamp;
use contexture_session::StoreFuture;
use contexture_session::records::{
    Document, DocumentKey, DocumentList, Extent, Record, Records, StreamKey, Writes,
};

use super::PostgresStore;

impl Records for PostgresStore {
    fn write(&self, writes: Writes) -> StoreFuture<'_, Vec<u64>> {
        Box::pin(async move {
            let numbers = self.database().write_records(&writes).await?;
            let grown = writes.records.iter().zip(&numbers).filter(|(_, number)| **number > 0);
            grown.for_each(|(record, _)| self.announce_stream(&record.stream));
            writes.drops.iter().for_each(|it| self.announce_stream(it));
            Ok(numbers)
        })
    }

    fn read(&self, stream: StreamKey, after: u64, max: usize) -> StoreFuture<'_, Vec<Record>> {
        Box::pin(async move { self.database().records(&stream, after, max).await })
    }

    fn read_back(&self, stream: StreamKey, before: Option<u64>, max: usize) -> StoreFuture<'_, Vec<Record>> {
        Box::pin(async move { self.database().records_back(&stream, before, max).await })
    }

    fn extent(&self, stream: StreamKey) -> StoreFuture<'_, Extent> {
        Box::pin(async move { self.database().extent(&stream).await })
    }

    fn grown(&self, stream: StreamKey, after: u64) -> StoreFuture<'_, ()> {
        Box::pin(async move { self.notices().grown(self.database(), &stream, after).await })
    }

    fn documents(&self, keys: Vec<DocumentKey>) -> StoreFuture<'_, Vec<Document>> {
        Box::pin(async move { self.database().documents(&keys).await })
    }

    fn list(&self, list: DocumentList) -> StoreFuture<'_, Vec<Document>> {
        Box::pin(async move { self.database().list_documents(&list).await })
    }

    fn prune(&self, kind: String, before: Timestamp, max: usize) -> StoreFuture<'_, u64> {
        Box::pin(async move { self.database().prune(&kind, before, max).await })
    }
}
