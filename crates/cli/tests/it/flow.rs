//! `flow`: list, check, graph.

use std::path::Path;

use insta::assert_snapshot;
use serde_json::json;

use crate::Folder;

const CHAT: &str = "description: Asks, answers, asks again
nodes:
  ask: {type: user_input, message: What is it?}
  answer: {type: llm_request, prompt: chat}
edges:
  - start -> ask
  - ask.value -> answer.user
  - answer -> ask
";

fn project() -> Folder {
    Folder::new([
        ("prompts/chat.md", "Be brief."),
        ("flows/chat.yaml", CHAT),
        (
            "flows/team/greet.yaml",
            "inputs: {name: string}\nnodes:\n  hello: {type: transform, inputs: {name: string}, template: 'Hello {{ name }}.'}\nedges: [start.name -> hello.name]\noutputs: {text: hello.value}\n",
        ),
    ])
}

fn broken() -> Folder {
    let folder = project();
    folder.write(
        "flows/chat.yaml",
        &CHAT.replace("ask.value", "ask.valeu").replace("prompt: chat", "prompt: chta"),
    );
    folder
}

#[test]
fn flows_are_listed() {
    assert_snapshot!(project().run(&["flow", "list"]).shown(), @"");
    assert_snapshot!(broken().run(&["flow", "list"]).shown(), @"");
    let empty = Folder::new([("prompts/p.md", "P.")]);
    assert_snapshot!(empty.run(&["flow", "list"]).shown(), @"");
}

#[test]
fn flows_are_checked() {
    let folder = project();
    assert_snapshot!(folder.run(&["flow", "check"]).shown(), @"");
    assert_snapshot!(folder.run(&["flow", "check", "chat"]).shown(), @"");
    assert_snapshot!(folder.run(&["flow", "check", "chatt"]).shown(), @"");
}

#[test]
fn faults_are_told_with_their_place() {
    let folder = broken();
    assert_snapshot!(folder.run(&["flow", "check"]).shown(), @"");
    assert_eq!(folder.run(&["flow", "check", "team/greet"]).code, Some(0), "the other one is fine");
    assert_eq!(folder.run(&["lint"]).code, Some(1));

    let run = folder.run(&["flow", "check", "--json"]);
    assert_eq!(run.code, Some(2));
    let document = run.json();
    assert_eq!(document[0]["error"]["at"], "flows/chat.yaml:4:39");
    assert_eq!(document[0]["error"]["more"][0]["code"], "flow_unknown_port");
    assert_eq!((&document[1]["nodes"], &document[1]["edges"]), (&json!(1), &json!(1)));
    assert_eq!(document[1]["input"], json!({"name": {"type": "string"}}));
}

#[test]
fn a_flow_is_drawn() {
    let folder = project();
    assert_snapshot!(folder.run(&["flow", "graph", "chat"]).shown(), @"");
    let svg = folder.run(&["flow", "graph", "chat", "--format", "svg"]);
    assert!(svg.stdout.starts_with("<svg ") && svg.stdout.ends_with("</svg>\n"), "{}", svg.shown());

    let run = folder.run(&["flow", "graph", "chat", "--format", "svg", "-o", "chat.svg"]);
    assert_snapshot!(run.shown(), @"");
    assert_eq!(std::fs::read_to_string(folder.path().join("chat.svg")).ok(), Some(svg.stdout));
    let document = folder.run(&["flow", "graph", "chat", "--json"]).json();
    assert!(document["picture"].as_str().is_some_and(|it| it.starts_with("flowchart TD")));

    assert_eq!(folder.run(&["flow", "graph", "chat", "-o", "no/such/folder.svg"]).code, Some(3));
    assert_eq!(broken().run(&["flow", "graph", "chat"]).code, Some(2));
}

#[test]
fn the_example_flows_pass() {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/flows");
    let folder = Folder::new([]);
    let run = folder.run(&["-C", &examples.display().to_string(), "flow", "check"]);
    assert_snapshot!(run.shown(), @"");
}
