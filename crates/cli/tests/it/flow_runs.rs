//! `flow run`, `runs`, `show`, `resume` and `cancel`, against a model on loopback.

use std::time::Duration;

use contexture_mockmodel::Reply;
use contexture_wire::Dialect;
use serde_json::{Value, json};

use crate::Run;
use crate::served::{Served, says};

const OPENAI: Dialect = Dialect::Openai;

const CHAT: &str = "
nodes:
  ask: {type: user_input, message: What is it?}
  answer: {type: llm_request, prompt: p}
edges:
  - start -> ask
  - ask.value -> answer.user
  - answer -> ask
outputs: {text: answer.text}
";

const ONCE: &str = "
inputs: {question: string}
nodes:
  answer: {type: llm_request, prompt: p}
  ok: {type: user_input, message: 'Good?', value: {type: string, enum: [yes, no]}}
edges:
  - start.question -> answer.user
  - answer -> ok
outputs: {text: answer.text, ok: ok.value}
";

fn served(replies: impl IntoIterator<Item = Reply>) -> Served {
    let served = Served::new(OPENAI, replies);
    served.folder.write("flows/chat.yaml", CHAT);
    served.folder.write("flows/once.yaml", ONCE);
    served
}

/// What a thread says, without anything that differs from run to run.
fn said(served: &Served, session: &str) -> Vec<String> {
    let items = served.run(&["sessions", "show", session, "--json"]).json();
    let items = items.as_array().cloned().unwrap_or_default();
    let texts = items.iter().filter(|it| it["kind"] == "user" || it["kind"] == "assistant");
    texts
        .map(|it| {
            format!("{}: {}", it["kind"].as_str().unwrap_or_default(), it["body"]["message"]["content"])
        })
        .collect()
}

#[test]
fn what_a_run_waits_for_is_read_from_a_pipe() {
    let served = served([says(OPENAI, "One."), says(OPENAI, "Two.")]);
    let run = served.piped(&["flow", "run", "chat", "--session", "s"], "first\nsecond\n");
    assert_eq!(run.stdout, "One.\nTwo.\n");
    assert_eq!(run.code, Some(1), "it waits for more");
    assert!(run.stderr.contains("waits: What is it?"), "{}", run.stderr);
    assert_eq!(said(&served, "s").len(), 4);
}

#[test]
fn a_run_is_answered_later_once() {
    let served = served([says(OPENAI, "It is.")]);
    let args = ["flow", "run", "once", "--set", "question=Is it?", "--session", "s", "--json"];
    let waits = served.run(&args).json();
    assert_eq!((&waits["status"], &waits["waits"][0]["id"]), (&json!("waiting"), &json!("ok.1")));
    let id = waits["run"].as_str().expect("it has an id").to_owned();
    let answer = |value: &str| {
        let answer = format!("ok.1={value}");
        served.run(&["flow", "resume", &id, "--answer", &answer, "--json"])
    };
    assert_eq!(answer("maybe").json()["error"]["code"], "answer_invalid");
    let done = answer("yes").json();
    assert_eq!(
        (&done["status"], &done["outputs"]),
        (&json!("completed"), &json!({"text": "It is.", "ok": "yes"}))
    );
    assert_eq!(answer("no").json()["error"]["code"], "run_over");
    assert_eq!(served.asked().len(), 1);
    let listed = served.run(&["flow", "runs", "--status", "completed", "--json"]).json();
    assert_eq!(listed[0]["run"], id.as_str());
    let shown = served.run(&["flow", "show", &id]);
    assert!(shown.stdout.contains("ok.1 is answered: \"yes\""), "{}", shown.stdout);
}

#[test]
fn a_waiting_run_is_cancelled_for_good() {
    let served = served([]);
    let waits = served.run(&["flow", "run", "chat", "--json"]).json();
    let id = waits["run"].as_str().expect("it has an id").to_owned();
    assert_eq!(served.run(&["flow", "cancel", &id, "--json"]).json()["status"], "cancelled");
    let again = served.run(&["flow", "cancel", &id]);
    assert_eq!(again.shown(), "It was over before: cancelled.\n[exit 0]");
    let late = served.run(&["flow", "resume", &id, "--answer", "ask.1=hi", "--json"]);
    assert_eq!(late.json()["error"]["code"], "run_over");
}

#[test]
fn a_node_that_fails_is_named() {
    let served =
        served([Reply::json(400, &json!({"error": {"message": "no", "type": "invalid_request_error"}}))]);
    let run = served.run(&["flow", "run", "once", "--set", "question=Is it?"]);
    assert_eq!(run.code, Some(3), "{}", run.stderr);
    assert!(run.stderr.contains("failed at node `answer`"), "{}", run.stderr);
}

#[test]
fn wrong_usage_is_told_with_what_is_right() {
    let served = served([]);
    let code = |args: &[&str]| -> (Value, Option<i32>) {
        let run: Run = served.run(args);
        (run.json()["error"]["code"].clone(), run.code)
    };
    assert_eq!(code(&["flow", "run", "chatt", "--json"]), (json!("unknown_flow"), Some(2)));
    assert_eq!(code(&["flow", "run", "once", "--json"]), (json!("input_invalid"), Some(2)));
    assert_eq!(code(&["flow", "run", "once", "--set", "q=1", "--json"]).0, json!("input_invalid"));
    served.run(&["flow", "run", "chat", "--session", "s", "--json"]);
    assert_eq!(code(&["flow", "show", "s.nothing", "--json"]).0, json!("not_found"));
    assert_eq!(code(&["flow", "show", "../x", "--json"]).0, json!("id_invalid"));
}

#[test]
fn a_run_whose_process_was_killed_goes_on() {
    let hangs = says(OPENAI, "one two three four").every(Duration::from_secs(600));
    let served = served([hangs, says(OPENAI, "It is.")]);
    let lease = [("CONTEXTURE_SERVER_LEASE_SECONDS", "1")];
    let args = ["flow", "run", "once", "--set", "question=Is it?", "--session", "s", "--json"];
    let mut child = served.folder.command(&args).envs(lease).spawn().expect("it starts");
    while served.asked().is_empty() {
        std::thread::sleep(Duration::from_millis(20));
    }
    child.kill().expect("it can be killed");
    child.wait().expect("it ends");
    let runs = served.run(&["flow", "runs", "--json"]).json();
    let id = runs[0]["run"].as_str().expect("it is on record").to_owned();
    let resumed = loop {
        let resumed = served
            .folder
            .run_with(&["flow", "resume", &id, "--answer", "ok.1=yes", "--json"], "", &lease)
            .json();
        // Until its lease is over, the one that was killed still has it.
        match resumed["error"]["code"].as_str() {
            Some("run_driven" | "not_found") => {
                served.folder.run_with(&["flow", "resume", &id, "--json"], "", &lease);
                std::thread::sleep(Duration::from_millis(100));
            }
            _ => break resumed,
        }
    };
    assert_eq!((&resumed["status"], &resumed["outputs"]["text"]), (&json!("completed"), &json!("It is.")));
    assert_eq!(said(&served, "s"), ["user: \"Is it?\"", "assistant: \"It is.\""]);
}

#[test]
fn runs_that_are_over_are_forgotten_when_told() {
    let served = served([says(OPENAI, "It is."), says(OPENAI, "It is.")]);
    let run = |session: &str| {
        let args = [
            "flow",
            "run",
            "once",
            "--set",
            "question=Is it?",
            "--session",
            session,
            "--key",
            session,
            "--json",
        ];
        served.run(&args).json()["run"].as_str().expect("it has an id").to_owned()
    };
    let (over, waits) = (run("a"), run("b"));
    assert_eq!(served.run(&["flow", "resume", &over, "--answer", "ok.1=yes", "--json"]).code, Some(0));
    let forget = |args: &[&str]| served.run(&[&["flow", "forget"], args].concat());
    let refused = forget(&["--before", "0d", "--json"]);
    assert_eq!((refused.json()["error"]["code"].as_str(), refused.code), (Some("usage"), Some(2)));
    assert_eq!(forget(&["--before", "soon", "--yes"]).code, Some(2));
    assert_eq!(forget(&["--before", "30d", "--yes"]).stdout, "There is nothing to forget.\n");
    assert_eq!(forget(&["--before", "0d", "--yes"]).stdout, "forgotten 1 run\n");
    let runs = served.run(&["flow", "runs", "--json"]).json();
    assert_eq!((runs.as_array().map(Vec::len), &runs[0]["run"]), (Some(1), &json!(waits)));
    assert_eq!(served.run(&["flow", "show", &over, "--json"]).json()["error"]["code"], "not_found");

    // A session takes its runs and their keys along.
    assert_eq!(served.run(&["sessions", "delete", "b", "--yes"]).code, Some(0));
    assert_eq!(served.run(&["flow", "runs"]).stdout, "There are no runs.\n");
}

#[test]
fn resume_waits_until_the_lease_of_a_killed_process_is_over() {
    let hangs = says(OPENAI, "one two three four").every(Duration::from_secs(600));
    let served = served([hangs, says(OPENAI, "It is.")]);
    let lease = [("CONTEXTURE_SERVER_LEASE_SECONDS", "2")];
    let args = ["flow", "run", "once", "--set", "question=Is it?", "--session", "s", "--json"];
    let mut child = served.folder.command(&args).envs(lease).spawn().expect("it starts");
    while served.asked().is_empty() {
        std::thread::sleep(Duration::from_millis(20));
    }
    child.kill().expect("it can be killed");
    child.wait().expect("it ends");
    let runs = served.run(&["flow", "runs", "--json"]).json();
    let id = runs[0]["run"].as_str().expect("it is on record");
    let resumed = served.folder.run_with(&["flow", "resume", id, "--json"], "", &lease);
    assert!(resumed.stderr.contains("another process had the run"), "{}", resumed.shown());
    assert_eq!(resumed.json()["waits"][0]["id"], "ok.1", "{}", resumed.shown());
}

#[test]
fn threads_are_listed_with_their_labels() {
    let served = served([says(OPENAI, "It is.")]);
    let side = "nodes:\n  side: {type: new_thread, label: critics}\n  plain: {type: new_thread}\nedges:\n  - start -> side\n  - start -> plain\n";
    served.folder.write("flows/side.yaml", side);
    assert_eq!(served.run(&["flow", "run", "side", "--session", "s"]).code, Some(0));
    let shown = served.run(&["sessions", "show", "s"]);
    let names = shown.stderr.lines().find_map(|it| it.strip_prefix("isolated threads, for `--thread`: "));
    let names: Vec<&str> = names.unwrap_or_else(|| panic!("{}", shown.shown())).split(", ").collect();
    let labelled: Vec<&&str> = names.iter().filter(|it| it.ends_with(" (critics)")).collect();
    assert_eq!((names.len(), labelled.len()), (2, 1), "{names:?}");
    let thread = labelled[0].trim_end_matches(" (critics)");
    assert_eq!(served.run(&["sessions", "show", "s", "--thread", thread]).code, Some(0));
    let wrong = served.run(&["sessions", "show", "s", "--thread", "nope"]);
    assert!(wrong.stderr.contains(&format!("`{thread}` (critics)")), "{}", wrong.stderr);
}
