//! A store that is away for a moment while a run is driven.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use contexture::SystemTime;
use contexture_message::Answer;
use contexture_model::Step;
use contexture_session::conformance::{Interference, Layered, Operation};
use contexture_session::{MemoryStore, StoreError, StoreFuture};
use serde_json::{Value, json};

use crate::scene::{Ground, json_of};

/// A store that is away when something is appended for the first times.
#[derive(Clone, Debug, Default)]
struct Away(Arc<AtomicUsize>);

/// How many appends fail: the one of the driver, and what it tries again.
const N_AWAY: usize = 3;

impl Interference for Away {
    fn around<'a, T: Send + 'a>(
        &'a self,
        operation: Operation,
        does: StoreFuture<'a, T>,
    ) -> StoreFuture<'a, T> {
        if operation.name == "append" && self.0.fetch_add(1, Ordering::Relaxed) < N_AWAY {
            let (place, detail) = ("the store".to_owned(), "it is away".to_owned());
            return Box::pin(async { Err(StoreError::Unavailable { place, detail }) });
        }
        does
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_goes_on_when_the_store_is_there_again() {
    let away = Away::default();
    let store = Arc::new(MemoryStore::new(Arc::new(SystemTime)));
    let ground = Ground::of(Layered { store, interference: away.clone() });
    let steps = vec![Step::Answer(Answer::text("Here."))];
    let scene = ground.instance_with(steps, &[("server.lease_seconds", "1")]).await;
    let body = json!({"input": {"text": "hi"}, "wait": true});
    let start = scene.post("/v1/flows/once/runs", body).send();
    // Long before the server would try a run again that can't be driven at all.
    let (status, run): (u16, Value) =
        json_of(tokio::time::timeout(Duration::from_secs(30), start).await.unwrap().unwrap()).await;
    assert!(away.0.load(Ordering::Relaxed) > N_AWAY);
    assert_eq!(
        (status, &run["status"], &run["outputs"]["text"]),
        (201, &json!("completed"), &json!("Here."))
    );
}
