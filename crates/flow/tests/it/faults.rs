//! What is wrong with a flow is told at once, all of it, with node, port and edge.

use std::sync::Arc;

use contexture_flow::{CompileInputs, FlowDefinition, lower};
use serde_json::{Value, json};

/// Says what is wrong with a flow, a line a fault.
fn faults(document: Value) -> String {
    faults_on(document, &CompileInputs::default())
}

fn faults_on(document: Value, compile_inputs: &CompileInputs) -> String {
    let made = FlowDefinition::read("flow", &document).and_then(|it| lower(&it, compile_inputs));
    let faults = made.map(|_| Vec::new()).unwrap_or_else(|err| err.faults);
    let line = |at: &[String], text: String| format!("{}: {text}", at.join("."));
    faults.iter().map(|it| line(&it.at, format!("{it} [{}]", it.code))).collect::<Vec<_>>().join("\n")
}

#[test]
fn edges_are_checked_with_their_ports_and_types() {
    let faults = faults(json!({
        "inputs": {"n": "integer"},
        "nodes": {
            "ask": {"type": "user_input"},
            "say": {"type": "llm_request", "prompt": "p"},
            "half": {"type": "transform", "inputs": {"x": "number"}, "template": "{{ x }}", "output": "number"},
        },
        "edges": [
            "start -> ask", "ask.valu -> say.user", "ask.value -> say.text", "aks.value -> say.user",
            "start.thread -> say.user", "start.n -> say.user", "start.n -> half.x", "half.value -> say.thread",
            "ask.value", "ask.value -> say.user", "ask.value -> say.user",
        ],
    }));
    insta::assert_snapshot!(faults, @r"
    edges.3: there is no node `aks` (there are: ask, half, say, start) [flow_unknown_node]
    edges.8: invalid edge `ask.value` (write `node.output -> node.input`, or `node -> node`) [flow_edge_invalid]
    edges.1: edge `ask.valu -> say.user`: node `ask`: there is no output `valu` (there are: value, thread, done) [flow_unknown_port]
    edges.2: edge `ask.value -> say.text`: node `say`: there is no input `text` (there are: user, input, thread, tools, after) [flow_unknown_port]
    edges.4: edge `start.thread -> say.user`: output `thread` of `start` is thread, input `user` of `say` takes data (string) [flow_type_mismatch]
    edges.5: edge `start.n -> say.user`: output `n` of `start` is data (integer), input `user` of `say` takes data (string) [flow_type_mismatch]
    edges.7: edge `half.value -> say.thread`: output `value` of `half` is data (number), input `thread` of `say` takes thread [flow_type_mismatch]
    edges.10: edge `ask.value -> say.user`: duplicate edge [duplicate_id]
    ");
}

#[test]
fn what_is_missing_is_named() {
    let faults = faults(json!({
        "nodes": {
            "join": {"type": "join", "inputs": {"a": "any", "b": "any"}},
            "lost": {"type": "transform", "template": "x"},
            "cache": {"type": "cache"},
        },
        "edges": ["start -> join", "start.input -> cache.key"],
    }));
    insta::assert_snapshot!(faults, @r"
    nodes.join: node `join`: nothing leads to input `a` (add an edge `… -> join.a`, or a constant in `with`) [flow_missing_input]
    nodes.join: node `join`: nothing leads to input `b` (add an edge `… -> join.b`, or a constant in `with`) [flow_missing_input]
    nodes.cache: node `cache`: nothing leads to input `value` (add an edge `… -> cache.value`, or a constant in `with`) [flow_missing_input]
    ");
}

#[test]
fn a_node_that_nothing_leads_to_never_runs() {
    let faults = faults(json!({
        "nodes": {
            "a": {"type": "transform", "template": "x"},
            "lost": {"type": "transform", "template": "x"},
            "ask": {"type": "user_input"},
            "again": {"type": "transform", "template": "x"},
        },
        "edges": ["start -> a", "ask -> again", "again -> ask"],
    }));
    insta::assert_snapshot!(faults, @r"
    nodes.lost: node `lost` never runs: it is not reachable from the start [flow_unreachable]
    nodes.ask: node `ask` never runs: it is not reachable from the start [flow_unreachable]
    nodes.again: node `again` never runs: it is not reachable from the start [flow_unreachable]
    ");
}

#[test]
fn a_node_that_waits_for_what_comes_after_it_never_starts() {
    let document = |edge: &str| {
        json!({
            "nodes": {
                "all": {"type": "user_input"},
                "pick": {"type": "transform", "template": "x", "inputs": {"data": "string"}},
                "which": {"type": "user_input"},
            },
            "edges": ["start -> all", "all.value -> pick.data", "pick -> which", edge],
        })
    };
    assert_eq!(faults(document("which -> all")), "");
    insta::assert_snapshot!(faults(document("which -> pick")), @"nodes.pick: node `pick` never starts: it waits for `which`, which comes after it (lead both ways to it through a `join` with `policy: any`, or give the loop an entry of its own) [flow_never_starts]");
}

#[test]
fn a_loop_goes_through_a_pause() {
    let document = |third: &str| {
        json!({
            "nodes": {
                "a": {"type": "transform", "template": "x"},
                "b": {"type": "transform", "template": "x"},
                "c": {"type": third},
            },
            "edges": ["start -> a", "a -> b", "b -> c", "c -> a"],
        })
    };
    assert_eq!(faults(document("user_input")), "");
    insta::assert_snapshot!(faults(document("parallel").as_object().cloned().map(|mut it| {
        it["nodes"]["c"]["branches"] = json!(["x"]);
        Value::Object(it)
    }).unwrap()), @"nodes.a: a loop never waits: a -> b -> c -> a (let it go through a `user_input`) [flow_cycle]");
}

#[test]
fn lazy_inputs_are_asked_and_not_pushed() {
    let faults = faults(json!({
        "nodes": {
            "kit": {"type": "tools", "names": ["x"]},
            "more": {"type": "tools", "names": ["y"]},
            "say": {"type": "llm_request", "prompt": "p"},
            "then": {"type": "transform", "template": "x"},
        },
        "edges": ["start -> say", "kit.tools -> say.tools", "more.tools -> say.tools", "kit -> then"],
    }));
    insta::assert_snapshot!(faults, @r"
    nodes.kit: node `kit` leads to the lazy input `tools` of `say` and also to `then`, which does not ask for it [flow_lazy_and_pushed]
    nodes.say: several edges lead to input `tools` of `say`, which asks for its value [flow_lazy_and_pushed]
    ");
}

#[test]
fn what_is_configured_is_checked() {
    let read = faults(json!({
        "inputs": {"x": "text"},
        "nodes": {
            "m": {"type": "manual_input"},
            "o": {"type": "llm_request", "prompt": "p", "timeout_seconds": -1, "retry": {"times": 2}},
            "z": {"type": "llm_reqest"},
        },
        "colour": "red",
    }));
    insta::assert_snapshot!(read, @r"
    colour: there is no field `colour` (there are: id, description, inputs, nodes, edges, outputs, limits) [unknown_field]
    inputs.x: `inputs.x`: there is no type `text`; there are: any, string, number, integer, boolean, object, array, null [flow_invalid]
    nodes.m: node `m`: missing field `text` [flow_invalid]
    nodes.o.timeout_seconds: node `o`: `timeout_seconds` is a number above 0, at most 31536000 [flow_invalid]
    nodes.o.retry.times: node `o`: `retry`: unknown field `times`, expected `max` or `delay_seconds` [unknown_field]
    nodes.z.type: node `z`: there is no type `llm_reqest` (there are: start, llm_request, user_input, manual_input, new_thread, inject_messages, release_thread, tools, tool_call, intent_router, branch, parallel, join, cache, blackboard_wait, portal_in, portal_out, sub_flow, transform, custom) [flow_unknown_type]
    ");
    let made = faults(json!({
        "nodes": {
            "a b": {"type": "transform", "template": "x"},
            "t": {"type": "transform", "template": "{{ x | nope }}"},
            "u": {"type": "transform", "template": "{{ y }}"},
            "b": {"type": "branch", "cases": {"x": "value <"}},
            "r": {"type": "intent_router", "intents": {}},
            "n": {"type": "new_thread", "model": "gpt"},
            "w": {"type": "llm_request", "prompt": "p", "with": {"user": 7, "who": "x"}, "keep": ["what"]},
        },
        "edges": ["start -> t", "t.value -> w.user"],
    }));
    insta::assert_snapshot!(made, @r"
    nodes.a b: invalid node name `a b` (letters, digits, `_` and `-`, at most 64) [flow_invalid]
    nodes.t.template: node `t`: 1:8: unknown filter `nope` [template_error]
    nodes.u.template: node `u`: the template reads `y`, which is not an input (declare it in `inputs`) [flow_missing_input]
    nodes.b.cases.x: node `b`: 1:8: expected a value, found the end [template_error]
    nodes.r.intents: node `r`: a router has at least one intent [flow_invalid]
    nodes.n.model: node `n`: `gpt` is not a `provider/model` [flow_invalid]
    nodes.w.with.who: node `w`: there is no input `who` (there are: user, input, thread, tools, after) [flow_unknown_port]
    nodes.w.keep.0: node `w`: there is no input `what` (there are: user, input, thread, tools, after) [flow_unknown_port]
    nodes.w.with.user: node `w`: constant for input `user`: string is expected, not a number [flow_type_mismatch]
    ");
}

#[test]
fn sub_flows_and_portals_are_checked_too() {
    let mut compile_inputs = CompileInputs::default();
    let inner = json!({
        "inputs": {"q": "string"},
        "nodes": {"again": {"type": "sub_flow", "flow": "flow", "with": {"q": "x"}}},
        "edges": ["start -> again"],
    });
    compile_inputs.flows.insert("inner".to_owned(), Arc::new(FlowDefinition::read("inner", &inner).unwrap()));
    let document = json!({
        "nodes": {
            "none": {"type": "sub_flow", "flow": "outer"},
            "help": {"type": "sub_flow", "flow": "inner", "retry": {"max": 2}},
            "in": {"type": "portal_in", "portal": "p"},
            "out": {"type": "portal_out", "portal": "q"},
            "say": {"type": "llm_request", "prompt": "p"},
        },
        "edges": ["start -> help", "help.text -> say.user", "start.input -> in.value", "out.value -> say.user"],
    });
    compile_inputs
        .flows
        .insert("flow".to_owned(), Arc::new(FlowDefinition::read("flow", &document).unwrap()));
    insta::assert_snapshot!(faults_on(document, &compile_inputs), @r"
    nodes.none: there is no flow `outer` (there are: flow, inner) [unknown_flow]
    nodes.help.retry: node `help`: `retry` says nothing about a `sub_flow` (give it to the nodes that do the work) [flow_invalid]
    nodes.help: sub-flow `inner`: a flow contains itself: flow -> inner -> flow [flow_circular]
    edges.1: sub-flow `help` has no output `text` (the sub-flow declares no `outputs`) [flow_unknown_port]
    nodes.in: nothing comes out of portal `p` [flow_portal_open]
    nodes.out: nothing goes into portal `q` [flow_portal_open]
    ");
}

/// Says what is to be warned of in a flow that can be run: `ask` and `say` speak, `answer` is a model call.
fn warnings(ask: Value, edges: Value) -> String {
    let nodes = json!({
        "ask": ask, "say": {"type": "manual_input", "text": "Hi."}, "other": {"type": "new_thread"},
        "answer": {"type": "llm_request", "prompt": "p"},
    });
    let definition = FlowDefinition::read("flow", &json!({"nodes": nodes, "edges": edges})).unwrap();
    let flow = lower(&definition, &CompileInputs::default()).unwrap();
    let line = |it: &contexture_flow::FlowFault| format!("{}: {it} [{}]", it.at.join("."), it.code);
    flow.warnings().iter().map(line).collect::<Vec<_>>().join("\n")
}

#[test]
fn a_text_that_is_in_the_thread_and_sent_besides_is_warned_of() {
    let asks = |append: Value| match append {
        Value::Null => json!({"type": "user_input"}),
        append => json!({"type": "user_input", "append": append}),
    };
    let plain = json!(["start -> ask", "ask.value -> answer.user", "start -> say", "start -> other"]);
    insta::assert_snapshot!(warnings(asks(json!(true)), plain.clone()), @"edges.1: `ask` writes its text into the thread, and `answer` sends it as the user's message too: the model reads it twice (write `append: false`, or only the order: `ask -> answer`) [flow_text_twice]");
    assert_eq!(warnings(asks(json!(false)), plain.clone()), "");
    assert_eq!(warnings(asks(Value::Null), plain), "", "it is told no thread, so it writes nothing");
    let with = |edges: &[&str]| {
        let always = ["start -> ask", "ask.value -> answer.user", "start -> say", "start -> other"];
        json!(always.iter().chain(edges).collect::<Vec<_>>())
    };
    let same = ["other.thread -> ask.thread", "other.thread -> answer.thread"];
    assert!(warnings(asks(Value::Null), with(&same)).contains("flow_text_twice"));
    let handed_on = ["other.thread -> ask.thread", "ask.thread -> answer.thread"];
    assert!(warnings(asks(Value::Null), with(&handed_on)).contains("flow_text_twice"));
    assert_eq!(warnings(asks(json!(true)), with(&["other.thread -> answer.thread"])), "", "another thread");
    let order = json!(["start -> ask", "ask -> answer", "start -> other", "start -> say"]);
    assert_eq!(warnings(asks(json!(true)), order), "");
    let said = json!(["start -> say", "say.text -> answer.user", "start -> ask", "start -> other"]);
    insta::assert_snapshot!(warnings(asks(Value::Null), said), @"edges.1: `say` writes its text into the thread, and `answer` sends it as the user's message too: the model reads it twice (write only the order: `say -> answer`) [flow_text_twice]");
}
