//! Flow files: what is wrong with them is told with file, line and column, node and port.

use proptest::prelude::*;

use super::support::{listed, project};

const PROMPT: (&str, &str) =
    ("prompts/support.md", "---\ntools: [{name: find_order, description: Finds.}]\n---\nHelp.");

/// What is wrong with the flow `f` of a project.
fn faults(files: &[(&str, &str)]) -> String {
    match project(files).flow("f") {
        Ok(flow) => format!("fine: {} nodes", flow.definition().nodes.len()),
        Err(err) => listed(&err.faults),
    }
}

fn faults_of(text: &str) -> String {
    faults(&[PROMPT, ("flows/f.yaml", text)])
}

#[test]
fn a_flow_is_read_from_its_file() {
    insta::assert_snapshot!(faults_of("
inputs: {name: string}
nodes:
  greet:
    type: transform
    inputs: {name: string}
    template: Hello {{ name }}.
edges:
  - start.name -> greet.name
outputs: {text: greet.value}
"), @"fine: 1 nodes");
}

#[test]
fn ids_come_from_paths_or_documents() {
    let text = "nodes: {a: {type: transform, template: A}}\nedges: [start -> a]\n";
    let named = format!("id: other\n{text}");
    let project = project(&[("flows/deep/one.yaml", text), ("flows/two.yml", &named)]);
    let ids: Vec<&str> = project.flows().map(|(id, _)| id).collect();
    assert_eq!(ids, ["deep/one", "other"]);
    assert_eq!(project.flow_file("other"), Some("flows/two.yml"));
    assert_eq!(project.flow("deep/one").unwrap().id(), "deep/one");
    insta::assert_snapshot!(listed(&project.flow("deep/on").unwrap_err().faults), @" unknown_flow: there is no flow `deep/on`; there are: deep/one, other [did you mean `deep/one`?]");
}

#[test]
fn a_project_without_flows_is_as_before() {
    let project = project(&[PROMPT]);
    assert_eq!(project.flows().count(), 0);
    insta::assert_snapshot!(listed(&project.flow("f").unwrap_err().faults), @" unknown_flow: there is no flow `f`; the project has none");
}

#[test]
fn an_unknown_type_is_named() {
    insta::assert_snapshot!(faults_of("
nodes:
  ask:
    type: user_inptu
"), @"flows/f.yaml:4:11 flow_unknown_type: node `ask`: there is no type `user_inptu` [did you mean `user_input`?]");
}

#[test]
fn an_unknown_field_is_named_with_the_place_of_its_key() {
    insta::assert_snapshot!(faults_of("
description: D
edgse: []
nodes:
  a:
    type: transform
    template: A
    templat: B
  b: {type: transform, template: B, retry: {max: 1, delay: 2}}
  c: {type: transform, template: C, timeout_seconds: soon}
  d: {type: transform}
limits: {max_step: 5}
"), @r#"
    flows/f.yaml:3:1 unknown_field: there is no field `edgse` [there are: id, description, inputs, nodes, edges, outputs, limits]
    flows/f.yaml:8:5 unknown_field: node `a`: unknown field `templat`, expected one of `inputs`, `template`, `output`
    flows/f.yaml:9:53 unknown_field: node `b`: `retry`: unknown field `delay`, expected `max` or `delay_seconds`
    flows/f.yaml:10:54 flow_invalid: node `c`: `timeout_seconds`: invalid type: string "soon", expected f64
    flows/f.yaml:11:3 flow_invalid: node `d`: missing field `template`
    flows/f.yaml:12:10 unknown_field: `limits`: unknown field `max_step`, expected `max_steps` or `max_concurrency`
    "#);
}

#[test]
fn unknown_nodes_and_ports_are_named_with_the_edge() {
    insta::assert_snapshot!(faults_of("
nodes:
  a: {type: transform, inputs: {x: string}, template: '{{ x }}'}
edges:
  - start -> a
  - start -> b
  - start.name -> a.x
  - a.value -> a.y
  - a -
outputs:
  all: a.values
"), @r"
    flows/f.yaml:6:5 flow_unknown_node: edge `start -> b`: there is no node `b` [there are: a, start]
    flows/f.yaml:7:5 flow_unknown_port: edge `start.name -> a.x`: node `start`: there is no output `name` [there are: input, thread, done]
    flows/f.yaml:8:5 flow_unknown_port: edge `a.value -> a.y`: node `a`: there is no input `y` [there are: x, after]
    flows/f.yaml:9:5 flow_edge_invalid: invalid edge `a -` [write `node.output -> node.input`, or `node -> node`]
    flows/f.yaml:11:8 flow_unknown_port: output `all`: node `a`: there is no output `values` [there are: value, done]
    ");
}

#[test]
fn a_wrong_type_is_named_with_both_ports() {
    insta::assert_snapshot!(faults_of("
inputs:
  n: integer
  bad: strng
nodes: {}
"), @"flows/f.yaml:4:8 flow_invalid: `inputs.bad`: there is no type `strng`; there are: any, string, number, integer, boolean, object, array, null");
    insta::assert_snapshot!(faults_of("
inputs:
  n: integer
nodes:
  a:
    type: transform
    inputs: {x: string}
    template: '{{ x }}'
    with:
      z: 1
  b:
    type: transform
    inputs: {x: string}
    template: '{{ x }}'
    with:
      x: 5
  c: {type: transform, inputs: {x: string}, template: '{{ x }}'}
edges:
  - start.n -> c.x
"), @r"
    flows/f.yaml:10:10 flow_unknown_port: node `a`: there is no input `z` [there are: x, after]
    flows/f.yaml:16:10 flow_type_mismatch: node `b`: constant for input `x`: string is expected, not a number
    flows/f.yaml:19:5 flow_type_mismatch: edge `start.n -> c.x`: output `n` of `start` is data (integer), input `x` of `c` takes data (string)
    ");
}

#[test]
fn what_is_wrong_with_the_whole_graph_is_told_at_the_node() {
    insta::assert_snapshot!(faults_of("
nodes:
  a:
    type: transform
    inputs: {x: string}
    template: '{{ x }}'
edges: [start -> a]
"), @"flows/f.yaml:3:3 flow_missing_input: node `a`: nothing leads to input `x` [add an edge `… -> a.x`, or a constant in `with`]");
    insta::assert_snapshot!(faults_of("
nodes:
  a: {type: transform, template: A}
  lost: {type: transform, template: L}
edges: [start -> a]
"), @"flows/f.yaml:4:3 flow_unreachable: node `lost` never runs: it is not reachable from the start");
    insta::assert_snapshot!(faults_of("
nodes:
  a: {type: join, inputs: {x: any, y: any}, policy: any}
  b: {type: transform, template: B}
edges:
  - start.input -> a.x
  - a -> b
  - b.value -> a.y
"), @"flows/f.yaml:3:3 flow_cycle: node `a`: a loop never waits: a -> b -> a [let it go through a `user_input`]");
}

#[test]
fn a_template_is_told_with_the_place_in_its_text() {
    insta::assert_snapshot!(faults_of("
nodes:
  a:
    type: transform
    template: |
      Hello
        {{ name | nothing_like_that }}
  b:
    type: branch
    cases:
      big: value > 5
      odd: value ==
  c:
    type: transform
    template: >-
      Hello {{ who }}
"), @r"
    flows/f.yaml:7:19 template_error: node `a`: unknown filter `nothing_like_that`
    flows/f.yaml:12:20 template_error: node `b`: expected a value, found the end
    flows/f.yaml:16:7 flow_missing_input: node `c`: the template reads `who`, which is not an input [declare it in `inputs`]
    ");
}

#[test]
fn prompts_and_tools_that_nobody_has_are_named() {
    insta::assert_snapshot!(faults_of("
nodes:
  answer:
    type: llm_request
    prompt: suport
  tools:
    type: tools
    names:
      - find_order
      - fin_order
  call: {type: tool_call, tool: weather}
  route:
    type: intent_router
    intents: {a: A}
    prompt: xyz
"), @r"
    flows/f.yaml:5:13 unknown_prompt: node `answer`: there is no prompt `suport`; there are: support [did you mean `support`?]
    flows/f.yaml:10:9 unknown_tool: node `tools`: there is no tool `fin_order`; there are: find_order [did you mean `find_order`?]
    flows/f.yaml:11:33 unknown_tool: node `call`: there is no tool `weather`; there are: find_order
    flows/f.yaml:12:3 flow_missing_input: node `route`: nothing leads to input `text` [add an edge `… -> route.text`, or a constant in `with`]
    flows/f.yaml:15:13 unknown_prompt: node `route`: there is no prompt `xyz`; there are: support
    ");
}

#[test]
fn sub_flows_that_are_unknown_or_circular_or_broken_are_named() {
    let round = "nodes: {s: {type: sub_flow, flow: f}}\nedges: [start -> s]\n";
    let broken = "nodes: {a: {type: nothing}}";
    let files =
        |text| faults(&[("flows/f.yaml", text), ("flows/round.yaml", round), ("flows/broken.yaml", broken)]);
    insta::assert_snapshot!(files("nodes:\n  s:\n    type: sub_flow\n    flow: rond\nedges: [start -> s]\n"), @"flows/f.yaml:2:3 unknown_flow: node `s`: there is no flow `rond` [there are: f, round]");
    insta::assert_snapshot!(files("nodes:\n  s:\n    type: sub_flow\n    flow: round\nedges: [start -> s]\n"), @"flows/f.yaml:2:3 flow_circular: node `s`: sub-flow `round`: a flow contains itself: f -> round -> f");
    insta::assert_snapshot!(files("nodes:\n  s:\n    type: sub_flow\n    flow: broken\nedges: [start -> s]\n"), @"flows/f.yaml:4:11 flow_invalid: node `s`: flow `broken` has a fault: see flows/broken.yaml");
}

#[test]
fn what_is_no_yaml_is_told_with_its_place() {
    insta::assert_snapshot!(faults_of("nodes:\n  a: {type: transform\nedges: []\n"), @"flows/f.yaml:3:6 file_invalid: this is not YAML: while parsing a flow mapping, did not find expected ',' or '}' [close every bracket and quote before this place]");
    insta::assert_snapshot!(faults_of("nodes: {}\nedges: []\nnodes: {}\n"), @"flows/f.yaml:3:1 file_invalid: key `nodes` appears on line 1 and again on line 3");
    insta::assert_snapshot!(faults_of("- a\n- b\n"), @"flows/f.yaml:1:1 flow_invalid: a flow is a map of fields, not a list");
    insta::assert_snapshot!(faults_of("nodes: [a]\nedges: {}\n"), @r"
    flows/f.yaml:1:1 flow_invalid: `nodes` is a map of names and nodes, not a list
    flows/f.yaml:2:1 flow_invalid: `edges` is a list, not an object
    ");
}

#[test]
fn an_id_that_two_files_have_is_told_to_who_asks_for_it() {
    let text = "id: f\nnodes: {a: {type: transform, template: A}}\nedges: [start -> a]\n";
    insta::assert_snapshot!(faults(&[("flows/a.yaml", text), ("flows/b.yaml", text)]), @"flows/b.yaml:1:5 duplicate_id: two flows have the id `f`: flows/a.yaml and flows/b.yaml [give one of them another `id`]");
}

#[test]
fn lint_lists_the_faults_of_flows() {
    let project = project(&[PROMPT, ("flows/f.yaml", "nodes: {a: {type: b}}"), ("flows/g.yaml", "[")]);
    let lints: Vec<String> = project.lint().iter().map(ToString::to_string).collect();
    insta::assert_snapshot!(lints.join("\n"), @r"
    flows/f.yaml:1:19: error[flow_unknown_type]: node `a`: there is no type `b`
    flows/g.yaml:1:1: error[file_invalid]: this is not YAML: unclosed bracket '['
    ");
}

/// Pieces that mean something to the reader.
fn fragment() -> impl Strategy<Value = String> {
    let pieces = [
        "\n",
        "  ",
        "nodes:",
        "edges:",
        "outputs:",
        "inputs:",
        "limits:",
        "id: f",
        "a:",
        "b: ",
        "- ",
        "type: ",
        "transform",
        "join",
        "branch",
        "parallel",
        "sub_flow",
        "custom",
        "start",
        "llm_request",
        "portal_in",
        "portal_out",
        "template: '{{ x }}'",
        "inputs: {x: string}",
        "cases: {a: value}",
        "branches: [a, b]",
        "flow: f",
        "flow: g",
        "portal: p",
        "policy: any",
        "retry: {max: 1}",
        "keep: [x]",
        "with: {x: 1}",
        "start -> a",
        "a -> b",
        "b.value -> a.x",
        "a.a -> b",
        "->",
        "{",
        "}",
        "[",
        "]",
        ",",
        ": ",
        "&a ",
        "*a",
        "'",
        "\"",
        "é",
        "\u{feff}",
        "\t",
        "1e999",
        "~",
        "!x ",
    ];
    prop::collection::vec(prop::sample::select(pieces.to_vec()), 0..40).prop_map(|it| it.concat())
}

/// Graphs that parse, of nodes and edges by chance.
fn graph() -> impl Strategy<Value = String> {
    let kinds = [
        "type: transform, template: A",
        "type: transform, inputs: {x: any}, template: '{{ x }}'",
        "type: join, inputs: {x: any, y: any}, policy: any",
        "type: branch, cases: {x: value}",
        "type: parallel, branches: [x, y]",
        "type: portal_in, portal: p",
        "type: portal_out, portal: p",
        "type: sub_flow, flow: g",
        "type: sub_flow, flow: f",
        "type: start",
    ];
    let ends = ["start", "a", "b", "c", "a.value", "b.x", "c.y", "a.x", "b.value", "c.value"];
    let end = || prop::sample::select(ends.to_vec());
    let nodes = prop::collection::vec(prop::sample::select(kinds.to_vec()), 3);
    let edges = prop::collection::vec((end(), end()), 0..8);
    (nodes, edges).prop_map(|(nodes, edges)| {
        let nodes = ["a", "b", "c"].iter().zip(nodes).map(|(id, kind)| format!("  {id}: {{{kind}}}\n"));
        let edges = edges.iter().map(|(from, to)| format!("  - {from} -> {to}\n"));
        format!("nodes:\n{}edges:\n{}", nodes.collect::<String>(), edges.collect::<String>())
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(500) })]

    #[test]
    fn no_text_makes_it_panic(
        one in prop_oneof![any::<String>(), fragment(), graph()],
        other in prop_oneof![fragment(), graph()],
    ) {
        let mut project = project(&[PROMPT, ("flows/f.yaml", &one), ("flows/g.yaml", &other)]);
        for (_, flow) in project.flows() {
            if let Err(err) = flow {
                prop_assert!(err.faults.iter().all(|it| it.line.is_some() && it.file.is_some()), "{err}");
            }
        }
        let _ = project.lint();
        project.reload().unwrap();
    }
}
