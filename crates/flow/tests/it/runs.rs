//! Runs from outside: several instances on one store, and people who answer all at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use contexture_agent::CancellationToken;
use contexture_compose::BoxFuture;
use contexture_flow::{
    CustomConfig, Flow, ManualInputConfig, Node, NodeContext, NodeDefinition, NodeError, NodeKind, Port,
    PortType, PortValue, Retry, RunError, RunEvent, RunList, RunStatus, Step, Traits, UserInputConfig,
};
use contexture_message::Role;
use contexture_session::{Log, MemoryStore};
use contexture_testkit::{TokioTime, timeless};
use futures::future::{join_all, pending};
use serde_json::{Value, json};

use crate::fuse::Fuse;
use crate::scene::{LEASE, Scene, log_of};

/// Returns instances on one store, in a time that stands while anybody works.
fn instances<const N: usize>() -> [Scene; N] {
    let clock = TokioTime::new();
    let store = Arc::new(MemoryStore::new(Arc::new(clock)));
    std::array::from_fn(|_| Scene::mortal(store.clone(), store.clone(), Arc::new(clock), Fuse::default()))
}

/// A node that does what a function says.
struct Does<F> {
    inputs: Vec<Port>,
    traits: Traits,
    does: F,
}

impl<F> std::fmt::Debug for Does<F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Does")
    }
}

impl<F> Node for Does<F>
where
    F: Fn(NodeContext) -> BoxFuture<'static, Result<Step, NodeError>> + Send + Sync + 'static,
{
    fn inputs(&self) -> Vec<Port> {
        self.inputs.clone()
    }

    fn outputs(&self) -> Vec<Port> {
        vec![Port::new("out", PortType::ANY)]
    }

    fn traits(&self) -> Traits {
        self.traits
    }

    fn run(self: Arc<Self>, cx: NodeContext) -> BoxFuture<'static, Result<Step, NodeError>> {
        (self.does)(cx)
    }
}

fn done() -> Result<Step, NodeError> {
    Ok(Step::done([("out", PortValue::data("done"))]))
}

fn custom(id: &str) -> NodeDefinition {
    NodeKind::Custom(CustomConfig { name: id.to_owned(), config: Value::Null }).into()
}

fn question(scene: &Scene) -> Flow {
    scene.flow(json!({
        "nodes": {
            "ask": {"type": "user_input", "message": "You?"},
            "say": {"type": "manual_input", "text": "{{ data }}"},
        },
        "edges": ["start -> ask", "ask.value -> say.data"],
        "outputs": {"text": "say.text"},
    }))
}

#[test]
fn of_two_drivers_one_gets_the_run() {
    timeless(async {
        let [one, two] = instances();
        let slow = Does {
            inputs: vec![Port::new("a", PortType::ANY)],
            traits: Traits::default(),
            does: |_| -> BoxFuture<'static, _> {
                Box::pin(async {
                    tokio::time::sleep(LEASE * 3).await;
                    done()
                })
            },
        };
        let slow = Flow::builder("slow")
            .custom("one", slow)
            .node("say", NodeKind::ManualInput(ManualInputConfig { text: "Me.".into(), role: Role::User }))
            .edge("start -> one")
            .edge("one -> say");
        let flow = one.add(slow.build().unwrap());
        two.add(flow.clone());
        let run = one.start(&flow, "s", json!({})).await;
        let drive = |scene: &Scene| {
            let (runtime, run) = (scene.runtime.clone(), run.clone());
            async move { runtime.drive(&run, CancellationToken::new()).await }
        };
        let done = join_all([drive(&one), drive(&two), drive(&one), drive(&two)]).await;
        let is_driven = |it: &&Result<_, RunError>| matches!(it, Err(RunError::Driven { .. }));
        assert_eq!((done[0].is_ok(), done.iter().filter(is_driven).count()), (true, 3), "{done:?}");
        assert_eq!(two.runtime.info(&run).await.unwrap().status, RunStatus::Completed);
        assert_eq!(one.says("s").await, ["user: me."]);
        assert_eq!(two.thread("s").await.get().turns().len(), 1);
        let starts = one.log(&run).await.into_iter().filter(|it| it.starts_with("start")).collect::<Vec<_>>();
        assert_eq!(starts, ["start start 1", "start one 1", "start say 1"]);
    });
}

#[test]
fn of_many_answers_one_counts() {
    timeless(async {
        let [one, two] = instances();
        let flow = question(&one);
        let info = one.run(&flow, "s", json!({})).await;
        let answers = (0..8).map(|number| {
            let runtime = if number % 2 == 0 { one.runtime.clone() } else { two.runtime.clone() };
            let run = info.run.clone();
            tokio::spawn(async move { runtime.answer(&run, "ask.1", json!(format!("{number}"))).await })
        });
        let answers: Vec<_> = join_all(answers).await.into_iter().map(Result::unwrap).collect();
        let counts = answers.iter().position(Result::is_ok).unwrap();
        for (number, answer) in answers.iter().enumerate().filter(|(number, _)| *number != counts) {
            assert!(matches!(answer, Err(RunError::Answered { .. })), "{number}: {answer:?}");
        }
        let info = two.drive(&info.run).await;
        assert_eq!((info.status, &info.outputs["text"]), (RunStatus::Completed, &json!(format!("{counts}"))));
        let late = one.runtime.answer(&info.run, "ask.1", json!("late")).await;
        assert!(matches!(late, Err(RunError::Over { .. })), "{late:?}");
    });
}

#[test]
fn a_run_that_was_answered_waits_no_more() {
    timeless(async {
        let [scene] = instances();
        let flow = question(&scene);
        let info = scene.run(&flow, "s", json!({})).await;
        assert_eq!((info.status, info.waits.len()), (RunStatus::Waiting, 1));
        scene.runtime.answer(&info.run, "ask.1", json!("yes")).await.unwrap();
        // Nobody drives it yet.
        let info = scene.runtime.info(&info.run).await.unwrap();
        assert_eq!((info.status, info.waits.len()), (RunStatus::Running, 0));
        assert_eq!(scene.drive(&info.run).await.status, RunStatus::Completed);
    });
}

#[test]
fn a_run_is_listed_inspected_cancelled_and_resumed_from_anywhere() {
    timeless(async {
        let [one, two] = instances();
        let does = Does {
            inputs: Vec::new(),
            traits: Traits::default(),
            does: |_| -> BoxFuture<'static, _> { Box::pin(pending()) },
        };
        let flow = Flow::builder("stuck").custom("stuck", does).edge("start -> stuck").build().unwrap();
        let flow = one.add(flow);
        let run = one.start(&flow, "s", json!({})).await;
        let list = RunList { status: Some(RunStatus::Running), max: 10, ..RunList::default() };
        assert_eq!(two.runtime.list(&list).await.unwrap().runs[0].run, run);
        let (driver, driven) = (one.clone(), run.clone());
        let drive = tokio::spawn(async move { driver.drive(&driven).await });
        tokio::time::sleep(LEASE * 5).await;
        assert!(matches!(
            two.runtime.drive(&run, CancellationToken::new()).await,
            Err(RunError::FlowChanged { .. } | RunError::Driven { .. })
        ));
        assert_eq!(two.runtime.cancel(&run).await.unwrap(), RunStatus::Running);
        assert_eq!(drive.await.unwrap().status, RunStatus::Cancelled);
        assert_eq!(two.runtime.info(&run).await.unwrap().status, RunStatus::Cancelled);
        let log = two.log(&run).await;
        assert_eq!(log[log.len() - 2..], ["end stuck: cancelled", "over cancelled"]);
        assert_eq!(two.runtime.due(None, 10).await.unwrap(), []);

        let info = one.run(&question(&one), "s", json!({})).await;
        let info = two.say(&info, "Me.").await;
        assert_eq!(info.status, RunStatus::Completed);
    });
}

#[test]
fn a_waiting_run_is_cancelled_by_its_next_driver() {
    timeless(async {
        let [one, two] = instances();
        let flow = question(&one);
        let info = one.run(&flow, "s", json!({})).await;
        two.runtime.cancel(&info.run).await.unwrap();
        assert_eq!(two.runtime.due(None, 10).await.unwrap().len(), 1);
        assert_eq!(two.drive(&info.run).await.status, RunStatus::Cancelled);
        assert_eq!(one.runtime.info(&info.run).await.unwrap().waits, []);
        assert_eq!(two.runtime.due(None, 10).await.unwrap(), []);
    });
}

#[test]
fn runs_without_a_driver_are_found_among_many_that_have_one() {
    timeless(async {
        let [one, two] = instances();
        let stuck = Does {
            inputs: Vec::new(),
            traits: Traits::default(),
            does: |_| -> BoxFuture<'static, _> { Box::pin(pending()) },
        };
        let stuck =
            one.add(Flow::builder("stuck").custom("stuck", stuck).edge("start -> stuck").build().unwrap());
        let mut drives = Vec::new();
        for number in 0..9 {
            let run = one.start(&stuck, &format!("a{number}"), json!({})).await;
            let driver = one.clone();
            drives.push(tokio::spawn(async move { driver.drive(&run).await }));
        }
        tokio::time::sleep(LEASE * 5).await;
        let lost = one.start(&question(&one), "z", json!({})).await;
        let due: Vec<_> = two.runtime.due(None, 3).await.unwrap().into_iter().map(|it| it.1).collect();
        assert_eq!(due, [lost]);
    });
}

#[test]
fn a_run_is_due_once_for_any_number_of_messages() {
    timeless(async {
        let [one] = instances();
        let flow = question(&one);
        let run = one.start(&flow, "s", json!({})).await;
        one.start(&flow, "s", json!({})).await;
        one.runtime.cancel(&run).await.unwrap();
        assert_eq!(one.runtime.due(None, 10).await.unwrap().len(), 2);
    });
}

/// Runs a node that may not be repeated, and stops its process while it works on its second attempt.
#[test]
fn a_node_that_is_tried_again_is_not_repeated_either() {
    timeless(async {
        let [one, two] = instances();
        let attempts = Arc::new(AtomicU32::new(0));
        let flow = || {
            let attempts = Arc::clone(&attempts);
            let does = move |cx: NodeContext| -> BoxFuture<'static, Result<Step, NodeError>> {
                attempts.fetch_add(1, Ordering::Relaxed);
                match cx.attempt {
                    1 => Box::pin(async { Err(NodeError::new("away", "not now")) }),
                    _ => Box::pin(pending()),
                }
            };
            let traits = Traits { is_repeatable: false, ..Traits::default() };
            Flow::builder("pay")
                .custom("pay", Does { inputs: Vec::new(), traits, does })
                .node(
                    "pay",
                    NodeDefinition { retry: Retry { max: 3, delay_seconds: 0.001 }, ..custom("pay") },
                )
                .edge("start -> pay")
                .build()
                .unwrap()
        };
        let (first, second) = (one.add(flow()), two.add(flow()));
        assert_eq!(first.fingerprint(), second.fingerprint());
        let run = one.start(&first, "s", json!({})).await;
        let drive = one.runtime.drive(&run, CancellationToken::new());
        tokio::select! { _ = drive => panic!("it is stuck"), () = tokio::time::sleep(LEASE / 2) => {} }
        tokio::time::sleep(LEASE * 2).await;
        let info = tokio::time::timeout(LEASE * 10, two.drive(&run)).await.unwrap();
        assert_eq!((info.status, info.error.unwrap().code.as_str()), (RunStatus::Failed, "interrupted"));
        assert_eq!(attempts.load(Ordering::Relaxed), 2);
    });
}

/// A node has failed, another one still works, and the process is lost.
#[test]
fn a_failed_run_has_failed_for_the_next_driver() {
    timeless(async {
        let [one, two] = instances();
        let flow = || {
            let node = |does: fn(NodeContext) -> BoxFuture<'static, Result<Step, NodeError>>| Does {
                inputs: Vec::new(),
                traits: Traits::default(),
                does,
            };
            Flow::builder("half")
                .custom("bad", node(|_| Box::pin(async { Err(NodeError::new("bad", "it is bad")) })))
                .custom("slow", node(|_| Box::pin(pending())))
                .edge("start -> bad")
                .edge("start -> slow")
                .build()
                .unwrap()
        };
        one.add(flow());
        let run = one.start(&two.add(flow()), "s", json!({})).await;
        let drive = one.runtime.drive(&run, CancellationToken::new());
        tokio::select! { _ = drive => panic!("it is stuck"), () = tokio::time::sleep(LEASE / 2) => {} }
        tokio::time::sleep(LEASE * 2).await;
        let info = two.drive(&run).await;
        assert_eq!((info.status, info.node.as_deref()), (RunStatus::Failed, Some("bad")));
        assert_eq!(info.error.unwrap().code, "bad");
    });
}

#[test]
fn what_a_producer_gives_can_be_what_a_run_comes_to() {
    timeless(async {
        let [one] = instances();
        let flow = one.flow(json!({
            "nodes": {
                "memo": {"type": "cache", "with": {"key": "k"}},
                "make": {"type": "transform", "template": "made"},
            },
            "edges": ["start -> memo", "make.value -> memo.value"],
            "outputs": {"made": "make.value"},
        }));
        assert_eq!(one.run(&flow, "s", json!({})).await.outputs["made"], "made");
    });
}

/// A cache whose value is on the way that was not taken.
#[test]
fn a_node_that_pulls_a_missing_input_is_not_retried_forever() {
    timeless(async {
        let [one] = instances();
        let flow = one.flow(json!({
            "nodes": {
                "memo": {"type": "cache", "with": {"key": "k"}},
                "which": {"type": "branch", "cases": {"big": "value > 3"}, "with": {"value": 1}},
            },
            "edges": ["start -> memo", "which.big -> memo.value"],
        }));
        let info = one.run(&flow, "s", json!({})).await;
        let error = info.error.unwrap();
        assert_eq!((info.node.as_deref(), error.code.as_str()), (Some("memo"), "flow_missing_input"));
        assert_eq!(error.message, "it pulled input `value` before, and nothing arrived");
    });
}

/// A node that writes to a thread asks for something that only another writer on the same thread can give.
#[test]
fn a_node_that_can_never_start_is_named() {
    timeless(async {
        let [one] = instances();
        let traits = Traits { writes: true, ..Traits::default() };
        let does = |cx: NodeContext| -> BoxFuture<'static, Result<Step, NodeError>> {
            let step = if cx.can_pull("a") { Ok(Step::Pull(vec!["a".to_owned()])) } else { done() };
            Box::pin(async { step })
        };
        let asks = Does { inputs: vec![Port::new("a", PortType::ANY).lazy()], traits, does };
        let gives = Does { inputs: Vec::new(), traits, does };
        let flow = Flow::builder("knot")
            .custom("asks", asks)
            .custom("gives", gives)
            .edge("start -> asks")
            .edge("gives.out -> asks.a")
            .build()
            .unwrap();
        let flow = one.add(flow);
        let info = one.run(&flow, "s", json!({})).await;
        let error = info.error.unwrap();
        assert_eq!((info.node.as_deref(), error.code.as_str()), (Some("gives"), "flow_stalled"));
        assert_eq!(error.message, "node `gives` can't start: `asks` holds the thread that it writes to");
    });
}

#[test]
fn nodes_on_several_threads_write_at_the_same_time_and_on_one_thread_never() {
    timeless(async {
        let [one] = instances();
        let (now, most) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
        let writer = || {
            let (now, most) = (Arc::clone(&now), Arc::clone(&most));
            let does = move |_: NodeContext| -> BoxFuture<'static, Result<Step, NodeError>> {
                let (now, most) = (Arc::clone(&now), Arc::clone(&most));
                Box::pin(async move {
                    most.fetch_max(now.fetch_add(1, Ordering::Relaxed) + 1, Ordering::Relaxed);
                    tokio::time::sleep(LEASE).await;
                    now.fetch_sub(1, Ordering::Relaxed);
                    done()
                })
            };
            let traits = Traits { writes: true, ..Traits::default() };
            Does { inputs: vec![Port::new("thread", PortType::Thread)], traits, does }
        };
        let thread = || NodeKind::NewThread(Default::default());
        let mut flow = Flow::builder("writers").node("t1", thread()).node("t2", thread());
        flow = flow.edge("start -> t1").edge("start -> t2");
        for (idx, thread) in
            ["t1.thread", "t2.thread", "t1.thread", "t2.thread", "start.thread"].iter().enumerate()
        {
            flow = flow.custom(format!("w{idx}"), writer()).edge(format!("{thread} -> w{idx}.thread"));
        }
        let flow = one.add(flow.build().unwrap());
        let info = one.run(&flow, "s", json!({})).await;
        assert_eq!((info.status, most.load(Ordering::Relaxed)), (RunStatus::Completed, 3));
        let mut writing = std::collections::BTreeSet::new();
        let mut threads = std::collections::BTreeMap::new();
        for event in one.events(&info.run).await {
            match event {
                RunEvent::NodeStart { node, thread, .. } if node.starts_with('w') => {
                    assert!(writing.insert(thread.clone()), "{node}: {thread:?}");
                    threads.insert(node, thread);
                }
                RunEvent::NodeEnd { node, .. } => _ = threads.remove(&node).map(|it| writing.remove(&it)),
                _ => {}
            }
        }
    });
}

/// Somebody says something on a thread whose turn waits for an approval.
#[test]
fn input_on_a_thread_whose_turn_waits_is_said_in_its_time() {
    timeless(async {
        let [one] = instances();
        let flow = one.flow(json!({
            "nodes": {
                "pay": {"type": "llm_request", "prompt": "chat", "with": {"user": "!tool pay {}"}},
                "purse": {"type": "tools", "names": ["pay"]},
                "ask": {"type": "user_input", "append": true},
            },
            "edges": ["start -> pay", "purse.tools -> pay.tools", "start -> ask"],
        }));
        let info = one.run(&flow, "s", json!({})).await;
        assert_eq!(info.waits[0].id, "pay.1");
        let info = one.say(&info, json!({"approve": true})).await;
        assert_eq!(info.waits[0].id, "ask.1");
        let info = one.say(&info, "And me?").await;
        assert_eq!((info.status, info.error), (RunStatus::Completed, None));
        assert_eq!(one.says("s").await.last().unwrap(), "user: and me?");
        assert_eq!(one.parrot.requests.lock().unwrap().len(), 2);
    });
}

#[test]
fn the_reported_time_of_a_node_is_its_working_time() {
    timeless(async {
        let [scene] = instances();
        let does = |cx: NodeContext| -> BoxFuture<'static, Result<Step, NodeError>> {
            Box::pin(async move {
                cx.services.time.sleep(Duration::from_millis(30)).await;
                if cx.attempt == 1 { Err(NodeError::new("away", "not now")) } else { done() }
            })
        };
        let flow = Flow::builder("slow")
            .custom("slow", Does { inputs: Vec::new(), traits: Traits::default(), does })
            .node("slow", NodeDefinition { retry: Retry { max: 1, delay_seconds: 60.0 }, ..custom("slow") })
            .node("ask", NodeKind::UserInput(UserInputConfig::default()))
            .edge("start -> slow")
            .edge("slow -> ask")
            .build()
            .unwrap();
        let flow = scene.add(flow);
        let info = scene.run(&flow, "s", json!({})).await;
        tokio::time::sleep(Duration::from_secs(1000)).await;
        scene.say(&info, "x").await;
        let worked = scene.library.worked.lock().unwrap().clone();
        // Neither the pause before its second attempt nor the wait for an answer is work.
        let of = |kind: &str| {
            worked.iter().filter(|it| it.0 == kind).map(|it| it.1.as_millis()).collect::<Vec<_>>()
        };
        assert_eq!(of("custom"), [30, 30], "{worked:?}");
        assert_eq!(of("user_input"), [0, 0], "{worked:?}");
    });
}

/// A state is kept now and then, so that the next driver need not replay everything.
#[test]
fn a_long_run_is_continued_from_its_middle() {
    timeless(async {
        let (clock, stop) = (TokioTime::new(), CancellationToken::new());
        let store = Arc::new(MemoryStore::new(Arc::new(clock)));
        let scene = || Scene::mortal(store.clone(), store.clone(), Arc::new(clock), Fuse::default());
        let (one, two) = (scene(), scene());
        let flow = |is_stuck: bool| {
            let node = |does: fn() -> BoxFuture<'static, Result<Step, NodeError>>| Does {
                inputs: Vec::new(),
                traits: Traits::default(),
                does: move |_| does(),
            };
            let mut flow = Flow::builder("long").custom("n0", node(|| Box::pin(async { done() })));
            for idx in 1..200 {
                flow = flow.custom(format!("n{idx}"), node(|| Box::pin(async { done() })));
                flow = flow.edge(format!("n{} -> n{idx}", idx - 1));
            }
            let last =
                if is_stuck { node(|| Box::pin(pending())) } else { node(|| Box::pin(async { done() })) };
            let flow = flow.custom("last", last).edge("start -> n0").edge("n199 -> last");
            flow.output("out", "last.out").build().unwrap()
        };
        two.add(flow(false));
        let run = one.start(&one.add(flow(true)), "s", json!({})).await;
        let drive = one.runtime.drive(&run, stop.clone());
        let stopped = async {
            tokio::time::sleep(LEASE).await;
            stop.cancel();
        };
        let (driven, ()) = futures::join!(drive, stopped);
        assert_eq!(driven.unwrap().status, RunStatus::Running);
        let head = store.head(log_of(&run)).await.unwrap().unwrap();
        let kept: Value = serde_json::from_str(&head.state).unwrap();
        let (upto, end) = (kept["upto"].as_u64().unwrap(), head.info.items);
        assert!(end > 400 && upto > end - 256, "{upto} of {end}");
        let info = two.drive(&run).await;
        assert_eq!((info.status, &info.outputs["out"]), (RunStatus::Completed, &json!("done")));
        let log = two.log(&run).await;
        let repeated = log.iter().filter(|it| it.starts_with("repeat")).collect::<Vec<_>>();
        assert_eq!(repeated, ["repeat last"], "{log:?}");
    });
}
