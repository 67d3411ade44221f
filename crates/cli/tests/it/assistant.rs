//! The example `assistant`: memory, skills, knowledge, artifacts, a blackboard and a bundle in one prompt.

use contexture_wire::Dialect;
use serde_json::json;

use crate::served::{Served, calls_tool, says};

const OPENAI: Dialect = Dialect::Openai;

#[test]
fn the_example_is_valid() {
    let served = Served::example("assistant", "[knowledge.handbook]", []);
    let lint = served.run(&["lint", "--strict"]);
    assert_eq!(lint.code, Some(0), "{}", lint.shown());
    let checked = served.run(&["skills", "check"]);
    assert_eq!(checked.code, Some(0), "{}", checked.shown());
    let routed = served.run(&["skills", "route", "I want my money back", "--json"]).json();
    assert_eq!(routed["hints"][0]["name"], "refunds", "{routed}");
}

#[test]
fn a_turn_uses_skills_the_list_and_the_handbook() {
    let replies = [
        calls_tool(OPENAI, "c1", "LoadSkill", json!({"name": "refunds"})),
        calls_tool(OPENAI, "c2", "handbookSearch", json!({"query": "How long do refunds take?"})),
        calls_tool(OPENAI, "c3", "todo_write", json!({"path": "/items/-", "value": "refund order 7"})),
        says(OPENAI, "Your refund is on its way."),
        says(OPENAI, "Ada, I wrote it down."),
    ];
    let served = Served::example("assistant", "[knowledge.handbook]", replies);
    let said = "From now on, answer in English. I want my money back for order 7.";
    let set = format!("question={said}");
    let args = ["run", "assistant", "--session", "s", "--scope-user", "ada", "--set", &set];
    let run = served.run(&args);
    assert_eq!(run.stdout, "Your refund is on its way.\n", "{}", run.shown());

    let asked: Vec<String> = served.asked().iter().map(|it| it.body.to_string()).collect();
    assert_eq!(asked[0].matches(said).count(), 1, "the text was sent once: {}", asked[0]);
    for part in
        ["available-skills", "available-knowledge-bases", "Acme repairs and sells bicycles", "100 euros"]
    {
        assert!(asked[0].contains(part), "{part}: {}", asked[0]);
    }
    assert!(asked[1].contains("Never promise a date."), "{}", asked[1]);
    assert!(asked[2].contains("30 days"), "{}", asked[2]);
    assert!(asked[3].contains("refund order 7"), "{}", asked[3]);

    // Another conversation of the same user knows the rule, and nothing of the list.
    let args = ["run", "assistant", "--session", "t", "--scope-user", "ada", "--set", "question=Thanks!"];
    assert_eq!(served.run(&args).stdout, "Ada, I wrote it down.\n");
    let second = served.asked().last().expect("a request").body.to_string();
    assert!(second.contains("core-memory") && second.contains("answer in English"), "{second}");
    assert!(!second.contains("refund order 7"), "{second}");
    let rules = served.run(&["memory", "list", "--user", "ada", "--layer", "rules", "--json"]).json();
    assert!(rules[0]["text"].to_string().contains("answer in English"), "{rules}");
}
