//! A store that is away for a moment while a run is driven.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use contexture::SystemTime;
use contexture_history::Timestamp;
use contexture_message::Answer;
use contexture_model::Step;
use contexture_session::{
    Document, DocumentKey, DocumentList, Extent, MemoryStore, Record, Records, StoreError, StoreFuture,
    StreamKey, Writes,
};
use serde_json::{Value, json};

use crate::scene::{Ground, json_of};

/// Records that are away when a run's driver writes to its log for the first time.
#[derive(Debug)]
struct Away {
    records: Arc<MemoryStore>,
    was_away: AtomicBool,
}

impl Records for Away {
    fn write(&self, writes: Writes) -> StoreFuture<'_, Vec<u64>> {
        let is_driver = !writes.requires.is_empty()
            && writes.records.iter().any(|it| it.stream.kind.starts_with("flow.log"));
        if is_driver && !self.was_away.swap(true, Ordering::Relaxed) {
            let (place, detail) = ("the store".to_owned(), "it is away".to_owned());
            return Box::pin(async { Err(StoreError::Unavailable { place, detail }) });
        }
        self.records.write(writes)
    }

    fn read(&self, stream: StreamKey, after: u64, max: usize) -> StoreFuture<'_, Vec<Record>> {
        Records::read(&*self.records, stream, after, max)
    }

    fn read_back(&self, stream: StreamKey, before: Option<u64>, max: usize) -> StoreFuture<'_, Vec<Record>> {
        self.records.read_back(stream, before, max)
    }

    fn extent(&self, stream: StreamKey) -> StoreFuture<'_, Extent> {
        self.records.extent(stream)
    }

    fn grown(&self, stream: StreamKey, after: u64) -> StoreFuture<'_, ()> {
        self.records.grown(stream, after)
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

#[tokio::test(flavor = "multi_thread")]
async fn a_run_goes_on_when_the_store_is_there_again() {
    let store = Arc::new(MemoryStore::new(Arc::new(SystemTime)));
    let away = Arc::new(Away { records: store.clone(), was_away: AtomicBool::new(false) });
    let ground = Ground { store, records: away.clone() };
    let steps = vec![Step::Answer(Answer::text("Here."))];
    let scene = ground.instance_with(steps, &[("server.lease_seconds", "1")]).await;
    let body = json!({"input": {"text": "hi"}, "wait": true});
    let start = scene.post("/v1/flows/once/runs", body).send();
    // Long before the server would try a run again that can't be driven at all.
    let (status, run): (u16, Value) =
        json_of(tokio::time::timeout(Duration::from_secs(30), start).await.unwrap().unwrap()).await;
    assert!(away.was_away.load(Ordering::Relaxed));
    assert_eq!(
        (status, &run["status"], &run["outputs"]["text"]),
        (201, &json!("completed"), &json!("Here."))
    );
}
