//! Runs that are stopped in the middle of something: time-outs, cancellation in every phase, sessions that go.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use contexture_agent::CancellationToken;
use contexture_compose::BoxFuture;
use contexture_flow::{
    Flow, Limits, Node, NodeContext, NodeError, Port, Question, QuestionKind, RunError, RunId, RunInfo,
    RunStatus, Runtime, Step,
};
use contexture_history::TurnStatus;
use contexture_session::conformance::{Interference, Layered, Operation, SystemTime};
use contexture_session::{MemoryStore, SessionId, StoreFuture, ThreadId};

use serde_json::{Value, json};

use crate::scene::Scene;

/// A scene whose store takes its time, as stores do.
fn on_slow_store() -> Scene {
    let store = Arc::new(MemoryStore::new(Arc::new(SystemTime)));
    let store = Arc::new(Layered { store, interference: Slow });
    Scene::on(store.clone(), store)
}

#[derive(Debug)]
struct Slow;

impl Interference for Slow {
    fn around<'a, T: Send + 'a>(&'a self, _: Operation, does: StoreFuture<'a, T>) -> StoreFuture<'a, T> {
        Box::pin(async move {
            tokio::time::sleep(Duration::from_millis(1)).await;
            let done = does.await;
            tokio::time::sleep(Duration::from_millis(1)).await;
            done
        })
    }
}

/// Returns what became of the turns of a thread.
async fn turns(scene: &Scene, thread: &str) -> Vec<TurnStatus> {
    let thread = scene.sessions.open_thread(&ThreadId::parse(thread).unwrap()).await.unwrap();
    thread.get().turns().iter().map(|it| it.status()).collect()
}

/// Drives a run, and cancels it when its log says so.
async fn cancelled_at(scene: &Scene, flow: &Flow, line: &str) -> RunInfo {
    let run = scene.start(flow, "s", json!({})).await;
    let cancel = async {
        while !scene.log(&run).await.iter().any(|it| it == line) {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        scene.runtime.cancel(&run).await.unwrap();
    };
    let (_, ()) = futures::join!(scene.drive(&run), cancel);
    let info = scene.drive(&run).await;
    assert_eq!((info.status, info.waits.len()), (RunStatus::Cancelled, 0), "{info:?}");
    assert_eq!(scene.runtime.due(None, 10).await.unwrap(), []);
    info
}

fn hanging(treated: Value) -> Value {
    let mut say = json!({"type": "llm_request", "prompt": "chat", "with": {"user": "!hang"}});
    say.as_object_mut().unwrap().extend(treated.as_object().unwrap().clone());
    json!({
        "nodes": {"say": say, "again": {"type": "llm_request", "prompt": "chat", "with": {"user": "Hello."}}},
        "edges": ["start -> say", if say["on_error"] == "emit" { "say.error -> again" } else { "say -> again" }],
    })
}

#[tokio::test]
async fn a_turn_that_takes_too_long_is_closed() {
    // So long that the turn has begun by then, also on a busy machine.
    let timed = |on_error: &str| hanging(json!({"timeout_seconds": 3, "on_error": on_error}));
    let (fails, emits) = (on_slow_store(), on_slow_store());
    let (one, two) = (fails.flow(timed("fail")), emits.flow(timed("emit")));
    let (failed, emitted) = futures::join!(fails.run(&one, "s", json!({})), emits.run(&two, "s", json!({})));
    assert_eq!(failed.error.unwrap().code, "timeout");
    assert_eq!(turns(&fails, "s").await, [TurnStatus::Interrupted]);
    assert_eq!(emitted.status, RunStatus::Completed, "{:?}", emitted.error);
    assert_eq!(turns(&emits, "s").await, [TurnStatus::Interrupted, TurnStatus::Completed]);
}

#[tokio::test]
async fn a_turn_is_closed_when_its_run_is_cancelled() {
    let scene = on_slow_store();
    let flow = scene.flow(hanging(json!({})));
    cancelled_at(&scene, &flow, "start say 1").await;
    let turns = turns(&scene, "s").await;
    assert!(turns.is_empty() || turns == [TurnStatus::Interrupted], "{turns:?}");
}

#[tokio::test(start_paused = true)]
async fn a_node_that_pauses_before_a_retry_is_cancelled_immediately() {
    let scene = Scene::new();
    let flow = scene.flow(json!({
        "nodes": {"say": {
            "type": "llm_request", "prompt": "chat", "with": {"user": "!fail"}, "retry": {"max": 3, "delay_seconds": 600},
        }},
        "edges": ["start -> say"],
    }));
    cancelled_at(&scene, &flow, "retry say 2").await;
}

#[tokio::test(start_paused = true)]
async fn a_node_that_waits_with_a_thread_is_cancelled_and_releases_it() {
    let scene = Scene::new();
    let flow = scene.flow(json!({
        "nodes": {"ask": {"type": "user_input", "append": true}},
        "edges": ["start -> ask"],
    }));
    let info = cancelled_at(&scene, &flow, "wait ask.1").await;
    let late = scene.runtime.answer(&info.run, "ask.1", json!("late")).await;
    assert!(matches!(late, Err(RunError::Over { .. })), "{late:?}");
    let info = scene.run(&flow, "s", json!({})).await;
    assert_eq!(scene.say(&info, "now").await.status, RunStatus::Completed);
    assert_eq!(scene.says("s").await, ["user: now"]);
}

#[tokio::test(start_paused = true)]
async fn a_pulled_node_is_cancelled_with_the_node_that_pulls() {
    let scene = Scene::new();
    let flow = scene.flow(json!({
        "nodes": {"ask": {"type": "user_input"}, "cache": {"type": "cache", "scope": "run", "with": {"key": 1}}},
        "edges": ["start -> cache", "ask.value -> cache.value"],
        "outputs": {"value": "cache.value"},
    }));
    cancelled_at(&scene, &flow, "wait ask.1").await;
    let info = scene.run(&flow, "s", json!({})).await;
    assert_eq!(scene.say(&info, "now").await.outputs["value"], json!("now"));
}

#[tokio::test(start_paused = true)]
async fn of_an_answer_and_the_word_to_stop_the_word_counts() {
    for answers_first in [true, false] {
        let scene = Scene::new();
        let flow = scene.flow(json!({
            "nodes": {"ask": {"type": "user_input", "append": true}, "say": {"type": "llm_request", "prompt": "chat"}},
            "edges": ["start -> ask", "ask.value -> say.user"],
        }));
        let info = scene.run(&flow, "s", json!({})).await;
        if answers_first {
            scene.runtime.answer(&info.run, "ask.1", json!("yes")).await.unwrap();
            scene.runtime.cancel(&info.run).await.unwrap();
        } else {
            scene.runtime.cancel(&info.run).await.unwrap();
            scene.runtime.answer(&info.run, "ask.1", json!("yes")).await.unwrap();
        }
        let info = scene.drive(&info.run).await;
        assert_eq!(info.status, RunStatus::Cancelled);
        assert_eq!(scene.runtime.due(None, 10).await.unwrap(), []);
        assert_eq!(scene.parrot.requests.lock().unwrap().len(), 0);
    }
}

#[tokio::test]
async fn a_run_whose_session_goes_is_left() {
    let scene = on_slow_store();
    let flow = scene.flow(hanging(json!({})));
    let run: RunId = scene.start(&flow, "s", json!({})).await;
    let delete = async {
        while scene.parrot.requests.lock().unwrap().is_empty() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        scene.sessions.delete(&SessionId::parse("s").unwrap()).await.unwrap();
    };
    let drive = scene.runtime.drive(&run, CancellationToken::new());
    let drive = tokio::time::timeout(Duration::from_secs(60), drive);
    let (driven, ()) = futures::join!(drive, delete);
    assert!(matches!(driven, Ok(Err(RunError::Driven { .. } | RunError::NotFound { .. }))), "{driven:?}");
    assert_eq!(scene.runtime.due(None, 10).await.unwrap(), []);
}

#[tokio::test(start_paused = true)]
async fn an_error_of_a_pulled_node_reaches_the_node_that_pulls() {
    let scene = Scene::new();
    let flow = scene.flow(json!({
        "nodes": {
            "say": {"type": "llm_request", "prompt": "chat", "with": {"user": "!fail"}, "on_error": "emit"},
            "cache": {"type": "cache", "with": {"key": 1}},
        },
        "edges": ["start -> cache", "say.text -> cache.value"],
    }));
    let info = scene.run(&flow, "s", json!({})).await;
    assert_eq!(
        (info.node.as_deref(), info.error.unwrap().code.as_str()),
        (Some("cache"), "flow_missing_input")
    );
}

/// Waits for an answer, and then does as it is told; counts how often it got one.
#[derive(Debug)]
struct Told {
    does: &'static str,
    n: Arc<AtomicU32>,
}

impl Node for Told {
    fn inputs(&self) -> Vec<Port> {
        Vec::new()
    }

    fn outputs(&self) -> Vec<Port> {
        Vec::new()
    }

    fn run(self: Arc<Self>, cx: NodeContext) -> BoxFuture<'static, Result<Step, NodeError>> {
        Box::pin(async move {
            if cx.answer.is_none() {
                let (message, schema) = (String::new(), json!({}));
                return Ok(Step::Wait(Question {
                    kind: QuestionKind::Input,
                    message,
                    schema,
                    about: Value::Null,
                }));
            }
            self.n.fetch_add(1, Ordering::Relaxed);
            match self.does {
                "fail" => Err(NodeError::new("told", "told to")),
                "sleep" => {
                    cx.services.time.sleep(Duration::from_millis(50)).await;
                    Ok(Step::Done([].into()))
                }
                _ => Ok(Step::Done([].into())),
            }
        })
    }
}

#[tokio::test(start_paused = true)]
async fn nothing_begins_to_work_once_a_node_has_failed() {
    let scene = Scene::new();
    let n: [Arc<AtomicU32>; 3] = Default::default();
    let told = |does, idx: usize| Told { does, n: Arc::clone(&n[idx]) };
    let flow = Flow::builder("f")
        .limits(Limits { max_concurrency: 2, ..Limits::default() })
        .custom("a", told("fail", 0))
        .custom("b", told("sleep", 1))
        .custom("c", told("work", 2))
        .edge("start -> a")
        .edge("start -> b")
        .edge("start -> c")
        .build();
    let info = scene.run(&scene.add(flow.unwrap()), "s", json!({})).await;
    for wait in &info.waits {
        scene.runtime.answer(&info.run, &wait.id, json!(1)).await.unwrap();
    }
    let info = scene.drive(&info.run).await;
    assert_eq!((info.status, info.node.as_deref()), (RunStatus::Failed, Some("a")));
    assert_eq!(n.each_ref().map(|it| it.load(Ordering::Relaxed)), [1, 1, 0]);
}

/// Cancels its own run.
#[derive(Debug)]
struct Canceller(OnceLock<Runtime>);

impl Node for Canceller {
    fn inputs(&self) -> Vec<Port> {
        Vec::new()
    }

    fn outputs(&self) -> Vec<Port> {
        Vec::new()
    }

    fn run(self: Arc<Self>, cx: NodeContext) -> BoxFuture<'static, Result<Step, NodeError>> {
        Box::pin(async move {
            if let Some(runtime) = self.0.get() {
                runtime.cancel(&cx.run).await.unwrap();
            }
            Ok(Step::Done([].into()))
        })
    }
}

#[tokio::test(start_paused = true)]
async fn a_run_of_quick_nodes_notices_its_cancellation() {
    let scene = Scene::new();
    let cell = OnceLock::new();
    cell.set(scene.runtime.clone()).unwrap();
    let mut flow = Flow::builder("f").custom("it", Canceller(cell)).edge("start -> it");
    for idx in 0..50 {
        let before = if idx == 0 { "it".to_owned() } else { format!("n{}", idx - 1) };
        flow = flow.custom(format!("n{idx}"), Canceller(OnceLock::new())).edge(format!("{before} -> n{idx}"));
    }
    let info = scene.run(&scene.add(flow.build().unwrap()), "s", json!({})).await;
    assert_eq!(info.status, RunStatus::Cancelled);
}

#[tokio::test(start_paused = true)]
async fn a_follower_learns_that_a_run_was_deleted_with_its_session() {
    let scene = Scene::new();
    let info = scene
        .run(
            &scene.flow(json!({"nodes": {"ask": {"type": "user_input"}}, "edges": ["start -> ask"]})),
            "s",
            json!({}),
        )
        .await;
    let end = scene.runtime.last_number(&info.run).await.unwrap();
    let delete = async {
        tokio::time::sleep(Duration::from_millis(20)).await;
        scene.sessions.delete(&SessionId::parse("s").unwrap()).await.unwrap();
    };
    let next =
        async { tokio::time::timeout(Duration::from_secs(5), scene.runtime.grown(&info.run, end)).await };
    let (next, ()) = futures::join!(next, delete);
    assert!(matches!(next, Ok(Err(RunError::NotFound { .. }))), "{next:?}");
}

#[tokio::test(start_paused = true)]
async fn a_run_whose_flow_is_gone_can_still_be_cancelled() {
    let scene = Scene::new();
    let told = Told { does: "work", n: Arc::default() };
    let flow = Flow::builder("f").custom("a", told).edge("start -> a").build().unwrap();
    let info = scene.run(&scene.add(flow), "s", json!({})).await;
    scene.library.flows.lock().unwrap().clear();
    let driven = scene.runtime.drive(&info.run, CancellationToken::new()).await;
    assert!(matches!(driven, Err(RunError::FlowChanged { .. })), "{driven:?}");
    scene.runtime.cancel(&info.run).await.unwrap();
    let over = scene.drive(&info.run).await;
    assert_eq!((over.status, over.waits.len()), (RunStatus::Cancelled, 0));
    assert_eq!(scene.runtime.due(None, 10).await.unwrap(), []);
    assert_eq!(scene.log(&info.run).await.last().unwrap(), "over cancelled");
    let late = scene.runtime.answer(&info.run, &info.waits[0].id, json!(1)).await;
    assert!(matches!(late, Err(RunError::Over { .. })), "{late:?}");
}

#[tokio::test(start_paused = true)]
async fn a_turn_that_waits_for_approval_goes_with_its_run() {
    let scene = Scene::new();
    let flow = |user: &str| {
        scene.flow(json!({
            "nodes": {
                "kit": {"type": "tools", "names": ["pay"]},
                "say": {"type": "llm_request", "prompt": "chat", "with": {"user": user}},
            },
            "edges": ["start -> say", "kit.tools -> say.tools"],
        }))
    };
    let info = scene.run(&flow("!tool pay {}"), "s", json!({})).await;
    assert_eq!(info.status, RunStatus::Waiting);
    scene.runtime.cancel(&info.run).await.unwrap();
    assert_eq!(scene.drive(&info.run).await.status, RunStatus::Cancelled);
    assert_eq!(turns(&scene, "s").await, [TurnStatus::Interrupted]);
    let next = tokio::time::timeout(Duration::from_secs(5), scene.run(&flow("Hello."), "s", json!({}))).await;
    let next = next.unwrap();
    assert_eq!(next.status, RunStatus::Completed, "{:?}", next.error);
    assert_eq!(scene.calls.lock().unwrap().len(), 0);
}
