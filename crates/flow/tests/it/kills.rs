//! Processes that die at every step: whoever takes over brings the run to the same end.

use std::sync::Arc;

use contexture_flow::{CompileInputs, Flow, FlowDefinition, RunStatus, lower};
use contexture_session::{MemoryStore, Tenant};
use contexture_testkit::{TokioTime, timeless};
use serde_json::json;

use crate::fuse::{Fuse, Last};
use crate::scene::flow;
use crate::world::{Seen, World, is_same, once, payment, twice};

fn world(flow: Flow) -> World<MemoryStore> {
    let clock = Arc::new(TokioTime::new());
    World { store: Arc::new(MemoryStore::new(clock.clone())), time: clock, flow, tenant: Tenant::default() }
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

#[test]
fn tools_and_approvals_survive() {
    killed(&payment(), once, is_same);
    killed(&payment(), twice, is_same);
}

/// What is said in a thread before, in and behind a turn, and a copy of the thread.
pub(crate) fn threads() -> Flow {
    flow(json!({
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
    }))
}

#[test]
fn threads_survive() {
    killed(&threads(), once, is_same);
}

/// Models that are asked at the same time in threads of their own, and one beside them.
pub(crate) fn parallel_ways() -> Flow {
    flow(json!({
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
    }))
}

#[test]
fn parallel_ways_survive() {
    killed(&parallel_ways(), once, is_same);
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
    let compile_inputs =
        CompileInputs { flows: [("sub".to_owned(), sub)].into(), ..CompileInputs::default() };
    let flow = lower(&FlowDefinition::read("flow", &definition).unwrap(), &compile_inputs).unwrap();
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
