//! `sessions`, on a SQLite file in a temporary folder.

use contexture_wire::Dialect;
use insta::assert_snapshot;
use serde_json::{Value, json};

use crate::served::{Served, says};
use crate::{Folder, Run};

/// A session with an isolated thread, as `export` writes it: two turns, with all kinds of items.
const EXPORT: &str = concat!(
    r#"{"session":{"version":1,"id":"support-1","label":"Order 1042","created":1751362200000}}"#,
    "\n",
    r#"{"thread":{"id":"support-1","kind":"main","label":"Order 1042","base":null,"created":1751362200000}}"#,
    "\n",
    r#"{"item":{"seq":1,"turn":0,"at":1751362200000,"tokens":0,"counter":"o200k_base","visibility":{"client":false,"history":false},"body":{"change":{"model":{"provider":"openai","model":"gpt-5-mini"}}}}}"#,
    "\n",
    r#"{"item":{"seq":2,"turn":1,"at":1751362201000,"tokens":0,"counter":"o200k_base","visibility":{"client":false,"history":false},"body":{"change":{"turn_began":{"key":"k1"}}}}}"#,
    "\n",
    r#"{"item":{"seq":3,"turn":1,"at":1751362201000,"tokens":9,"counter":"o200k_base","visibility":{"client":true,"history":true},"author":"ada","body":{"message":{"role":"user","content":"Where is my order?\nIt is late."}}}}"#,
    "\n",
    r#"{"item":{"seq":4,"turn":1,"at":1751362201000,"tokens":6,"counter":"o200k_base","visibility":{"client":false,"history":true},"body":{"envelope":{"tag":"system_context","text":"Page: orders"}}}}"#,
    "\n",
    r#"{"item":{"seq":5,"turn":1,"at":1751362202000,"tokens":9,"counter":"o200k_base","visibility":{"client":true,"history":true},"body":{"message":{"role":"assistant","content":[{"type":"tool_call","id":"c1","name":"find_order","arguments":{"number":1042}}]}}}}"#,
    "\n",
    r#"{"item":{"seq":6,"turn":1,"at":1751362203000,"tokens":9,"counter":"o200k_base","visibility":{"client":true,"history":true},"body":{"message":{"role":"tool","content":[{"type":"tool_result","call_id":"c1","name":"find_order","output":{"type":"json","value":{"state":"shipped"}}}]}}}}"#,
    "\n",
    r#"{"item":{"seq":7,"turn":1,"at":1751362204000,"tokens":6,"counter":"o200k_base","visibility":{"client":true,"history":true},"body":{"message":{"role":"assistant","content":"It is on its way."}}}}"#,
    "\n",
    r#"{"item":{"seq":8,"turn":1,"at":1751362204000,"tokens":0,"counter":"o200k_base","visibility":{"client":false,"history":false},"body":{"change":{"turn_ended":{"status":"completed"}}}}}"#,
    "\n",
    r#"{"item":{"seq":9,"turn":1,"at":1751362205000,"tokens":9,"counter":"o200k_base","visibility":{"client":false,"history":true},"body":{"system_event":{"name":"delivery","text":"It was delivered."}}}}"#,
    "\n",
    r#"{"item":{"seq":10,"turn":2,"at":1751362206000,"tokens":0,"counter":"o200k_base","visibility":{"client":false,"history":false},"body":{"change":{"turn_began":{}}}}}"#,
    "\n",
    r#"{"item":{"seq":11,"turn":2,"at":1751362206000,"tokens":5,"counter":"o200k_base","visibility":{"client":true,"history":true},"body":{"message":{"role":"user","content":"Thanks!"}}}}"#,
    "\n",
    r#"{"item":{"seq":12,"turn":2,"at":1751362206000,"tokens":0,"counter":"o200k_base","visibility":{"client":true,"history":false},"body":{"application":{"kind":"badge","value":{"new":1}}}}}"#,
    "\n",
    r#"{"item":{"seq":13,"turn":2,"at":1751362207000,"tokens":0,"counter":"o200k_base","visibility":{"client":false,"history":false},"body":{"change":{"turn_ended":{"status":"failed","reason":"no network"}}}}}"#,
    "\n",
    r#"{"thread":{"id":"support-1/side","kind":"isolated","label":"check","base":{"thread":"support-1","seq":3},"created":1751362208000}}"#,
    "\n",
    r#"{"item":{"seq":1,"turn":1,"at":1751362208000,"tokens":5,"counter":"o200k_base","visibility":{"client":true,"history":true},"body":{"message":{"role":"user","content":"Check it."}}}}"#,
    "\n",
    r#"{"end":{"threads":2,"items":14}}"#,
    "\n",
);

/// A folder with the session in the default store.
fn stored() -> Folder {
    let folder = Folder::new([("s.jsonl", EXPORT)]);
    let run = sessions(&folder, &["import", "s.jsonl"]);
    assert_eq!(run.shown(), "imported support-1: 2 threads, 14 items\n[exit 0]");
    folder
}

/// Runs `sessions`. The only caller here.
fn sessions(folder: &Folder, args: &[&str]) -> Run {
    let all: Vec<&str> = ["sessions"].iter().chain(args).copied().collect();
    folder.run(&all)
}

fn document(folder: &Folder, args: &[&str]) -> Value {
    let all: Vec<&str> = args.iter().copied().chain(["--json"]).collect();
    sessions(folder, &all).json()
}

fn error(folder: &Folder, args: &[&str]) -> (Option<i32>, String) {
    let all: Vec<&str> = args.iter().copied().chain(["--json"]).collect();
    let run = sessions(folder, &all);
    (run.code, run.json()["error"]["code"].as_str().unwrap_or_default().to_owned())
}

fn seqs(items: &Value) -> Vec<u64> {
    items.as_array().into_iter().flatten().filter_map(|it| it["seq"].as_u64()).collect()
}

#[test]
fn what_was_imported_is_exported_again() {
    let folder = stored();
    assert_eq!(sessions(&folder, &["export", "support-1"]).stdout, EXPORT);
    assert!(folder.path().join(".contexture/contexture.db").is_file(), "the default store");
    let run = sessions(&folder, &["export", "--all", "--out", "all.jsonl"]);
    assert_eq!(run.shown(), "1 session exported to all.jsonl\n[exit 0]");
    let written = std::fs::read_to_string(folder.path().join("all.jsonl")).expect("it is there");
    assert_eq!(written, EXPORT);
    assert!(!folder.path().join("all.jsonl.partial").exists());
}

#[test]
fn several_sessions_move_to_another_store() {
    let folder = stored();
    sessions(&folder, &["import", "s.jsonl", "--as", "other"]);
    let all = sessions(&folder, &["export", "--all"]).stdout;
    let run = folder.run_with(&["sessions", "import", "-", "--store", "sqlite:two.db", "--json"], &all, &[]);
    assert_eq!(run.json()[0], json!({"session": "other", "threads": 2, "items": 14}));
    assert_eq!(run.json()[1]["session"], "support-1");
    assert_eq!(sessions(&folder, &["export", "--all", "--store", "sqlite:two.db"]).stdout, all);
    let names = document(&folder, &["list", "--store", "sqlite:two.db"]);
    assert_eq!(names.as_array().map(Vec::len), Some(2));
}

#[test]
fn a_list_has_the_newest_first() {
    let folder = stored();
    folder.write("old.jsonl", &EXPORT.replace("17513622", "16513622").replace("support-1", "old"));
    sessions(&folder, &["import", "old.jsonl"]);
    assert_snapshot!(sessions(&folder, &["list"]).shown());
    let list = document(&folder, &["list", "--limit", "1"]);
    assert_eq!(
        list,
        json!([{
            "session": "support-1", "label": "Order 1042", "created": "2025-07-01T09:30:00.000Z",
            "updated": "2025-07-01T09:30:08.000Z", "threads": 2, "turns": 2, "items": 14,
        }])
    );
    assert_eq!(sessions(&folder, &["list", "--tenant", "else"]).stdout, "There are no sessions.\n");
}

#[test]
fn every_view_shows_its_items() {
    let folder = stored();
    for view in ["history", "client", "all"] {
        assert_snapshot!(
            format!("show-{view}"),
            sessions(&folder, &["show", "support-1", "--view", view]).shown()
        );
    }
    let show = |args: &[&str]| {
        let all: Vec<&str> = ["show", "support-1"].iter().chain(args).copied().collect();
        document(&folder, &all)
    };
    assert_eq!(seqs(&show(&[])), [3, 4, 5, 6, 7, 9, 11]);
    assert_eq!(seqs(&show(&["--limit", "1"])), [11]);
    assert_eq!(seqs(&show(&["--turns", "1"])), [11]);
    assert_eq!(seqs(&show(&["--tokens", "20"])), [11]);
    assert_eq!(seqs(&show(&["--view", "client"])), [3, 5, 6, 7, 11, 12]);
    assert_eq!(seqs(&show(&["--view", "client", "--limit", "3"])), [7, 11, 12]);
    assert_eq!(seqs(&show(&["--view", "all", "--limit", "2"])), [12, 13]);
    assert_eq!(seqs(&show(&["--view", "all"])).len(), 13);
    for thread in ["side", "support-1/side"] {
        assert_eq!(show(&["--thread", thread])[0]["id"], "support-1/side:1");
    }
    assert_eq!(
        show(&[])[0],
        json!({
            "id": "support-1:3", "seq": 3, "turn": "t1", "kind": "user", "at": "2025-07-01T09:30:01.000Z", "tokens": 9,
            "counter": "o200k_base", "visibility": {"client": true, "history": true}, "author": "ada",
            "body": {"message": {"role": "user", "content": "Where is my order?\nIt is late."}},
        })
    );
}

#[test]
fn a_fork_ends_where_it_is_told() {
    let folder = stored();
    let fork = |args: &[&str]| {
        let all: Vec<&str> = ["fork", "support-1"].iter().chain(args).copied().collect();
        document(&folder, &all)
    };
    assert_eq!(fork(&["--as", "whole"]), json!({"session": "whole", "threads": 1, "items": 13}));
    assert_eq!(fork(&["--at", "5", "--as", "five", "--label", "Five"])["items"], 5);
    assert_eq!(fork(&["--at", "t1", "--as", "turn"])["items"], 9);
    assert_eq!(fork(&["--at", "t0", "--as", "none"])["items"], 1);
    let name = fork(&[])["session"].as_str().map(str::to_owned).expect("it gets a name");
    assert_eq!(document(&folder, &["show", &name, "--view", "all"]).as_array().map(Vec::len), Some(13));
    let list = document(&folder, &["list"]);
    assert!(list.as_array().is_some_and(|it| it.iter().any(|it| it["label"] == "Five")), "{list}");
    for (at, code) in [("99", "not_found"), ("t9", "not_found"), ("x", "usage")] {
        assert_eq!(error(&folder, &["fork", "support-1", "--at", at]), (Some(2), code.to_owned()), "{at}");
    }
    assert_eq!(error(&folder, &["fork", "support-1", "--as", "whole"]).1, "already_exists");
}

#[test]
fn sessions_are_deleted_together_and_only_when_told() {
    let folder = stored();
    sessions(&folder, &["import", "s.jsonl", "--as", "other"]);
    assert_eq!(error(&folder, &["delete", "support-1"]), (Some(2), "usage".to_owned()));
    assert_eq!(
        error(&folder, &["delete", "support-1", "nobody", "--yes"]),
        (Some(2), "not_found".to_owned())
    );
    assert_eq!(document(&folder, &["usage"])["sessions"], 2, "nothing was deleted");
    assert_eq!(document(&folder, &["delete", "other", "other", "--yes"]), json!({"deleted": ["other"]}));
    assert_eq!(sessions(&folder, &["delete", "support-1", "--yes"]).shown(), "deleted support-1\n[exit 0]");
    assert_eq!(document(&folder, &["list"]), json!([]));
    let vacuum = document(&folder, &["vacuum"]);
    assert!(vacuum["bytes_after"].as_u64().is_some_and(|it| it > 0), "{vacuum}");
}

#[test]
fn usage_counts_what_is_stored() {
    let folder = stored();
    assert_snapshot!(sessions(&folder, &["usage"]).shown());
    assert_eq!(document(&folder, &["usage", "--tenant", "else"])["items"], 0);
}

#[test]
fn a_damaged_file_is_recovered_into_a_new_one() {
    let folder = stored();
    let args = ["recover", ".contexture/contexture.db", "--into", "new.db"];
    let run = sessions(&folder, &args);
    assert_eq!(run.shown(), "recovered to new.db: 1 session, 2 threads, 14 items\n[exit 0]");
    assert_eq!(sessions(&folder, &["export", "support-1", "--store", "sqlite:new.db"]).stdout, EXPORT);
    assert_eq!(error(&folder, &args), (Some(2), "file_exists".to_owned()));
    assert_eq!(error(&folder, &["recover", "no.db", "--into", "x.db"]), (Some(2), "not_found".to_owned()));
}

#[test]
fn the_store_comes_from_the_flag_the_environment_or_the_project() {
    let folder = Folder::new([
        ("contexture.toml", "[store]\nurl = \"sqlite:kept/mine.db\"\n"),
        ("s.jsonl", EXPORT),
        ("deep/x", ""),
    ]);
    let run = folder
        .command(&["sessions", "import", "../s.jsonl"])
        .current_dir(folder.path().join("deep"))
        .output();
    assert!(run.is_ok_and(|it| it.status.success()));
    assert!(folder.path().join("kept/mine.db").is_file(), "a path of the project starts in its folder");
    folder.run_with(&["sessions", "import", "s.jsonl"], "", &[("CONTEXTURE_STORE_URL", "sqlite:env.db")]);
    assert!(folder.path().join("env.db").is_file());
    let run = folder
        .command(&["sessions", "import", "../s.jsonl", "--store", "sqlite:flag.db"])
        .current_dir(folder.path().join("deep"))
        .output();
    assert!(run.is_ok_and(|it| it.status.success()));
    assert!(folder.path().join("deep/flag.db").is_file(), "a path of the flag starts here");
}

#[test]
fn errors_say_what_to_do() {
    let folder = stored();
    folder.write("broken.jsonl", &EXPORT.replace("\"seq\":3", "\"seq\":4"));
    folder.write("two.jsonl", &format!("{}{}", EXPORT.replace("support-1", "first"), EXPORT));
    folder.write("text.db", &"This is not a database. ".repeat(100));
    for (args, exit, code) in [
        (&["list", "--store", "sqlite:none.db"] as &[&str], 3, "not_found"),
        (&["list", "--store", "memory:"], 2, "usage"),
        (&["list", "--store", "mysql://db"], 2, "usage"),
        (&["list", "--store", "sqlite:text.db"], 3, "store_damaged"),
        (
            &["list", "--store", "postgres://nobody@127.0.0.1:1/none?connect_timeout=1"],
            3,
            "store_unavailable",
        ),
        (&["list", "--tenant", ""], 2, "id_invalid"),
        (&["show", "nobody"], 2, "not_found"),
        (&["show", "support-1", "--thread", "nobody"], 2, "not_found"),
        (&["show", "support-1", "--limit", "1", "--tokens", "1"], 2, "usage"),
        (&["show", "support-1", "--tenant", "else"], 2, "not_found"),
        (&["export", "nobody"], 2, "not_found"),
        (&["export"], 2, "usage"),
        (&["export", "support-1", "--all"], 2, "usage"),
        (&["export", "support-1", "--out", "no/where.jsonl"], 3, "write_failed"),
        (&["import", "s.jsonl"], 2, "already_exists"),
        (&["import", "none.jsonl"], 2, "not_found"),
        (&["import", "broken.jsonl", "--as", "x"], 2, "import_invalid"),
        (&["import", "text.db"], 2, "import_invalid"),
        (&["import", "-"], 2, "import_invalid"),
        (&["import", "two.jsonl", "--as", "x"], 2, "usage"),
        (&["fork", "nobody"], 2, "not_found"),
        (&["fork", "nobody", "--at", "t1"], 2, "not_found"),
        (&["delete"], 2, "usage"),
        (&[], 2, "usage"),
    ] {
        assert_eq!(error(&folder, args), (Some(exit), code.to_owned()), "{args:?}");
    }
    assert!(!folder.path().join("none.db").exists(), "nothing is made by looking");
    let place = |args: &[&str]| document(&folder, args)["error"].clone();
    assert_eq!(place(&["import", "broken.jsonl", "--as", "x"])["at"], "broken.jsonl:5");
    let second = place(&["import", "two.jsonl"]);
    assert_eq!((&second["code"], &second["sources"]), (&json!("already_exists"), &json!(["first"])));
    let hint = place(&["list", "--store", "sqlite:none.db"])["hint"].clone();
    assert!(hint.as_str().is_some_and(|it| it.contains("--store")), "{hint}");
}

#[test]
fn the_folder_of_the_store_ignores_itself_in_git() {
    let served = Served::new(Dialect::Openai, [says(Dialect::Openai, "Hi."), says(Dialect::Openai, "Hi.")]);
    let file = served.folder.path().join(".contexture/.gitignore");
    served.piped(&["chat", "--session", "s1"], "Hello.\n");
    assert_eq!(std::fs::read_to_string(&file).expect("it is written"), "*\n");
    // What people write there stays.
    std::fs::write(&file, "!keep\n").expect("it can be written");
    served.piped(&["chat", "--session", "s1"], "Hello.\n");
    assert_eq!(std::fs::read_to_string(&file).expect("it is there"), "!keep\n");
}

#[test]
fn what_the_model_reads_is_shown_with_the_configured_window() {
    let served = Served::new(Dialect::Openai, ["one", "two", "three"].map(|it| says(Dialect::Openai, it)));
    served.piped(&["chat", "--session", "s1"], "first\nsecond\nthird\n");
    let shown = |window: &str, more: &[&str]| {
        let args = [&["sessions", "show", "s1", "--view", "history", "--json"], more].concat();
        let run = served.folder.run_with(&args, "", &[("CONTEXTURE_HISTORY_WINDOW_TURNS", window)]);
        let turns = run.json().as_array().expect("items").iter().map(|it| it["turn"].to_string()).collect();
        let turns: std::collections::BTreeSet<String> = turns;
        turns.into_iter().collect::<Vec<_>>().join(" ")
    };
    assert_eq!(shown("50", &[]), r#""t1" "t2" "t3""#);
    assert_eq!(shown("2", &[]), r#""t2" "t3""#);
    assert_eq!(shown("1", &[]), r#""t3""#);
    assert_eq!(shown("2", &["--limit", "9"]), r#""t2" "t3""#, "no limit shows more than the window");
}

#[test]
fn an_event_is_appended_once_by_its_key() {
    let folder = stored();
    let event =
        ["event", "support-1", "--name", "refund.paid", "--text", "The refund was paid.", "--key", "r1"];
    assert_eq!(document(&folder, &event)["appended"], true);
    assert_eq!(document(&folder, &event)["appended"], false);
    let shown = sessions(&folder, &["show", "support-1"]).shown();
    assert_eq!(shown.matches("The refund was paid.").count(), 1, "{shown}");
    let forged = ["event", "support-1", "--name", "memory.x", "--text", "x"];
    assert_eq!(error(&folder, &forged), (Some(2), "usage".to_owned()));
    let missing = ["event", "none", "--name", "x", "--text", "x"];
    assert_eq!(error(&folder, &missing).0, Some(2));
}

#[test]
fn artifacts_are_added_shown_and_exported_with_their_session() {
    let folder = stored();
    folder.write("plan.md", "# Plan\n");
    let add =
        ["artifacts", "add", "support-1", "plan.md", "plan.md", "--summary", "What to do", "--expected", "0"];
    assert_eq!(document(&folder, &add)["version"], 1);
    assert_eq!(error(&folder, &add), (Some(2), "version_conflict".to_owned()));
    folder.write("plan.md", "# Plan B\n");
    sessions(&folder, &["artifacts", "add", "support-1", "plan.md", "plan.md"]);
    let export = sessions(&folder, &["export", "support-1", "--out", "copy.jsonl"]);
    assert_eq!(export.code, Some(0));
    sessions(&folder, &["import", "copy.jsonl", "--as", "copy"]);
    for session in ["support-1", "copy"] {
        let listed = document(&folder, &["artifacts", "list", session]);
        assert_eq!((&listed[0]["summary"], &listed[0]["versions"]), (&json!("What to do"), &json!([1, 2])));
        let shown = document(&folder, &["artifacts", "show", session, "plan.md", "--version", "1"]);
        assert_eq!(shown["text"], "# Plan\n");
    }
    sessions(&folder, &["artifacts", "delete", "copy", "plan.md"]);
    assert_eq!(error(&folder, &["artifacts", "show", "copy", "plan.md"]).1, "not_found");
}
