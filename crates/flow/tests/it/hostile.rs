//! What nobody means well: values that are too deep, documents of another shape, limits that are reached.

use std::sync::Arc;

use contexture_agent::CancellationToken;
use contexture_compose::BoxFuture;
use contexture_flow::{
    CompileInputs, Flow, FlowDefinition, JoinPolicy, Node, NodeContext, NodeError, Port, PortType, PortValue,
    RunError, RunStatus, Step, Traits, lower,
};
use contexture_session::MemoryStore;
use contexture_session::conformance::SystemTime;
use serde_json::{Value, json};

use crate::scene::{Scene, rewrite};

/// Returns a list in a list, so many of them.
fn nested(depth: usize) -> Value {
    (0..depth).fold(json!(1), |value, _| json!([value]))
}

fn ask(value: &str) -> Value {
    json!({
        "nodes": {"ask": {"type": "user_input", "value": value}},
        "edges": ["start -> ask"],
        "outputs": {"value": "ask.value"},
    })
}

#[tokio::test]
async fn a_whole_number_with_a_point_is_an_integer() {
    let scene = Scene::new();
    let info = scene.run(&scene.flow(ask("integer")), "s", json!({})).await;
    let info = scene.say(&info, json!(5.0)).await;
    assert_eq!(
        (info.status, &info.outputs["value"]),
        (RunStatus::Completed, &json!(5.0)),
        "{:?}",
        info.error
    );
}

#[tokio::test]
async fn an_answer_that_is_too_deep_is_refused_and_the_wait_stays() {
    let scene = Scene::new();
    let info = scene.run(&scene.flow(ask("array")), "s", json!({})).await;
    let wait = &info.waits[0].id;
    let refused = scene.runtime.answer(&info.run, wait, nested(120)).await;
    assert!(matches!(refused, Err(RunError::AnswerInvalid { .. })), "{refused:?}");
    let info = scene.say(&info, nested(96)).await;
    assert_eq!(info.status, RunStatus::Completed, "{:?}", info.error);
}

#[tokio::test]
async fn an_input_that_is_too_deep_is_refused() {
    let scene = Scene::new();
    let flow = scene.flow(json!({
        "inputs": {"x": "array"},
        "nodes": {"ask": {"type": "user_input"}},
        "edges": ["start.x -> ask.data"],
    }));
    let start =
        |depth| contexture_flow::RunStart { input: json!({"x": nested(depth)}), ..Default::default() };
    let refused = scene.runtime.start(&flow, start(120)).await;
    assert!(matches!(refused, Err(RunError::InputInvalid { .. })), "{refused:?}");
    let run = scene.runtime.start(&flow, start(90)).await.unwrap();
    assert_eq!(scene.drive(&run).await.status, RunStatus::Waiting);
    assert_eq!(scene.drive(&run).await.status, RunStatus::Waiting, "it can be taken up again");
}

#[tokio::test]
async fn a_value_that_grows_too_deep_fails_the_node() {
    let scene = Scene::new();
    let mut nodes = serde_json::Map::new();
    let mut edges = vec![json!("start.input -> n0.a")];
    for idx in 0..130 {
        nodes.insert(format!("n{idx}"), json!({"type": "join", "inputs": {"a": "any"}}));
        if idx > 0 {
            edges.push(json!(format!("n{}.value -> n{idx}.a", idx - 1)));
        }
    }
    nodes.insert("ask".to_owned(), json!({"type": "user_input"}));
    edges.push(json!("n129.value -> ask.data"));
    let flow = scene.flow(json!({"nodes": nodes, "edges": edges}));
    let info = scene.run(&flow, "s", json!({})).await;
    assert_eq!(info.error.unwrap().code, "flow_value_too_deep");
    scene.events(&info.run).await;
}

#[test]
fn a_constant_that_is_too_deep_is_a_fault() {
    let document = json!({
        "nodes": {"t": {"type": "transform", "inputs": {"x": "any"}, "template": "{{ x }}", "with": {"x": nested(120)}}},
        "edges": ["start -> t"],
    });
    let invalid =
        lower(&FlowDefinition::read("f", &document).unwrap(), &CompileInputs::default()).unwrap_err();
    assert_eq!(invalid.faults[0].at, ["nodes", "t", "with", "x"]);
}

#[test]
fn a_join_of_any_keeps_no_input() {
    let document = json!({
        "nodes": {
            "first": {"type": "transform", "template": "kept"},
            "join": {"type": "join", "policy": "any", "inputs": {"a": "any", "b": "any"}, "keep": ["a"]},
        },
        "edges": ["start.input -> join.a", "start -> first", "first.value -> join.b"],
    });
    let invalid =
        lower(&FlowDefinition::read("f", &document).unwrap(), &CompileInputs::default()).unwrap_err();
    assert_eq!(invalid.faults[0].to_string(), "node `join` takes what comes first and can't keep `a`");
}

/// Flows in flows, so deep, with names as long as names may be.
fn deep_names(depth: usize) -> Result<Flow, contexture_flow::FlowInvalid> {
    let name = "n".repeat(64);
    let mut compile_inputs = CompileInputs::default();
    let inner = |idx: usize| match idx {
        0 => json!({"nodes": {&name: {"type": "user_input"}}, "edges": [format!("start -> {name}")]}),
        _ => json!({
            "nodes": {&name: {"type": "sub_flow", "flow": format!("f{}", idx - 1)}},
            "edges": [format!("start -> {name}")],
        }),
    };
    for idx in 0..depth {
        let id = format!("f{idx}");
        compile_inputs.flows.insert(id.clone(), Arc::new(FlowDefinition::read(&id, &inner(idx)).unwrap()));
    }
    lower(&FlowDefinition::read("root", &inner(depth)).unwrap(), &compile_inputs)
}

#[tokio::test]
async fn names_are_never_too_long_for_a_wait() {
    for depth in 1..16 {
        let scene = Scene::new();
        match deep_names(depth) {
            Ok(flow) => {
                let info = scene.run(&scene.add(flow), "s", json!({})).await;
                assert_eq!(info.status, RunStatus::Waiting);
            }
            Err(invalid) => assert_eq!(invalid.faults[0].code, "depth_exceeded", "{invalid}"),
        }
    }
}

#[test]
fn portals_do_not_explode() {
    let hops = ["a", "b", "c", "d", "e"];
    let mut nodes = serde_json::Map::new();
    for hop in hops {
        nodes.insert(format!("in-{hop}"), json!({"type": "portal_in", "portal": hop}));
        nodes.insert(format!("out-{hop}"), json!({"type": "portal_out", "portal": hop}));
    }
    nodes.insert("end".to_owned(), json!({"type": "parallel", "branches": ["x"]}));
    let mut edges = vec![json!("out-e -> end.value"); 40];
    edges.extend(vec![json!("start.input -> in-a.value"); 40]);
    for pair in hops.windows(2) {
        edges.extend(vec![json!(format!("out-{} -> in-{}.value", pair[0], pair[1])); 40]);
    }
    let document = json!({"nodes": nodes, "edges": edges});
    let invalid =
        lower(&FlowDefinition::read("f", &document).unwrap(), &CompileInputs::default()).unwrap_err();
    assert_eq!(invalid.faults[0].code, "flow_too_large", "{}", invalid.faults[0]);
}

/// A store that a test can reach into.
fn open() -> (Arc<MemoryStore>, Scene) {
    let store = Arc::new(MemoryStore::new(Arc::new(SystemTime)));
    (Arc::clone(&store), Scene::on(store.clone(), store))
}

#[tokio::test]
async fn a_document_of_another_shape_is_an_error_and_no_panic() {
    let damages: [fn(&mut Value); 7] = [
        |run_record| run_record["state"]["nodes"].as_array_mut().unwrap().truncate(1),
        |run_record| run_record["state"]["threads"] = json!([]),
        |run_record| run_record["state"]["nodes"].as_array_mut().unwrap().push(json!({"fired": 0})),
        |run_record| run_record["state"]["nodes"][1]["asked"] = json!([[77, 0]]),
        |run_record| run_record["state"]["nodes"][1]["asked"] = json!([[1, 77]]),
        |run_record| run_record["state"]["nodes"][1]["active"]["phase"] = json!({"pulling": [77]}),
        |run_record| {
            run_record["state"]["nodes"][2]["queues"] = json!([[], [], [], [], [], [], [], [{"data": 1}]])
        },
    ];
    for (idx, damage) in damages.into_iter().enumerate() {
        let (store, scene) = open();
        let flow = scene.flow(json!({
            "nodes": {"ask": {"type": "user_input"}, "say": {"type": "llm_request", "prompt": "chat"}},
            "edges": ["start -> ask", "ask.value -> say.user"],
        }));
        let info = scene.run(&flow, "s", json!({})).await;
        rewrite(&*store, &info.run, |record| {
            let mut run_record: Value = serde_json::from_str(&record).unwrap();
            damage(&mut run_record);
            run_record.to_string()
        })
        .await;
        // Where the wait was there may be something else.
        let _ = scene.runtime.answer(&info.run, &info.waits[0].id, json!("hi")).await;
        let driven = scene.runtime.drive(&info.run, CancellationToken::new()).await;
        assert!(matches!(driven, Err(RunError::Damaged { .. })), "{idx}: {driven:?}");
        scene.runtime.cancel(&info.run).await.unwrap();
        assert_eq!(scene.drive(&info.run).await.status, RunStatus::Cancelled);
    }
}

/// Starts with whatever comes first, and has a thread.
#[derive(Debug)]
struct First;

impl Node for First {
    fn inputs(&self) -> Vec<Port> {
        vec![Port::new("a", PortType::ANY), Port::new("thread", PortType::Thread)]
    }

    fn outputs(&self) -> Vec<Port> {
        vec![Port::new("a", PortType::ANY)]
    }

    fn traits(&self) -> Traits {
        Traits { join: JoinPolicy::Any, ..Traits::default() }
    }

    fn run(self: Arc<Self>, cx: NodeContext) -> BoxFuture<'static, Result<Step, NodeError>> {
        Box::pin(async move {
            let value = cx.inputs.get("a").cloned().unwrap_or(PortValue::data("nothing"));
            Ok(Step::done([("a", value)]))
        })
    }
}

#[tokio::test]
async fn a_thread_that_is_kept_does_not_start_a_race() {
    let scene = Scene::new();
    let flow = Flow::builder("f")
        .custom("first", First)
        .edge("start.thread -> first.thread")
        .edge("start.input -> first.a")
        .output("a", "first.a")
        .build();
    let info = scene.run(&scene.add(flow.unwrap()), "s", json!({})).await;
    assert_eq!((info.status, &info.outputs["a"]), (RunStatus::Completed, &json!({})), "{:?}", info.error);
}

#[test]
fn schemas_reach_nothing_outside() {
    let faults = |schema: Value| {
        let document = json!({"inputs": {"x": schema}});
        let made = FlowDefinition::read("f", &document);
        made.map(|_| String::new()).unwrap_or_else(|err| err.to_string())
    };
    for schema in [
        json!({"$ref": "http://127.0.0.1:1/x"}),
        json!({"$ref": "file:///etc/passwd"}),
        json!({"$ref": "#/nowhere"}),
    ] {
        let said = faults(schema);
        assert!(said.contains("cannot use this JSON Schema") && said.contains("leads nowhere"), "{said}");
    }
}

#[tokio::test]
async fn a_schema_in_a_circle_is_refused_and_an_error_does_not_quote_all() {
    let circles = [
        json!({"$ref": "#"}),
        json!({"allOf": [{"$ref": "#"}]}),
        json!({"not": {"$ref": "#"}}),
        json!({"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}, "$ref": "#/$defs/a"}),
    ];
    let asking = |schema: Value| json!({"nodes": {"ask": {"type": "user_input", "value": schema}}, "edges": ["start -> ask"]});
    for circle in circles {
        let said = FlowDefinition::read("f", &asking(circle)).map_err(|err| err.to_string()).err();
        assert!(said.as_deref().is_some_and(|it| it.contains("refers to itself")), "{said:?}");
    }
    let scene = Scene::new();
    let flow = scene.flow(asking(json!({"type": "array", "maxItems": 1})));
    let info = scene.run(&flow, "s", json!({})).await;
    let answered = scene.runtime.answer(&info.run, "ask.1", json!(vec!["x"; 100_000])).await;
    let said = answered.map_err(|err| err.to_string()).err().unwrap_or_default();
    assert!(!said.is_empty() && said.chars().count() < 1000, "{}", said.len());
}

#[tokio::test]
async fn an_answer_that_is_too_large_is_refused_and_the_wait_stays() {
    let scene = Scene::new();
    let info = scene.run(&scene.flow(ask("string")), "s", json!({})).await;
    let refused = scene.runtime.answer(&info.run, "ask.1", json!("x".repeat(5 << 20))).await;
    assert!(matches!(refused, Err(RunError::AnswerInvalid { .. })), "{refused:?}");
    let info = scene.say(&info, "x".repeat((4 << 20) - 2)).await;
    assert_eq!(info.status, RunStatus::Completed, "{:?}", info.error);
}

#[tokio::test]
async fn an_invalid_wait_id_is_no_wait() {
    let scene = Scene::new();
    let info = scene.run(&scene.flow(ask("string")), "s", json!({})).await;
    for wait in [
        "",
        "ask",
        "cancel",
        "ask.2",
        "\0",
        "a/b",
        "../ask.1",
        &"x".repeat(5000),
        "\u{1F980}",
        "%",
        "ask.1\n",
    ] {
        let answered = scene.runtime.answer(&info.run, wait, json!("x")).await;
        assert!(matches!(answered, Err(RunError::NoSuchWait { .. })), "{wait}: {answered:?}");
    }
}

#[test]
fn a_schema_that_is_too_deep_is_a_fault() {
    let schema = (0..120).fold(json!({"type": "string"}), |schema, _| json!({"items": schema}));
    let invalid = FlowDefinition::read("f", &json!({"inputs": {"x": schema}})).unwrap_err();
    assert!(invalid.to_string().contains("nested deeper"), "{invalid}");
}

#[tokio::test]
async fn a_pattern_that_tries_everything_gives_up() {
    let scene = Scene::new();
    let document = json!({
        "nodes": {"ask": {"type": "user_input", "value": {"type": "string", "pattern": "^(a+)+\\1b$"}}},
        "edges": ["start -> ask"],
    });
    let info = scene.run(&scene.flow(document), "s", json!({})).await;
    let answered = scene.runtime.answer(&info.run, "ask.1", json!("a".repeat(60))).await;
    assert!(matches!(answered, Err(RunError::AnswerInvalid { .. })), "{answered:?}");
}

/// Gives a thread that it was not given.
#[derive(Debug)]
struct Thief;

impl Node for Thief {
    fn inputs(&self) -> Vec<Port> {
        Vec::new()
    }

    fn outputs(&self) -> Vec<Port> {
        vec![Port::new("thread", PortType::Thread)]
    }

    fn run(self: Arc<Self>, _: NodeContext) -> BoxFuture<'static, Result<Step, NodeError>> {
        let thread = contexture_session::ThreadId::parse("other").unwrap();
        Box::pin(async move { Ok(Step::done([("thread", PortValue::Thread(thread))])) })
    }
}

#[tokio::test]
async fn the_thread_of_another_session_is_out_of_reach() {
    use contexture_flow::{InjectConfig, ManualInputConfig, NewThreadConfig, NodeKind};
    let scene = Scene::new();
    let hello = scene.flow(json!({
        "nodes": {"m": {"type": "manual_input", "text": "Mine."}}, "edges": ["start -> m"],
    }));
    scene.run(&hello, "other", json!({})).await;
    let kinds: [(NodeKind, &str); 4] = [
        (
            NodeKind::ManualInput(ManualInputConfig {
                text: "Ours.".to_owned(),
                role: contexture_message::Role::User,
            }),
            "thread",
        ),
        (NodeKind::InjectMessages(InjectConfig::default()), "thread"),
        (NodeKind::NewThread(NewThreadConfig { inherit_history: true, ..Default::default() }), "base"),
        (NodeKind::ReleaseThread, "thread"),
    ];
    for (kind, port) in kinds {
        let name = kind.name();
        let flow = Flow::builder("f")
            .custom("thief", Thief)
            .node("it", kind)
            .edge("start -> thief")
            .edge(format!("thief.thread -> it.{port}"))
            .build();
        let info = scene.run(&scene.add(flow.unwrap()), "s", json!({})).await;
        let is_harmless = info.status == RunStatus::Failed || name == "release_thread";
        assert!(is_harmless, "{name}: {info:?}");
        assert_eq!(scene.says("other").await, ["user: mine."], "{name}");
    }
}
