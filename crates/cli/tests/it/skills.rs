//! `skills`, and `--skill` of `run`.

use contexture_wire::Dialect;

use crate::Folder;
use crate::served::{Served, says};

const CHAT: (&str, &str) =
    ("prompts/chat.md", "---\nmodel: mock/m-1\nuse: [{skill: \"*\"}]\n---\nYou are helpful.\n");
const REFUNDS: (&str, &str) = (
    "skills/refunds/SKILL.md",
    "---\nname: refunds\ndescription: Pays back money for orders.\n---\n\nAsk for the order number.\n",
);
const POEMS: (&str, &str) =
    ("skills/poems/SKILL.md", "---\nname: poems\ndescription: Writes poems.\nversion: 2\n---\nRhyme.\n");

#[test]
fn skills_are_listed_checked_and_found() {
    let folder = Folder::new([CHAT, REFUNDS, POEMS]);
    let shown = folder.run(&["skills", "list"]).shown();
    assert!(shown.contains("Pays back money for orders.") && shown.contains("skills/poems"), "{shown}");
    assert!(shown.contains("unknown field `version`") && shown.ends_with("[exit 0]"), "{shown}");
    let listed = folder.run(&["skills", "list", "--json"]).json();
    assert_eq!(listed[1]["name"], "refunds", "{listed}");
    assert_eq!(listed[1]["findings"].as_array().map(Vec::len), Some(0), "{listed}");

    let checked = folder.run(&["skills", "check", "--json"]);
    assert_eq!((checked.code, &checked.json()[0]["code"]), (Some(1), &"unknown_field".into()));
    let good = Folder::new([CHAT, REFUNDS]);
    assert_eq!(good.run(&["skills", "check"]).code, Some(0));

    let routed = folder.run(&["skills", "route", "I want my money back", "--json"]).json();
    assert_eq!(
        (&routed["index"], &routed["hints"][0]["name"]),
        (&"full".into(), &"refunds".into()),
        "{routed}"
    );
    assert!(routed["hints"][0]["score"].as_f64().is_some_and(|it| it > 0.0), "{routed}");
    assert_eq!(folder.run(&["skills", "route", "zebra", "--json"]).json()["hints"], serde_json::json!([]));
}

#[test]
fn a_run_loads_the_skills_that_it_names() {
    let served = Served::new(Dialect::Openai, [says(Dialect::Openai, "Hello.")]);
    for (path, text) in [CHAT, REFUNDS] {
        served.folder.write(path, text);
    }
    let run = served.run(&["run", "chat", "--user", "Hi", "--skill", "refunds"]);
    assert_eq!(run.code, Some(0), "{}", run.shown());
    let sent = served.asked()[0].body.to_string();
    assert_eq!(sent.matches("Ask for the order number.").count(), 1, "{sent}");
    let run = served.run(&["run", "chat", "--user", "Hi", "--skill", "refund", "--json"]);
    assert_eq!(run.json()["error"]["code"], "unknown_entry");
}
