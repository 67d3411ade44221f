//! How nodes are treated: time-outs, retries, errors, limits, joins, cancellation.

use std::sync::Arc;
use std::time::Duration;

use contexture_agent::CancellationToken;
use contexture_compose::BoxFuture;
use contexture_flow::{
    Flow, JoinConfig, JoinPolicy, Limits, Node, NodeContext, NodeDefinition, NodeError, NodeKind, OnError,
    ParallelConfig, Port, PortType, PortValue, Retry, RunStatus, Step, TransformConfig,
};
use serde_json::json;

use crate::scene::Scene;

/// Gives what it is given, after a while; fails as often as it is told to.
#[derive(Debug, Default)]
struct Slow {
    millis: u64,
    failures: u32,
    panics: bool,
}

impl Node for Slow {
    fn inputs(&self) -> Vec<Port> {
        vec![Port::new("value", PortType::ANY)]
    }

    fn outputs(&self) -> Vec<Port> {
        vec![Port::new("value", PortType::ANY)]
    }

    fn run(self: Arc<Self>, cx: NodeContext) -> BoxFuture<'static, Result<Step, NodeError>> {
        Box::pin(async move {
            cx.services.time.sleep(Duration::from_millis(self.millis)).await;
            assert!(!self.panics, "told to");
            if cx.attempt <= self.failures {
                return Err(NodeError::new("flaky", format!("attempt {} failed", cx.attempt)));
            }
            let value = cx.inputs.get("value").cloned().unwrap_or(PortValue::data(cx.attempt));
            Ok(Step::done([("value", value)]))
        })
    }
}

const TWICE: Retry = Retry { max: 2, delay_seconds: 0.001 };

/// Returns a flow with one node of our own, treated in a certain way.
fn one(node: Slow, treated: impl FnOnce(NodeDefinition) -> NodeDefinition) -> Flow {
    let builder = Flow::builder("one").custom("it", node).edge("start -> it").output("value", "it.value");
    let definition = builder.definition().nodes["it"].clone();
    builder.node("it", treated(definition)).build().unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_node_that_takes_too_long_is_stopped_and_named() {
    let scene = Scene::new();
    let slow = Slow { millis: 60_000, ..Slow::default() };
    let flow = scene.add(one(slow, |it| NodeDefinition { timeout_seconds: Some(0.05), ..it }));
    let info = scene.run(&flow, "s", json!({})).await;
    assert_eq!((info.status, info.node.as_deref()), (RunStatus::Failed, Some("it")));
    assert_eq!(info.error.unwrap().code, "timeout");
}

#[tokio::test(start_paused = true)]
async fn a_node_is_tried_again_as_often_as_it_says() {
    let scene = Scene::new();
    let flow =
        scene.add(one(Slow { failures: 2, ..Slow::default() }, |it| NodeDefinition { retry: TWICE, ..it }));
    let info = scene.run(&flow, "s", json!({})).await;
    assert_eq!((info.status, &info.outputs["value"]), (RunStatus::Completed, &json!(3)));
    let log = scene.log(&info.run).await;
    assert_eq!(log[3..6], ["start it 1", "retry it 2", "retry it 3"], "{log:?}");
    let flow =
        scene.add(one(Slow { failures: 3, ..Slow::default() }, |it| NodeDefinition { retry: TWICE, ..it }));
    let info = scene.run(&flow, "s", json!({})).await;
    assert_eq!(info.error.unwrap().message, "attempt 3 failed");
}

#[tokio::test(start_paused = true)]
async fn an_error_can_be_an_output() {
    let scene = Scene::new();
    let builder = Flow::builder("one").custom("it", Slow { failures: 9, ..Slow::default() });
    let definition = builder.definition().nodes["it"].clone();
    let flow = builder
        .node("it", NodeDefinition { on_error: OnError::Emit, ..definition })
        .node("sorry", transform("error", "object", "Sorry: {{ error.message }}"))
        .edge("start -> it")
        .edge("it.error -> sorry.error")
        .output("text", "sorry.value")
        .build();
    let flow = scene.add(flow.unwrap());
    let info = scene.run(&flow, "s", json!({})).await;
    assert_eq!(
        (info.status, &info.outputs["text"]),
        (RunStatus::Completed, &json!("Sorry: attempt 1 failed"))
    );
}

fn transform(input: &str, of: &str, template: &str) -> NodeKind {
    let of = serde_json::from_value(json!(of)).unwrap();
    let inputs = [(input.to_owned(), of)].into_iter().collect();
    NodeKind::Transform(TransformConfig { inputs, template: template.to_owned(), output: None })
}

#[tokio::test(start_paused = true)]
async fn a_panic_is_an_error_of_the_node() {
    let scene = Scene::new();
    let flow = scene.add(one(Slow { panics: true, ..Slow::default() }, |it| it));
    let info = scene.run(&flow, "s", json!({})).await;
    assert_eq!((info.status, info.error.unwrap().code.as_str()), (RunStatus::Failed, "panicked"));
}

#[tokio::test(start_paused = true)]
async fn a_model_that_fails_is_tried_again_in_the_same_turn() {
    let scene = Scene::new();
    *scene.parrot.failures.lock().unwrap() = 1;
    let flow = scene.flow(json!({
        "nodes": {"say": {
            "type": "llm_request", "prompt": "chat", "with": {"user": "!flaky"}, "retry": {"max": 1, "delay_seconds": 0.001},
        }},
        "edges": ["start -> say"],
    }));
    let info = scene.run(&flow, "s", json!({})).await;
    assert_eq!(info.status, RunStatus::Completed, "{info:?}");
    assert_eq!(scene.says("s").await, ["user: !flaky", "assistant: re: !flaky"]);
}

/// Returns a race of two branches.
fn race(policy: JoinPolicy) -> Flow {
    let any = || serde_json::from_value(json!("any")).unwrap();
    let inputs = [("fast".to_owned(), any()), ("slow".to_owned(), any())].into_iter().collect();
    let branches = vec!["fast".to_owned(), "slow".to_owned()];
    Flow::builder("race")
        .node("fork", NodeKind::Parallel(ParallelConfig { branches }))
        .custom("fast", Slow::default())
        .custom("slow", Slow { millis: 50, ..Slow::default() })
        .node("join", NodeKind::Join(JoinConfig { inputs, policy }))
        .node("then", transform("it", "any", "{{ it | json }}"))
        .edge("start.input -> fork.value")
        .edge("fork.fast -> fast.value")
        .edge("fork.slow -> slow.value")
        .edge("fast.value -> join.fast")
        .edge("slow.value -> join.slow")
        .edge("join.value -> then.it")
        .output("value", "then.value")
        .build()
        .unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_join_waits_for_all_or_takes_the_first() {
    let scene = Scene::new();
    let all = scene.run(&scene.add(race(JoinPolicy::All)), "s", json!({})).await;
    assert_eq!(all.outputs["value"], json!("{\"fast\":{},\"slow\":{}}"));
    let log = scene.log(&all.run).await;
    let at = |line: &str| log.iter().position(|it| it == line).unwrap();
    assert!(at("start slow 1") < at("end fast 1"), "branches run at the same time: {log:?}");

    let any = scene.run(&scene.add(race(JoinPolicy::Any)), "s", json!({})).await;
    assert_eq!((any.status, &any.outputs["value"]), (RunStatus::Completed, &json!("{}")));
    let log = scene.log(&any.run).await;
    let at = |line: &str| log.iter().position(|it| it == line).unwrap();
    assert!(at("end then 1") < at("end slow 1"), "the first is enough: {log:?}");
    assert!(!log.contains(&"start join 2".to_owned()), "the second is left aside: {log:?}");
}

#[tokio::test(start_paused = true)]
async fn a_join_that_waits_in_vain_is_an_error_that_says_so() {
    let scene = Scene::new();
    let flow = scene.flow(json!({
        "inputs": {"n": "integer"},
        "nodes": {
            "which": {"type": "branch", "cases": {"small": "value < 10"}},
            "both": {"type": "join", "inputs": {"a": "any", "b": "any"}},
        },
        "edges": ["start.n -> which.value", "which.small -> both.a", "which.else -> both.b"],
    }));
    let info = scene.run(&flow, "s", json!({"n": 1})).await;
    assert_eq!((info.status, info.node.as_deref()), (RunStatus::Failed, Some("both")));
    let error = info.error.unwrap();
    assert_eq!(
        (error.code.as_str(), error.message.as_str()),
        ("flow_stalled", "node `both` waits for input `b`, which never arrives")
    );
}

#[tokio::test(start_paused = true)]
async fn steps_are_limited_between_pauses() {
    let scene = Scene::new();
    let flow = Flow::builder("chain")
        .limits(Limits { max_steps: 3, ..Limits::default() })
        .custom("a", Slow::default())
        .custom("b", Slow::default())
        .custom("c", Slow::default())
        .edge("start -> a")
        .edge("a -> b")
        .edge("b -> c")
        .build();
    let flow = scene.add(flow.unwrap());
    let info = scene.run(&flow, "s", json!({})).await;
    assert_eq!((info.node.as_deref(), info.error.unwrap().code.as_str()), (Some("c"), "flow_max_steps"));
}

#[tokio::test(start_paused = true)]
async fn what_arrives_is_checked_where_it_arrives() {
    let scene = Scene::new();
    let flow = Flow::builder("any")
        .custom("it", Slow::default())
        .node("text", transform("text", "string", "{{ text }}"))
        .edge("start.input -> it.value")
        .edge("it.value -> text.text")
        .build();
    let flow = scene.add(flow.unwrap());
    let info = scene.run(&flow, "s", json!({})).await;
    let error = info.error.unwrap();
    assert_eq!((info.node.as_deref(), error.code.as_str()), (Some("text"), "flow_type_mismatch"));
    assert_eq!(error.message, "input `text`: string is expected, not an object");
}

#[tokio::test(start_paused = true)]
async fn cancelling_is_a_state_and_leaves_the_thread_in_good_order() {
    let scene = Scene::new();
    let flow = scene.add(one(Slow { millis: 60_000, ..Slow::default() }, |it| it));
    let run = scene.start(&flow, "s", json!({})).await;
    let driving = {
        let (scene, run) = (scene.clone(), run.clone());
        tokio::spawn(async move { scene.drive(&run).await })
    };
    while !scene.log(&run).await.contains(&"start it 1".to_owned()) {
        tokio::task::yield_now().await;
    }
    assert_eq!(scene.runtime.cancel(&run).await.unwrap(), RunStatus::Running);
    let info = driving.await.unwrap();
    assert_eq!((info.status, info.error), (RunStatus::Cancelled, None));
    assert_eq!(scene.runtime.cancel(&run).await.unwrap(), RunStatus::Cancelled);
    assert_eq!(
        scene.runtime.drive(&run, CancellationToken::new()).await.unwrap().status,
        RunStatus::Cancelled
    );
    assert!(scene.runtime.due(None, 10).await.unwrap().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_run_keeps_the_flow_that_it_was_begun_with() {
    let scene = Scene::new();
    let document = |text: &str| {
        json!({
            "id": "chat",
            "nodes": {"ask": {"type": "user_input"}, "say": {"type": "transform", "template": text}},
            "edges": ["start -> ask", "ask -> say"],
            "outputs": {"text": "say.value"},
        })
    };
    let info = scene.run(&scene.flow(document("old")), "s", json!({})).await;
    scene.flow(document("new"));
    let info = scene.say(&info, "go").await;
    assert_eq!(info.outputs["text"], json!("old"));
}

#[tokio::test(start_paused = true)]
async fn unused_values_do_not_pile_up() {
    let scene = Scene::new();
    let flow = scene.flow(json!({
        "nodes": {
            "ask": {"type": "user_input"},
            "both": {"type": "join", "inputs": {"a": "any", "b": "any"}},
            "never": {"type": "branch", "cases": {"x": "value == 'x'"}},
        },
        "edges": ["start -> ask", "ask.value -> both.a", "ask.value -> never.value", "never.x -> both.b", "ask -> ask"],
    }));
    let mut info = scene.run(&flow, "s", json!({})).await;
    for _ in 0..1001 {
        assert_eq!(info.status, RunStatus::Waiting);
        info = scene.say(&info, "y").await;
    }
    assert_eq!((info.node.as_deref(), info.error.unwrap().code.as_str()), (Some("both"), "flow_queue_full"));
}
