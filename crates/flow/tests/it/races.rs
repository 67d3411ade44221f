//! Runs that go while somebody else has to do with them.

use std::sync::Arc;
use std::time::Duration;

use contexture_flow::{Flow, RunError, RunStart, RunStatus};
use contexture_history::Timestamp;
use contexture_session::conformance::SystemTime;
use contexture_session::{DocumentList, MemoryStore, Records, SessionId, Writes};
use contexture_testkit::{TokioTime, timeless};
use futures::StreamExt;
use serde_json::json;

use crate::fuse::Fuse;
use crate::meddler::{Meddler, Moment};
use crate::scene::Scene;

/// A process with somebody else in its store, and that somebody's own process.
struct Crowd {
    meddler: Arc<Meddler>,
    records: Arc<dyn Records>,
    scene: Scene,
    other: Scene,
    flow: Flow,
}

impl Crowd {
    fn new() -> Self {
        let (clock, store) = (Arc::new(TokioTime::new()), Arc::new(MemoryStore::new(Arc::new(SystemTime))));
        let meddler = Meddler::new(store.clone());
        let scene = Scene::mortal(store.clone(), meddler.clone(), clock.clone(), Fuse::default());
        let other = Scene::mortal(store.clone(), store.clone(), clock, Fuse::default());
        let ask = json!({"id": "ask", "nodes": {"ask": {"type": "user_input"}}, "edges": ["start -> ask"]});
        other.flow(ask.clone());
        let flow = scene.flow(ask);
        Self { meddler, records: store, scene, other, flow }
    }
}

fn start(session: &str, key: &str) -> RunStart {
    let session = Some(SessionId::parse(session).unwrap());
    RunStart { session, input: json!({}), key: Some(key.to_owned()) }
}

#[test]
fn a_run_that_is_pruned_while_it_is_cancelled_leaves_nothing_behind() {
    timeless(async {
        let crowd = Crowd::new();
        let run = crowd.scene.start(&crowd.flow, "s", json!({})).await;
        let info = crowd.scene.drive(&run).await;
        crowd.other.runtime.cancel(&run).await.unwrap();
        let kind = "flow.due".to_owned();
        let list = DocumentList { kind, tenant: None, session: None, after: None, max: 9 };
        let mut marks = crowd.records.list(list).await.unwrap();
        marks.retain(|it| it.key.name.ends_with("/cancel"));
        assert_eq!(marks.len(), 1);
        assert_eq!(crowd.scene.drive(&info.run).await.status, RunStatus::Cancelled);
        // Who tells it once more has looked before its end, and writes only now.
        let records = Arc::clone(&crowd.records);
        crowd.meddler.before(Moment::Drop, async move {
            records.write(Writes { puts: marks, ..Writes::default() }).await.unwrap();
        });
        let forgotten = crowd.scene.runtime.forget(Timestamp(i64::MAX)).await.unwrap();
        assert_eq!((forgotten.runs, crowd.meddler.is_done()), (1, true));
        assert_eq!(crowd.scene.runtime.due(None, 9).await.unwrap(), []);
    });
}

#[test]
fn a_follower_learns_that_a_run_is_being_deleted() {
    timeless(async {
        let crowd = Crowd::new();
        let run = crowd.scene.start(&crowd.flow, "s", json!({})).await;
        crowd.scene.drive(&run).await;
        let (other, session) = (crowd.other.clone(), run.session().clone());
        crowd.meddler.before(Moment::Grown, async move {
            assert!(other.runtime.delete_session(&session).await.unwrap());
        });
        let heard = crowd.scene.runtime.follow(&run, 0).collect::<Vec<_>>();
        let heard = tokio::time::timeout(Duration::from_secs(3600), heard).await.unwrap();
        let last = heard.last().unwrap();
        assert!(crowd.meddler.is_done());
        assert!(matches!(last, Err(RunError::NotFound { .. })), "{last:?}");
    });
}

#[test]
fn a_start_key_begins_a_run_even_if_another_run_had_it_briefly() {
    timeless(async {
        let crowd = Crowd::new();
        let (other, flow) = (crowd.other.clone(), crowd.flow.clone());
        crowd.meddler.before(Moment::Start, async move {
            let gone = other.runtime.start(&flow, start("x", "k")).await.unwrap();
            // The key stays behind.
            assert!(other.sessions.delete(gone.session()).await.unwrap());
        });
        let run = crowd.scene.runtime.start(&crowd.flow, start("s", "k")).await.unwrap();
        assert!(crowd.meddler.is_done());
        assert_eq!(crowd.scene.drive(&run).await.status, RunStatus::Waiting);
        assert_eq!(crowd.other.runtime.start(&crowd.flow, start("y", "k")).await.unwrap(), run);
    });
}
