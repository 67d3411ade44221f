//! Processes that die at every step: whoever takes over brings the run to the same end.

use std::collections::BTreeMap;
use std::sync::Arc;

use contexture_agent::CancellationToken;
use contexture_flow::{
    AskedKind, Flow, FlowDefinition, RunId, RunInfo, RunList, RunStart, RunStatus, Shelf, Wait, lower,
};
use contexture_session::conformance::SystemTime;
use contexture_session::{MemoryStore, Records, SessionId, SessionKey, Store, Tenant, Time};
use contexture_store_sqlite::{SqliteConfig, SqliteStore};
use serde_json::{Value, json};

use crate::clock::{Clock, timeless};
use crate::fuse::{Cut, Fuse, Last};
use crate::scene::{LEASE, Scene};

/// What can be seen of a run from outside, once it is as far as it gets.
#[derive(Debug, PartialEq)]
struct Seen {
    status: RunStatus,
    outputs: BTreeMap<String, Value>,
    error: Option<String>,
    /// What the threads say, by label; the main one has none.
    threads: BTreeMap<String, Vec<String>>,
    /// What tools did, in all processes.
    calls: Vec<Value>,
}

/// A store, and what is the same for all processes on it.
struct World<S> {
    store: Arc<S>,
    time: Arc<dyn Time>,
    flow: Flow,
}

impl<S: Store + Records> World<S> {
    /// Starts a process that has the life of a fuse.
    fn process(&self, fuse: &Fuse) -> Scene {
        let store = Arc::new(Cut { store: Arc::clone(&self.store), fuse: fuse.clone() });
        Scene::mortal(store.clone(), store, Arc::clone(&self.time), fuse.clone())
    }

    /// What a process does that is told to run the flow: it begins the run unless somebody has, and answers for everybody.
    async fn lives(&self, scene: &Scene) -> RunInfo {
        let session = Some(SessionId::parse("s").unwrap());
        let start = RunStart { session, input: json!({}), key: Some("once".to_owned()) };
        let run = scene.runtime.start(&self.flow, start).await.unwrap();
        loop {
            let info = scene.runtime.drive(&run, CancellationToken::new()).await.unwrap();
            let waits: Vec<&Wait> = info.waits.iter().filter(|it| said(it).is_some()).collect();
            if waits.is_empty() {
                return info;
            }
            for wait in waits {
                scene.runtime.answer(&run, &wait.id, said(wait).unwrap()).await.unwrap();
            }
        }
    }

    /// Lets processes live and die, one after the other; the last one lives.
    async fn history(&self, fuses: &[Fuse]) -> Seen {
        let mut calls = Vec::new();
        let mut is_taken_over = false;
        for fuse in fuses.iter().chain([&Fuse::default()]) {
            let scene = self.process(fuse);
            if is_taken_over {
                self.time.sleep(LEASE).await;
                check_due(&scene).await;
            }
            is_taken_over = true;
            let info = tokio::select! {
                info = self.lives(&scene) => Some(info),
                () = fuse.blown() => None,
            };
            calls.extend(scene.calls.lock().unwrap().drain(..));
            if let Some(info) = info {
                return self.seen(&scene, info, calls).await;
            }
        }
        panic!("the last process lives");
    }

    async fn seen(&self, scene: &Scene, info: RunInfo, calls: Vec<Value>) -> Seen {
        let session = SessionKey { tenant: Tenant::default(), session: info.session.clone() };
        let mut threads = BTreeMap::new();
        for thread in self.store.threads(session).await.unwrap() {
            let says = scene.says(thread.thread.as_str()).await;
            threads.insert(thread.label.unwrap_or_default(), says);
        }
        let error = info.error.map(|it| it.code);
        Seen { status: info.status, outputs: info.outputs, error, threads, calls }
    }
}

/// A run that goes on and has no driver is listed as such.
async fn check_due(scene: &Scene) {
    let due: Vec<RunId> = scene.runtime.due(None, 10).await.unwrap().into_iter().map(|it| it.1).collect();
    let list = RunList { max: 10, ..RunList::default() };
    for info in scene.runtime.list(&list).await.unwrap().runs {
        assert!(info.status != RunStatus::Running || due.contains(&info.run), "{info:?}");
    }
}

/// What everybody answers, if they answer at all.
fn said(wait: &Wait) -> Option<Value> {
    match (wait.asked.kind, wait.asked.message.as_str()) {
        (AskedKind::Approval, _) => Some(json!({"approve": true})),
        (AskedKind::Input, "") if wait.id.ends_with(".3") => None,
        (AskedKind::Input, "") => Some(json!(format!("This is {}.", wait.id))),
        (AskedKind::Input, message) => Some(json!(message)),
    }
}

fn world(flow: Flow) -> World<MemoryStore> {
    let clock = Arc::new(Clock::new());
    World { store: Arc::new(MemoryStore::new(clock.clone())), time: clock, flow }
}

fn flow(document: Value) -> Flow {
    lower(&FlowDefinition::read("flow", &document).unwrap(), &Shelf::default()).unwrap()
}

/// Lets processes die at every step, and compares what becomes of the run with `is_fine`.
fn killed(flow: &Flow, fuses: impl Fn(u64, Last) -> Vec<Fuse>, is_fine: impl Fn(&Seen, &Seen) -> bool) {
    let undisturbed = timeless(async { world(flow.clone()).history(&[]).await });
    assert_eq!(undisturbed.error, None);
    for last in [Last::Lost, Last::Made] {
        for k in 1.. {
            let fuses = fuses(k, last);
            let seen = timeless(async { world(flow.clone()).history(&fuses).await });
            let steps = fuses[0].steps();
            assert!(is_fine(&seen, &undisturbed), "{k} {last:?} {steps:?}\n{seen:#?}\n{undisturbed:#?}");
            if (steps.len() as u64) < k {
                break;
            }
        }
    }
}

fn once(k: u64, last: Last) -> Vec<Fuse> {
    vec![Fuse::at(k, last)]
}

/// The second process dies as well, a few steps after it took over.
fn twice(k: u64, last: Last) -> Vec<Fuse> {
    vec![Fuse::at(k, last), Fuse::at(1 + k % 7, last)]
}

fn is_same(seen: &Seen, undisturbed: &Seen) -> bool {
    let of = |it: &Seen| (it.status, it.outputs.clone(), it.error.clone(), it.threads.clone());
    of(seen) == of(undisturbed)
}

#[test]
fn a_chat_loop_survives() {
    let flow = flow(json!({
        "nodes": {
            "ask": {"type": "user_input"},
            "answer": {"type": "llm_request", "prompt": "chat"},
        },
        "edges": ["start -> ask", "ask.value -> answer.user", "answer -> ask"],
        "outputs": {"text": "answer.text"},
    }));
    killed(&flow, once, is_same);
    killed(&flow, twice, is_same);
}

/// A model that looks something up, somebody who wants to pay, and a payment that waits for approval.
fn payment() -> Flow {
    flow(json!({
        "nodes": {
            "ask": {"type": "user_input", "message": "!tool pay {\"eur\": 7}"},
            "look": {"type": "llm_request", "prompt": "chat", "repeat": true, "with": {"user": "!tool look {}"}},
            "pay": {"type": "llm_request", "prompt": "chat", "repeat": true},
            "tools": {"type": "tools", "names": ["look"]},
            "purse": {"type": "tools", "names": ["pay"]},
        },
        "edges": [
            "start -> look", "tools.tools -> look.tools", "look -> ask",
            "ask.value -> pay.user", "purse.tools -> pay.tools",
        ],
        "outputs": {"text": "pay.text"},
    }))
}

#[test]
fn tools_and_approvals_survive() {
    killed(&payment(), once, is_same);
    killed(&payment(), twice, is_same);
}

#[tokio::test]
async fn runs_on_sqlite_survive() {
    let undisturbed = on_sqlite(&[]).await;
    assert_eq!(undisturbed.status, RunStatus::Completed);
    for k in [2, 5, 9, 13, 17, 21, 25] {
        for last in [Last::Lost, Last::Made] {
            let fuses = once(k, last);
            let seen = on_sqlite(&fuses).await;
            // On a busy machine a sign of life may be on its way beside the step that it died at.
            assert!(fuses[0].steps().len() as u64 >= k, "it died");
            assert!(is_same(&seen, &undisturbed), "{k} {last:?}\n{seen:#?}\n{undisturbed:#?}");
        }
    }
}

async fn on_sqlite(fuses: &[Fuse]) -> Seen {
    let folder = tempfile::tempdir().unwrap();
    let config = SqliteConfig::new(Arc::new(SystemTime));
    let store = Arc::new(SqliteStore::open(folder.path().join("runs.db"), config).unwrap());
    World { store, time: Arc::new(SystemTime), flow: payment() }.history(fuses).await
}

#[test]
fn threads_survive() {
    let flow = flow(json!({
        "nodes": {
            "hello": {"type": "manual_input", "text": "Hello."},
            "side": {"type": "new_thread", "label": "side", "messages": [{"role": "user", "content": "First."}]},
            "before": {"type": "inject_messages", "position": "prepend", "messages": [
                {"role": "user", "content": "Before one."}, {"role": "assistant", "content": "Before two."},
            ]},
            "behind": {"type": "inject_messages", "messages": [
                {"role": "user", "content": "Behind one."}, {"role": "assistant", "content": "Behind two."},
            ]},
            "ask": {"type": "user_input"},
            "answer": {"type": "llm_request", "prompt": "expert"},
            "copy": {"type": "new_thread", "label": "copy", "inherit_history": true},
        },
        "edges": [
            "start -> hello", "hello -> side", "side.thread -> before.thread", "before.thread -> behind.thread",
            "behind.thread -> ask.thread", "ask.value -> answer.user", "ask.thread -> answer.thread",
            "answer.thread -> copy.base",
        ],
        "outputs": {"text": "answer.text"},
    }));
    killed(&flow, once, is_same);
}

#[test]
fn parallel_ways_survive() {
    let flow = flow(json!({
        "nodes": {
            "ways": {"type": "parallel", "branches": ["left", "right", "near"]},
            "left": {"type": "new_thread", "label": "left"},
            "right": {"type": "new_thread", "label": "right"},
            "one": {"type": "llm_request", "prompt": "chat", "with": {"user": "One."}},
            "two": {"type": "llm_request", "prompt": "expert", "with": {"user": "Two."}},
            "memo": {"type": "cache", "with": {"key": "k"}},
            "three": {"type": "llm_request", "prompt": "expert", "skip_history": true, "with": {"user": "Three."}},
            "all": {"type": "join", "inputs": {"one": "string", "two": "string", "three": "any"}},
            "text": {"type": "transform", "inputs": {"all": "object"},
                     "template": "{{ all.one }} {{ all.two }} {{ all.three }}"},
            "route": {"type": "intent_router", "intents": {"One": "It has one.", "Two": "It has two."}},
            "end": {"type": "manual_input", "text": "{{ data }}"},
        },
        "edges": [
            "start -> ways", "ways.left -> left", "ways.right -> right", "ways.near -> memo",
            "left.thread -> one.thread", "right.thread -> two.thread", "three.text -> memo.value",
            "one.text -> all.one", "two.text -> all.two", "memo.value -> all.three",
            "all.value -> text.all", "text.value -> route.text", "route.One -> end.data",
        ],
        "outputs": {"text": "end.text", "intent": "route.intent"},
    }));
    killed(&flow, once, is_same);
}

#[test]
fn a_sub_flow_survives() {
    let sub = json!({
        "inputs": {"topic": "string"},
        "nodes": {
            "ask": {"type": "user_input"},
            "answer": {"type": "llm_request", "prompt": "expert"},
        },
        "edges": ["start.topic -> ask.data", "ask.value -> answer.user"],
        "outputs": {"text": "answer.text"},
    });
    let definition = json!({
        "nodes": {
            "sub": {"type": "sub_flow", "flow": "sub", "with": {"topic": "Bread"}},
            "end": {"type": "manual_input", "text": "{{ data }}"},
        },
        "edges": ["start -> sub", "sub.text -> end.data"],
        "outputs": {"text": "end.text"},
    });
    let sub = Arc::new(FlowDefinition::read("sub", &sub).unwrap());
    let shelf = Shelf { flows: [("sub".to_owned(), sub)].into(), ..Shelf::default() };
    let flow = lower(&FlowDefinition::read("flow", &definition).unwrap(), &shelf).unwrap();
    killed(&flow, once, is_same);
}

#[test]
fn what_may_not_be_repeated_is_done_once_at_most() {
    let flow = flow(json!({
        "nodes": {
            "look": {"type": "tool_call", "tool": "look"},
            "pay": {"type": "tool_call", "tool": "pay"},
            "end": {"type": "manual_input", "text": "Done."},
        },
        "edges": ["start -> look", "look -> pay", "pay -> end"],
    }));
    let is_fine = |seen: &Seen, undisturbed: &Seen| {
        let n_calls = |tool: &str| seen.calls.iter().filter(|it| it[0] == tool).count();
        let is_interrupted = seen.error.as_deref() == Some("interrupted") && seen.status == RunStatus::Failed;
        n_calls("look") <= 1 && n_calls("pay") <= 1 && (is_same(seen, undisturbed) || is_interrupted)
    };
    killed(&flow, once, is_fine);
    killed(&flow, twice, is_fine);
}

#[test]
fn tools_of_a_model_are_called_once_at_most_unless_the_author_says_otherwise() {
    let flow = flow(json!({
        "nodes": {
            "look": {"type": "llm_request", "prompt": "chat", "with": {"user": "!tool look {}"}},
            "tools": {"type": "tools", "names": ["look"]},
        },
        "edges": ["start -> look", "tools.tools -> look.tools"],
    }));
    let is_fine = |seen: &Seen, undisturbed: &Seen| {
        let main = |it: &Seen| it.threads[""].len();
        seen.calls.len() <= 1 && seen.status == undisturbed.status && main(seen) == main(undisturbed)
    };
    killed(&flow, once, is_fine);
    killed(&flow, twice, is_fine);
}
