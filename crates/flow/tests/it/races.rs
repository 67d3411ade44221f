//! Runs that go while somebody else has to do with them.

use std::sync::Arc;
use std::time::Duration;

use contexture_agent::CancellationToken;
use contexture_compose::BoxFuture;
use contexture_flow::{
    Flow, Node, NodeContext, NodeError, NodeKind, Port, RunError, RunId, RunList, RunStart, RunStatus, Step,
    TransformConfig, UserInputConfig,
};
use contexture_history::Timestamp;
use contexture_session::conformance::Layered;
use contexture_session::{MemoryStore, SessionId};
use contexture_testkit::{TokioTime, timeless};
use serde_json::json;

use crate::fuse::Fuse;
use crate::meddler::Meddler;
use crate::scene::{LEASE, Scene};

/// A process with somebody else in its store, and that somebody's own process.
struct Crowd {
    meddler: Meddler,
    scene: Scene,
    other: Scene,
    flow: Flow,
}

impl Crowd {
    fn new() -> Self {
        let clock = Arc::new(TokioTime::new());
        let store = Arc::new(MemoryStore::new(clock.clone()));
        let meddler = Meddler::default();
        let seen = Arc::new(Layered { store: Arc::clone(&store), interference: meddler.clone() });
        let scene = Scene::mortal(seen.clone(), seen, clock.clone(), Fuse::default());
        let other = Scene::mortal(store.clone(), store.clone(), clock, Fuse::default());
        let ask = json!({"id": "ask", "nodes": {"ask": {"type": "user_input"}}, "edges": ["start -> ask"]});
        other.flow(ask.clone());
        let flow = scene.flow(ask);
        Self { meddler, scene, other, flow }
    }
}

/// Takes five seconds.
#[derive(Debug)]
struct Slow;

impl Node for Slow {
    fn inputs(&self) -> Vec<Port> {
        Vec::new()
    }

    fn outputs(&self) -> Vec<Port> {
        Vec::new()
    }

    fn run(self: Arc<Self>, cx: NodeContext) -> BoxFuture<'static, Result<Step, NodeError>> {
        Box::pin(async move {
            cx.services.time.sleep(Duration::from_secs(5)).await;
            Ok(Step::Done([].into()))
        })
    }
}

/// Somebody is asked while something else takes a while.
fn beside(crowd: &Crowd) -> Flow {
    let ask = NodeKind::UserInput(UserInputConfig::default());
    let more = NodeKind::Transform(TransformConfig { template: "x".into(), ..TransformConfig::default() });
    let flow = Flow::builder("beside")
        .node("ask", ask)
        .custom("slow", Slow)
        .node("more", more)
        .edge("start -> ask")
        .edge("start -> slow")
        .edge("slow -> more")
        .output("said", "ask.value")
        .build()
        .unwrap();
    crowd.other.add(flow.clone());
    crowd.scene.add(flow)
}

/// Drives a run, and has something done just before the driver's n-th append after somebody was asked.
async fn driven_with(crowd: &Crowd, run: &RunId, n: usize, deed: impl Future<Output = ()> + Send + 'static) {
    let (scene, which) = (crowd.scene.clone(), run.clone());
    let drive = tokio::spawn(async move { scene.drive(&which).await });
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(crowd.other.runtime.info(run).await.unwrap().waits.len(), 1);
    crowd.meddler.before_nth("append", n, deed);
    drive.await.unwrap();
    assert!(crowd.meddler.is_done());
}

#[test]
fn an_answer_that_arrives_before_the_driver_appends_is_taken_in_first() {
    // First it records that a node has ended, and then that everything waits.
    for n in [1, 2] {
        timeless(async move {
            let crowd = Crowd::new();
            let flow = beside(&crowd);
            let run = crowd.scene.start(&flow, "s", json!({})).await;
            let (other, which) = (crowd.other.clone(), run.clone());
            let answer = async move { other.runtime.answer(&which, "ask.1", json!("me")).await.unwrap() };
            driven_with(&crowd, &run, n, answer).await;
            let info = crowd.other.runtime.info(&run).await.unwrap();
            assert_eq!((info.status, &info.outputs["said"]), (RunStatus::Completed, &json!("me")));
            let log = crowd.other.log(&run).await;
            let place = |line: &str| log.iter().position(|it| it == line);
            assert!(
                place("answer ask.1 \"me\"") < place(["end slow 1", "end more 1"][n - 1]),
                "{n}: {log:?}"
            );
            assert!(place("resume ask") < place("end ask 1"), "{n}: {log:?}");
            assert_eq!(place("run.wait"), None, "{n}: {log:?}");
        });
    }
}

#[test]
fn a_cancellation_that_arrives_before_the_driver_appends_is_taken_in_first() {
    timeless(async {
        let crowd = Crowd::new();
        let flow = beside(&crowd);
        let run = crowd.scene.start(&flow, "s", json!({})).await;
        let (other, which) = (crowd.other.clone(), run.clone());
        let cancel = async move {
            assert_eq!(other.runtime.cancel(&which).await.unwrap(), RunStatus::Running);
        };
        driven_with(&crowd, &run, 2, cancel).await;
        assert_eq!(crowd.other.runtime.info(&run).await.unwrap().status, RunStatus::Cancelled);
        assert_eq!(crowd.other.runtime.due(None, 9).await.unwrap(), []);
    });
}

#[test]
fn a_driver_that_read_the_run_long_before_it_got_the_lease_records_that_the_run_is_running() {
    timeless(async {
        let crowd = Crowd::new();
        let ask = NodeKind::UserInput(UserInputConfig::default());
        let flow = Flow::builder("ask-first").node("ask", ask).custom("slow", Slow);
        let flow = flow.edge("start -> ask").edge("ask -> slow").build().unwrap();
        crowd.other.add(flow.clone());
        let run = crowd.scene.start(&crowd.scene.add(flow), "s", json!({})).await;
        // It reads a run that has not waited yet. Before it gets the lease, the run waits and is answered.
        let (other, which) = (crowd.other.clone(), run.clone());
        crowd.meddler.before("lease", async move {
            assert_eq!(other.drive(&which).await.status, RunStatus::Waiting);
            other.runtime.answer(&which, "ask.1", json!("me")).await.unwrap();
        });
        let (scene, which) = (crowd.scene.clone(), run.clone());
        let lost = tokio::spawn(async move { scene.drive(&which).await });
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert!(crowd.meddler.is_done());
        lost.abort();
        tokio::time::sleep(LEASE * 2).await;
        let list = RunList { status: Some(RunStatus::Running), max: 9, ..RunList::default() };
        assert_eq!(crowd.other.runtime.list(&list).await.unwrap().runs.len(), 1, "it is not over");
        assert_eq!(crowd.other.runtime.due(None, 9).await.unwrap().len(), 1);
    });
}

#[test]
fn of_two_answers_one_counts_whoever_looked_first() {
    timeless(async {
        let crowd = Crowd::new();
        let run = crowd.scene.start(&crowd.flow, "s", json!({})).await;
        crowd.scene.drive(&run).await;
        let (other, which) = (crowd.other.clone(), run.clone());
        crowd.meddler.before("append", async move {
            other.runtime.answer(&which, "ask.1", json!("first")).await.unwrap();
        });
        let late = crowd.scene.runtime.answer(&run, "ask.1", json!("second")).await;
        assert!(matches!(late, Err(RunError::Answered { .. })), "{late:?}");
        assert_eq!(crowd.scene.drive(&run).await.status, RunStatus::Completed);
        let answers = crowd.scene.log(&run).await.into_iter().filter(|it| it.starts_with("answer"));
        assert_eq!(answers.collect::<Vec<_>>(), ["answer ask.1 \"first\""]);
    });
}

#[test]
fn a_driver_that_stalls_beyond_its_lease_writes_nothing_more() {
    // Its lease is taken over before it records that a node has ended, or that it still lives.
    for call in ["append", "lease"] {
        timeless(async move {
            let crowd = Crowd::new();
            let flow = beside(&crowd);
            let run = crowd.scene.start(&flow, "s", json!({})).await;
            let (scene, which) = (crowd.scene.clone(), run.clone());
            let stalled =
                tokio::spawn(async move { scene.runtime.drive(&which, CancellationToken::new()).await });
            tokio::time::sleep(LEASE / 2).await;
            let (other, which) = (crowd.other.clone(), run.clone());
            let (sender, ended) = tokio::sync::oneshot::channel();
            crowd.meddler.before(call, async move {
                tokio::time::sleep(LEASE * 2).await;
                other.runtime.cancel(&which).await.unwrap();
                assert_eq!(other.drive(&which).await.status, RunStatus::Cancelled);
                sender.send(other.runtime.last_number(&which).await.unwrap()).unwrap();
            });
            let driven = stalled.await.unwrap();
            assert!(matches!(driven, Err(RunError::Driven { .. })), "{call}: {driven:?}");
            let last = crowd.other.runtime.last_number(&run).await.unwrap();
            assert_eq!(last, ended.await.unwrap(), "{call}");
        });
    }
}

fn start(session: &str, key: &str) -> RunStart {
    let session = Some(SessionId::parse(session).unwrap());
    RunStart { session, input: json!({}), key: Some(key.to_owned()), user: None }
}

#[test]
fn a_run_that_is_pruned_while_it_is_cancelled_leaves_nothing_behind() {
    timeless(async {
        let crowd = Crowd::new();
        let run = crowd.scene.start(&crowd.flow, "s", json!({})).await;
        crowd.scene.drive(&run).await;
        // Who tells it to stop has looked before its end, and writes only now.
        let (other, which) = (crowd.other.clone(), run.clone());
        crowd.meddler.before("append", async move {
            other.runtime.cancel(&which).await.unwrap();
            assert_eq!(other.drive(&which).await.status, RunStatus::Cancelled);
            assert_eq!(other.runtime.forget(Timestamp(i64::MAX)).await.unwrap().runs, 1);
        });
        let told = crowd.scene.runtime.cancel(&run).await;
        assert!(matches!(told, Err(RunError::NotFound { .. })), "{told:?}");
        assert!(crowd.meddler.is_done());
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
        crowd.meddler.before("feed_changed", async move {
            assert!(other.sessions.delete(&session).await.unwrap());
        });
        let end = crowd.scene.runtime.last_number(&run).await.unwrap();
        let grown = crowd.scene.runtime.grown(&run, end);
        let grown = tokio::time::timeout(Duration::from_secs(3600), grown).await.unwrap();
        assert!(crowd.meddler.is_done());
        assert!(matches!(grown, Err(RunError::NotFound { .. })), "{grown:?}");
    });
}

#[test]
fn a_start_key_begins_a_run_even_if_another_run_had_it_briefly() {
    timeless(async {
        let crowd = Crowd::new();
        let (other, flow) = (crowd.other.clone(), crowd.flow.clone());
        crowd.meddler.before("create_log", async move {
            let gone = other.runtime.start(&flow, start("x", "k")).await.unwrap();
            assert!(other.sessions.delete(gone.session()).await.unwrap());
        });
        let run = crowd.scene.runtime.start(&crowd.flow, start("s", "k")).await.unwrap();
        assert!(crowd.meddler.is_done());
        assert_eq!(crowd.scene.drive(&run).await.status, RunStatus::Waiting);
        assert_eq!(crowd.other.runtime.start(&crowd.flow, start("y", "k")).await.unwrap(), run);
    });
}
