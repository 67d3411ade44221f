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
    insta::assert_snapshot!(listed(&project.flow("deep/on").unwrap_err().faults), @"");
}

#[test]
fn a_project_without_flows_is_as_before() {
    let project = project(&[PROMPT]);
    assert_eq!(project.flows().count(), 0);
    insta::assert_snapshot!(listed(&project.flow("f").unwrap_err().faults), @"");
}

#[test]
fn an_unknown_type_is_named() {
    insta::assert_snapshot!(faults_of("
nodes:
  ask:
    type: user_inptu
"), @"");
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
"), @"");
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
"), @"");
}

#[test]
fn a_wrong_type_is_named_with_both_ports() {
    insta::assert_snapshot!(faults_of("
inputs:
  n: integer
  bad: strng
nodes: {}
"), @"");
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
"), @"");
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
"), @"");
    insta::assert_snapshot!(faults_of("
nodes:
  a: {type: transform, template: A}
  lost: {type: transform, template: L}
edges: [start -> a]
"), @"");
    insta::assert_snapshot!(faults_of("
nodes:
  a: {type: join, inputs: {x: any, y: any}, policy: any}
  b: {type: transform, template: B}
edges:
  - start.input -> a.x
  - a -> b
  - b.value -> a.y
"), @"");
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
"), @"");
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
"), @"");
}

#[test]
fn sub_flows_that_are_unknown_or_circular_or_broken_are_named() {
    let round = "nodes: {s: {type: sub_flow, flow: f}}\nedges: [start -> s]\n";
    let broken = "nodes: {a: {type: nothing}}";
    let files =
        |text| faults(&[("flows/f.yaml", text), ("flows/round.yaml", round), ("flows/broken.yaml", broken)]);
    insta::assert_snapshot!(files("nodes:\n  s:\n    type: sub_flow\n    flow: rond\nedges: [start -> s]\n"), @"");
    insta::assert_snapshot!(files("nodes:\n  s:\n    type: sub_flow\n    flow: round\nedges: [start -> s]\n"), @"");
    insta::assert_snapshot!(files("nodes:\n  s:\n    type: sub_flow\n    flow: broken\nedges: [start -> s]\n"), @"");
}

#[test]
fn what_is_no_yaml_is_told_with_its_place() {
    insta::assert_snapshot!(faults_of("nodes:\n  a: {type: transform\nedges: []\n"), @"");
    insta::assert_snapshot!(faults_of("nodes: {}\nedges: []\nnodes: {}\n"), @"");
    insta::assert_snapshot!(faults_of("- a\n- b\n"), @"");
    insta::assert_snapshot!(faults_of("nodes: [a]\nedges: {}\n"), @"");
}

#[test]
fn an_id_that_two_files_have_is_told_to_who_asks_for_it() {
    let text = "id: f\nnodes: {a: {type: transform, template: A}}\nedges: [start -> a]\n";
    insta::assert_snapshot!(faults(&[("flows/a.yaml", text), ("flows/b.yaml", text)]), @"");
}

#[test]
fn lint_lists_the_faults_of_flows() {
    let project = project(&[PROMPT, ("flows/f.yaml", "nodes: {a: {type: b}}"), ("flows/g.yaml", "[")]);
    let lints: Vec<String> = project.lint().iter().map(ToString::to_string).collect();
    insta::assert_snapshot!(lints.join("\n"), @"");
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
