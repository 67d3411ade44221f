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
    assert_snapshot!(project().run(&["flow", "list"]).shown(), @r"
    chat  flows/chat.yaml
      Asks, answers, asks again
      2 nodes, 3 edges

    team/greet  flows/team/greet.yaml
      1 node, 1 edge
      input: name (string)
    [exit 0]
    ");
    assert_snapshot!(broken().run(&["flow", "list"]).shown(), @r"
    chat  flows/chat.yaml
      broken: flows/chat.yaml:4:39: node `answer`: there is no prompt `chta`; there are: chat
      broken: flows/chat.yaml:7:5: edge `ask.valeu -> answer.user`: node `ask`: there is no output
      `valeu`

    team/greet  flows/team/greet.yaml
      1 node, 1 edge
      input: name (string)
    [exit 0]
    ");
    let empty = Folder::new([("prompts/p.md", "P.")]);
    assert_snapshot!(empty.run(&["flow", "list"]).shown(), @r"
    The project has no flows; they go to flows/NAME.yaml.
    [exit 0]
    ");
}

#[test]
fn flows_are_checked() {
    let folder = project();
    assert_snapshot!(folder.run(&["flow", "check"]).shown(), @r"
    ok      chat  2 nodes, 3 edges
    ok      team/greet  1 node, 1 edge

    2 flows, no problems found.
    [exit 0]
    ");
    assert_snapshot!(folder.run(&["flow", "check", "chat"]).shown(), @r"
    ok      chat  2 nodes, 3 edges

    1 flow, no problems found.
    [exit 0]
    ");
    assert_snapshot!(folder.run(&["flow", "check", "chatt"]).shown(), @r"
    error[unknown_flow]: there is no flow `chatt`; there are: chat, team/greet
    hint: did you mean `chat`?
    [exit 2]
    ");
}

#[test]
fn faults_are_told_with_their_place() {
    let folder = broken();
    assert_snapshot!(folder.run(&["flow", "check"]).shown(), @r"
    broken  chat  flows/chat.yaml
            flows/chat.yaml:4:39: node `answer`: there is no prompt `chta`; there are: chat
              (unknown_prompt)
              hint: did you mean `chat`?
            flows/chat.yaml:7:5: edge `ask.valeu -> answer.user`: node `ask`: there is no output
              `valeu` (flow_unknown_port)
              hint: there are: value, thread, done
    ok      team/greet  1 node, 1 edge

    2 flows, 1 broken
    [exit 2]
    ");
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
    assert_snapshot!(folder.run(&["flow", "graph", "chat"]).shown(), @r#"
    flowchart TD
        n0(["start"])
        n1[/"ask<br/>user_input"/]
        n2["answer<br/>llm_request: chat"]
        n0 --> n1
        n1 -->|"value → user"| n2
        n2 --> n1
    [exit 0]
    "#);
    let svg = folder.run(&["flow", "graph", "chat", "--format", "svg"]);
    assert!(svg.stdout.starts_with("<svg ") && svg.stdout.ends_with("</svg>\n"), "{}", svg.shown());

    let run = folder.run(&["flow", "graph", "chat", "--format", "svg", "-o", "chat.svg"]);
    assert_snapshot!(run.shown(), @r"
    Wrote chat.svg.
    [exit 0]
    ");
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
    assert_snapshot!(run.shown(), @r"
    ok      chat  2 nodes, 3 edges
    ok      research  11 nodes, 20 edges
    ok      router  8 nodes, 13 edges

    3 flows, no problems found.
    [exit 0]
    ");
}

#[test]
fn a_text_that_is_sent_twice_is_warned_of() {
    let folder = project();
    let twice = "nodes:\n  ask: {type: user_input, message: You?, append: true}\n  answer: {type: llm_request, prompt: chat}\n\
                 edges:\n  - start -> ask\n  - ask.value -> answer.user\n";
    folder.write("flows/twice.yaml", twice);
    assert_snapshot!(folder.run(&["flow", "check", "twice"]).shown(), @"
    ok      twice  2 nodes, 2 edges
            warning: flows/twice.yaml:6:5: edge `ask.value -> answer.user`: `ask` writes its text into
              the thread, and `answer` sends it as the user's message too: the model reads it twice
              (flow_text_twice)
              hint: write `append: false`, or only the order: `ask -> answer`

    1 flow, 1 warning
    [exit 0]
    ");
    let document = folder.run(&["flow", "check", "twice", "--json"]).json();
    assert_eq!(
        (&document[0]["warnings"][0]["code"], &document[0]["warnings"][0]["line"]),
        (&json!("flow_text_twice"), &json!(6))
    );
    let lint = folder.run(&["lint"]);
    assert!(lint.code == Some(0) && lint.stdout.contains("flow_text_twice"), "{}", lint.shown());
    assert_eq!(folder.run(&["lint", "--strict"]).code, Some(1));
}
