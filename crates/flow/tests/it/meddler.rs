//! A store in which somebody else does something at the worst moment: just before a certain call arrives.

use std::fmt;
use std::sync::{Arc, Mutex};

use contexture_compose::BoxFuture;
use contexture_history::Timestamp;
use contexture_session::{
    Document, DocumentKey, DocumentList, Extent, Record, Records, StoreFuture, StreamKey, Writes,
};

/// Before which call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Moment {
    /// A write that drops streams.
    Drop,
    /// A write that begins a run with a key.
    Start,
    /// Somebody begins to wait for a stream.
    Grown,
}

/// What is done then, once.
type Deed = (Moment, BoxFuture<'static, ()>);

/// A store with somebody else in it.
pub(crate) struct Meddler {
    records: Arc<dyn Records>,
    deed: Mutex<Option<Deed>>,
}

impl fmt::Debug for Meddler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Meddler")
    }
}

impl Meddler {
    pub(crate) fn new(records: Arc<dyn Records>) -> Arc<Self> {
        Arc::new(Self { records, deed: Mutex::default() })
    }

    /// Has something done before the next such call.
    pub(crate) fn before(&self, moment: Moment, deed: impl Future<Output = ()> + Send + 'static) {
        *self.deed.lock().unwrap() = Some((moment, Box::pin(deed)));
    }

    /// Whether it was done.
    pub(crate) fn is_done(&self) -> bool {
        self.deed.lock().unwrap().is_none()
    }

    async fn meddle(&self, moment: Moment) {
        let deed = self.deed.lock().unwrap().take_if(|it| it.0 == moment);
        if let Some((_, deed)) = deed {
            deed.await;
        }
    }
}

impl Records for Meddler {
    fn write(&self, writes: Writes) -> StoreFuture<'_, Vec<u64>> {
        Box::pin(async move {
            if !writes.drops.is_empty() {
                self.meddle(Moment::Drop).await;
            }
            if writes.creates.iter().any(|it| it.key.kind == "flow.key") {
                self.meddle(Moment::Start).await;
            }
            self.records.write(writes).await
        })
    }

    fn read(&self, stream: StreamKey, after: u64, max: usize) -> StoreFuture<'_, Vec<Record>> {
        self.records.read(stream, after, max)
    }

    fn read_back(&self, stream: StreamKey, before: Option<u64>, max: usize) -> StoreFuture<'_, Vec<Record>> {
        self.records.read_back(stream, before, max)
    }

    fn extent(&self, stream: StreamKey) -> StoreFuture<'_, Extent> {
        self.records.extent(stream)
    }

    fn grown(&self, stream: StreamKey, after: u64) -> StoreFuture<'_, ()> {
        Box::pin(async move {
            self.meddle(Moment::Grown).await;
            self.records.grown(stream, after).await
        })
    }

    fn documents(&self, keys: Vec<DocumentKey>) -> StoreFuture<'_, Vec<Document>> {
        self.records.documents(keys)
    }

    fn list(&self, list: DocumentList) -> StoreFuture<'_, Vec<Document>> {
        self.records.list(list)
    }

    fn prune(&self, kind: String, before: Timestamp, max: usize) -> StoreFuture<'_, u64> {
        self.records.prune(kind, before, max)
    }
}
