//! Checks of streams and documents on a store.

mod documents;
mod life;
mod streams;

use std::sync::Arc;
use std::time::Duration;

use contexture_history::Timestamp;
use futures::future::BoxFuture;

pub use documents::{
    documents_are_listed, documents_are_written, documents_have_any_name, old_documents_are_forgotten,
    writes_are_all_or_nothing, writes_require_documents,
};
pub use life::{nothing_stays_behind_a_deleted_session, what_belongs_to_a_session_goes_with_it};
pub use streams::{
    growth_is_noticed, old_records_are_forgotten, record_writers_lose_nothing, records_are_numbered,
    streams_are_dropped, streams_are_kept_apart,
};

use super::support::TestNames;
use crate::records::{
    Document, DocumentKey, DocumentList, Extent, NewRecord, Record, Records, StreamKey, Writes,
};
use crate::{Names as _, NewSession, SessionId, SessionKey, Store, StoreError, Tenant};

/// Opens the store once more, as another process would.
pub type OpenRecords = Arc<dyn Fn() -> BoxFuture<'static, Opened> + Send + Sync>;

/// A store from both sides.
#[derive(Clone, Debug)]
pub struct Opened {
    /// Where sessions are.
    pub store: Arc<dyn Store>,
    /// Where their streams and documents are.
    pub records: Arc<dyn Records>,
}

impl Opened {
    /// Returns both sides of a store whose clones share it.
    pub fn new(store: impl Store + Records + Clone) -> Self {
        Self { store: Arc::new(store.clone()), records: Arc::new(store) }
    }
}

/// Nothing is waited for longer than this.
const SOON: Duration = Duration::from_secs(20);

/// A session in a separate tenant, and a kind that no other check uses.
struct Fixture {
    open: Opened,
    session: SessionKey,
    kind: String,
}

impl Fixture {
    async fn new(open: &OpenRecords) -> Fixture {
        let tenant = Tenant::parse(TestNames.next()).expect("a tenant");
        let session = SessionKey { tenant, session: SessionId::parse("s").expect("a name") };
        let fixture = Fixture { open: open().await, session, kind: TestNames.next() };
        fixture.create_session(&fixture.session).await;
        fixture
    }

    async fn create_session(&self, key: &SessionKey) {
        let new = NewSession { key: key.clone(), label: None, at: Timestamp(1) };
        self.open.store.create_session(new).await.expect("a new session");
    }

    async fn delete_session(&self) {
        let was_there = self.open.store.delete_session(self.session.clone()).await;
        assert!(was_there.expect("the store answers"));
    }

    /// A stream of the session.
    fn stream(&self) -> StreamKey {
        StreamKey::of_session(&self.session.tenant, &self.session.session, &self.kind)
    }

    /// A stream of no session.
    fn common(&self) -> StreamKey {
        StreamKey::of_tenant(&self.session.tenant, &self.kind)
    }

    /// A document of the session.
    fn key(&self, name: &str) -> DocumentKey {
        DocumentKey::of_session(&self.session.tenant, &self.session.session, &self.kind, name)
    }

    async fn try_write(&self, writes: Writes) -> Result<Vec<u64>, StoreError> {
        self.open.records.write(writes).await
    }

    async fn write(&self, writes: Writes) -> Vec<u64> {
        self.try_write(writes).await.expect("a write")
    }

    async fn append(&self, stream: &StreamKey, records: &[(i64, &str)]) -> Vec<u64> {
        let records = records.iter().map(|(at, data)| record(stream, *at, data)).collect();
        self.write(Writes { records, ..Writes::default() }).await
    }

    async fn put(&self, documents: &[Document]) {
        let numbers = self.write(Writes { puts: documents.to_vec(), ..Writes::default() }).await;
        assert!(numbers.is_empty());
    }

    async fn read(&self, stream: &StreamKey, after: u64, max: usize) -> Vec<Record> {
        self.open.records.read(stream.clone(), after, max).await.expect("the store answers")
    }

    /// Returns what a stream says, `number:data` by `number:data`.
    async fn said(&self, stream: &StreamKey) -> String {
        shown(&self.read(stream, 0, usize::MAX).await)
    }

    async fn said_back(&self, stream: &StreamKey, before: Option<u64>, max: usize) -> String {
        shown(&self.open.records.read_back(stream.clone(), before, max).await.expect("the store answers"))
    }

    async fn extent(&self, stream: &StreamKey) -> (u64, u64) {
        let Extent { forgotten, last } =
            self.open.records.extent(stream.clone()).await.expect("the store answers");
        (forgotten, last)
    }

    async fn documents(&self, keys: &[DocumentKey]) -> Vec<Document> {
        self.open.records.documents(keys.to_vec()).await.expect("the store answers")
    }

    /// Returns what documents say, and `-` for one that is not there.
    async fn texts(&self, keys: &[DocumentKey]) -> Vec<String> {
        let mut texts = Vec::new();
        for key in keys {
            let found = self.documents(std::slice::from_ref(key)).await;
            texts.push(found.first().map_or("-".to_owned(), |it| it.data.clone()));
        }
        texts
    }

    async fn list(&self, list: DocumentList) -> Vec<Document> {
        self.open.records.list(list).await.expect("the store answers")
    }

    /// All documents of the check's kind, in every tenant and session.
    fn everything(&self) -> DocumentList {
        DocumentList { kind: self.kind.clone(), tenant: None, session: None, after: None, max: usize::MAX }
    }

    async fn prune(&self, before: i64, max: usize) -> u64 {
        let pruned = self.open.records.prune(self.kind.clone(), Timestamp(before), max).await;
        pruned.expect("the store answers")
    }
}

fn record(stream: &StreamKey, at: i64, data: &str) -> NewRecord {
    NewRecord { stream: stream.clone(), at: Timestamp(at), data: data.to_owned() }
}

fn document(key: &DocumentKey, at: i64, data: &str) -> Document {
    Document { key: key.clone(), at: Timestamp(at), data: data.to_owned() }
}

fn shown(records: &[Record]) -> String {
    let shown: Vec<String> = records.iter().map(|it| format!("{}:{}", it.number, it.data)).collect();
    shown.join(" ")
}

async fn soon<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(SOON, future).await.expect("nothing is waited for in vain")
}
