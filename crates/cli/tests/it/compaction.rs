//! Compaction: automatic, with `compact`, in `chat`; archives, undo, and what of it is shown.

use contexture_mockmodel::Reply;
use contexture_wire::Dialect;
use serde_json::{Value, json};

use crate::Run;
use crate::served::{Served, calls, order, says};

const OPENAI: Dialect = Dialect::Openai;

/// What the user asks, and an answer of about 170 tokens.
fn asks(number: usize) -> String {
    format!("Where is order {number}?")
}

fn answers(number: usize) -> Reply {
    let text = "the parcel went from one depot to the next one. ".repeat(14);
    says(OPENAI, &format!("Order {number} is on its way: {text}"))
}

/// A summary that holds every request, so that it is taken whatever range it is of.
fn summarises() -> Reply {
    let asked: Vec<String> = (1..=8).map(asks).collect();
    says(OPENAI, &format!("## Summary\nThe user asked: {} All are on their way.", asked.join(" ")))
}

/// A project whose model has a small window, and what the model says.
fn served(replies: Vec<Reply>, compaction: &str) -> Served {
    let served = Served::new(OPENAI, replies);
    small_window(&served, compaction);
    served
}

fn small_window(served: &Served, compaction: &str) {
    let path = served.folder.path().join("contexture.toml");
    let config = std::fs::read_to_string(path).expect("it was written");
    let config = config.replace("context_window = 200000", "context_window = 3000\nmax_output = 500");
    served.folder.write("contexture.toml", &format!("{config}[compaction]\n{compaction}\n"));
}

/// A session `s1` of six turns, of which nothing is summarised yet; then the model says more.
fn talked(more: impl IntoIterator<Item = Reply>) -> Served {
    let served = served((1..=6).map(answers).chain(more).collect(), "");
    let lines: Vec<String> = (1..=6).map(asks).collect();
    let run = served.piped(&["chat", "--session", "s1"], &lines.join("\n"));
    assert_eq!(run.code, Some(0), "{}", run.shown());
    served
}

fn document(run: &Run) -> Value {
    assert_eq!(run.code, Some(0), "{}", run.shown());
    run.json()
}

fn lines(run: &Run) -> Vec<Value> {
    run.stdout.lines().map(|it| serde_json::from_str(it).expect("each line is JSON")).collect()
}

fn assert_shown(text: &str, wanted: &[&str]) {
    for it in wanted {
        assert!(text.contains(it), "`{it}` is not in:\n{text}");
    }
}

#[test]
fn a_long_conversation_is_compacted_by_itself() {
    let replies = (1..=4).map(answers).chain([summarises()]).chain((5..=6).map(answers));
    let served = served(replies.collect(), "trigger_tokens = 600\nmin_messages = 4");
    let typed: Vec<String> = (1..=5).map(asks).collect();
    let run = served.piped(&["chat", "--session", "s1", "--json"], &typed.join("\n"));
    let events = lines(&run);
    let of = |kind: &str| events.iter().find(|it| it["type"] == kind).cloned().unwrap_or_default();
    let (start, end) = (of("context_compaction_start"), of("context_compaction_end"));
    assert_eq!(start["strategy"], "session_compaction", "{}", run.shown());
    assert_eq!(start["trigger"]["history_tokens"]["trigger"], 600);
    assert_eq!(
        (&end["archive"], &end["accepted"], &end["made"]),
        (&json!("a1"), &json!(true), &json!("summary"))
    );
    assert!(end["tokens_after"].as_u64() < end["tokens_before"].as_u64(), "{end}");
    let asked = served.asked()[5].body.to_string();
    assert!(asked.contains("All are on their way.") && !asked.contains("Order 1 is"), "{asked}");

    let run = served.run(&["run", "p", "--session", "s1", "--user", &asks(6)]);
    assert_eq!(run.code, Some(0), "{}", run.shown());
    let archives = document(&served.run(&["sessions", "archives", "s1", "--json"]));
    assert_eq!(archives.as_array().map(Vec::len), Some(1), "{archives}");
}

#[test]
fn a_turn_says_what_was_summarised_to_make_room() {
    let replies = (1..=4).map(answers).chain([summarises()]).chain((5..=5).map(answers));
    let served = served(replies.collect(), "trigger_tokens = 600\nmin_messages = 4");
    let typed: Vec<String> = (1..=4).map(asks).collect();
    served.piped(&["chat", "--session", "s1"], &typed.join("\n"));
    let run = served.run(&["run", "p", "--session", "s1", "--user", &asks(5), "--json"]);
    assert_eq!(document(&run)["compactions"][0]["archive"], "a1");
}

#[test]
fn compact_makes_an_archive_that_can_be_read_searched_and_undone() {
    let served = talked([summarises(), summarises()]);
    let run = served.run(&["compact", "s1"]);
    assert_shown(&run.stdout, &["older conversation summarised, ", " tokens (archive a1)\n"]);
    assert_eq!((run.code, run.stderr.as_str()), (Some(0), "compacting …\n"));
    let asked = served.asked()[6].body.to_string();
    assert!(asked.starts_with(r#"{"model":"m-1","messages":[{"role":"system","content":"You are brief."}"#));
    assert!(asked.contains("Order 4 is") && !asked.contains("Order 6 is"), "the newest stay: {asked}");

    let list = served.run(&["sessions", "archives", "s1"]).stdout;
    assert_shown(&list, &["a1", "t1..t4", "reactive_full", "holds", "The user asked: Where is order 1?"]);
    let shown = served.run(&["sessions", "archives", "s1", "a1"]).stdout;
    assert_shown(
        &shown,
        &["a1  t1..t4\n", "All are on their way.", "t2  completed", "user        Where is order 2?"],
    );
    assert!(!shown.contains("order 6 is"), "{shown}");
    assert!(!shown.contains("context_usage"), "{shown}");
    let found = served.run(&["sessions", "archives", "s1", "--search", "order 3"]).stdout;
    assert_shown(&found, &["t3", "user", "Where is order 3?"]);
    let none = served.run(&["sessions", "archives", "s1", "--search", "zebra"]);
    assert_eq!(none.shown(), "Nothing that is archived has one of these words.\n[exit 0]");
    let full = served.run(&["sessions", "archives", "s1", "--full"]).stdout;
    assert_shown(&full, &["t1  completed", "Order 1 is on", "t6  completed"]);
    assert!(!full.contains("All are on their way."), "{full}");

    let read = served.run(&["sessions", "show", "s1"]).stdout;
    assert_shown(
        &read,
        &["a1  in the place of t1..t4", "a1 of t1..t4 (items 1 to 21): ## Summary", "t5  completed"],
    );
    assert!(!read.contains("Order 4 is"), "{read}");
    let newest = served.run(&["sessions", "show", "s1", "--limit", "1"]).stdout;
    assert!(newest.contains("Order 6 is") && !newest.contains("Order 5 is"), "{newest}");
    let log = served.run(&["sessions", "show", "s1", "--view", "all"]).stdout;
    assert_shown(&log, &["Order 1 is", "summary     (hidden) a1 of t1..t4"]);

    let run = served.run(&["compact", "s1", "--undo"]);
    assert_eq!(run.shown(), "archive a1 is undone: t1..t4 (items 1 to 21) is read again as it was\n[exit 0]");
    assert_shown(&served.run(&["sessions", "show", "s1"]).stdout, &["Order 1 is"]);
    assert_shown(&served.run(&["sessions", "show", "s1", "--view", "all"]).stdout, &["archive a1 is undone"]);
    let run = served.run(&["compact", "s1", "--undo"]);
    assert_eq!(run.shown(), "There is no archive that could be taken back.\n[exit 0]");
    let run = served.run(&["sessions", "archives", "s1"]);
    assert_shown(&run.stdout, &["There are no archives"]);
}

#[test]
fn programs_get_documents() {
    let served = talked([summarises()]);
    let report = document(&served.run(&["compact", "s1", "--json"]));
    let keys: Vec<&String> = report.as_object().into_iter().flat_map(|it| it.keys()).collect();
    let all = ["strategy", "trigger", "messages_before", "messages_after", "tokens_before", "tokens_after"];
    assert_eq!(keys, [&all as &[&str], &["archive", "accepted", "made"]].concat());
    assert_eq!((&report["trigger"], &report["archive"]), (&json!("asked"), &json!("a1")));

    let archives = document(&served.run(&["sessions", "archives", "s1", "--json"]));
    let archive = &archives[0];
    assert_eq!((&archive["turns"], &archive["holds"]), (&json!(["t1", "t4"]), &json!(true)));
    assert_eq!(
        (&archive["first"], &archive["last"], &archive["left_out"]),
        (&json!(1), &json!(21), &Value::Null)
    );
    assert!(archive["tokens_before"].as_u64() > archive["tokens_after"].as_u64(), "{archive}");
    let one = document(&served.run(&["sessions", "archives", "s1", "1", "--json"]));
    assert_eq!((&one["archive"], &one["items"][1]["id"]), (&json!("a1"), &json!("s1:2")));
    let found = document(&served.run(&["sessions", "archives", "s1", "--search", "3", "--json"]));
    assert_eq!((&found[0]["turn"], &found[1]["turn"]), (&json!("t3"), &json!("t3")));
    let full = document(&served.run(&["sessions", "archives", "s1", "--full", "--json"]));
    assert_eq!(full.as_array().map(Vec::len), Some(31));
    let undone = document(&served.run(&["compact", "s1", "--undo", "--json"]));
    assert_eq!(undone, json!({"undone": {"archive": "a1", "turns": ["t1", "t4"], "first": 1, "last": 21}}));
    assert_eq!(document(&served.run(&["compact", "s1", "--undo", "--json"])), json!({"undone": null}));
}

#[test]
fn a_summary_that_fails_gives_excerpts_and_says_why() {
    let served = talked([Reply::status(400), says(OPENAI, "I can't help with that.")]);
    let run = served.run(&["compact", "s1"]);
    assert_shown(&run.stdout, &["put into excerpts", "(archive a1): the summariser failed"]);
    served.run(&["compact", "s1", "--undo"]);
    let report = document(&served.run(&["compact", "s1", "--json"]));
    assert_eq!((&report["made"], &report["accepted"]), (&json!("extract"), &json!(false)));
    assert_eq!(report["archive"], "a2", "the number of what was undone is not given again");
}

#[test]
fn nothing_to_do_is_told_and_no_error() {
    let served = served(vec![says(OPENAI, "Hello.")], "");
    served.piped(&["chat", "--session", "s1"], "Hi.\n");
    let run = served.run(&["compact", "s1"]);
    assert_eq!(run.code, Some(0), "{}", run.shown());
    assert_shown(&run.stdout, &["nothing is summarised, ", "would gain nothing"]);
    let report = document(&served.run(&["compact", "s1", "--json"]));
    assert_eq!((&report["made"], report.get("archive")), (&json!("unchanged"), None));
    assert_eq!(served.asked().len(), 1, "nobody was asked");
}

#[test]
fn what_is_wrong_is_told() {
    let served = talked([]);
    let refused = |args: &[&str]| {
        let all: Vec<&str> = args.iter().copied().chain(["--json"]).collect();
        let run = served.run(&all);
        (run.code, run.json()["error"]["code"].as_str().unwrap_or_default().to_owned())
    };
    for (args, exit, code) in [
        (&["compact", "nobody"] as &[&str], 2, "not_found"),
        (&["compact", "nobody", "--undo"], 2, "not_found"),
        (&["compact", "s1", "--thread", "nobody"], 2, "not_found"),
        (&["compact", "s1", "--prompt", "nobody"], 2, "unknown_prompt"),
        (&["compact", "s1", "--model", "nobody/m"], 2, "model_not_found"),
        (&["compact", "s1", "--undo", "--prompt", "p"], 2, "usage"),
        (&["compact", "s1", "--store", "sqlite:none.db"], 3, "not_found"),
        (&["compact", "s1", "--undo", "--store", "sqlite:none.db"], 3, "not_found"),
        (&["compact"], 2, "usage"),
        (&["sessions", "archives", "nobody"], 2, "not_found"),
        (&["sessions", "archives", "s1", "7"], 2, "not_found"),
        (&["sessions", "archives", "s1", "x"], 2, "usage"),
        (&["sessions", "archives", "s1", "1", "--full"], 2, "usage"),
        (&["sessions", "refresh", "nobody"], 2, "not_found"),
        (&["run", "p", "--user", "Hi.", "--block", "page"], 2, "usage"),
        (&["run", "p", "--user", "Hi.", "--block", "page=@none.txt"], 2, "not_found"),
        (&["run", "p", "--user", "Hi.", "--refresh"], 2, "usage"),
    ] {
        assert_eq!(refused(args), (Some(exit), code.to_owned()), "{args:?}");
    }
    assert!(!served.folder.path().join("none.db").exists(), "nothing is made by looking");
    served.folder.write("prompts/q.md", "You are long.");
    let run = served.run(&["compact", "s1"]);
    assert!(run.code == Some(2) && run.stderr.contains("`--prompt ID`"), "{}", run.shown());
}

#[test]
fn a_chat_can_be_compacted_and_shows_what_fills_the_window() {
    let served = talked([answers(7), summarises()]);
    let typed = format!(
        "{}\n/context\n/compact\n/context\n/archives\n/archives 1\n/undo\n/refresh\n/archives\n",
        asks(7)
    );
    let run = served.piped(&["chat", "--session", "s1"], &typed);
    assert_eq!(run.code, Some(0), "{}", run.shown());
    let shown = run.stdout;
    assert_shown(
        &shown,
        &[
            "mock/m-1  about ",
            " of 2500 tokens, ",
            "  system  ",
            "  tools  ",
            "  summaries          0    0.0%",
        ],
    );
    assert_shown(
        &shown,
        &["  history  ", "  hidden context  ", "  this turn  ", "  free  ", "  last turn  "],
    );
    assert_shown(&shown, &["Not in it\n  history:t1..t5: summarised in a1 (items 1 to 26)", "(archive a1)"]);
    assert_shown(
        &shown,
        &["a1  t1..t5\n", "archive a1 is undone", "the frozen prefix again", "There are no archives"],
    );
}

#[test]
fn what_fills_the_window_adds_up() {
    let served = talked([answers(7), summarises()]);
    let typed = format!("{}\n/compact\n/context\n/context all\n", asks(7));
    let run = served.piped(&["chat", "--session", "s1", "--json"], &typed);
    let replies: Vec<Value> = lines(&run).into_iter().filter(|it| it["type"] == "reply").collect();
    assert_eq!(replies[0]["value"]["made"], "summary", "{}", run.shown());
    let context = &replies[1]["value"];
    let groups = context["groups"].as_array().cloned().unwrap_or_default();
    let tokens =
        |name: &str| groups.iter().find(|it| it["name"] == name).and_then(|it| it["tokens"].as_u64());
    let sum: u64 = groups.iter().filter_map(|it| it["tokens"].as_u64()).sum();
    assert_eq!(context["used"].as_u64(), Some(sum), "{context}");
    assert_eq!(context["free"].as_u64(), Some(2500 - sum));
    assert!(tokens("summaries") > Some(50) && tokens("this turn") > Some(100), "{context}");
    assert_eq!(
        (&context["absent"][0]["source"], &context["last_turn"]["calls"]),
        (&json!("history:t1..t5"), &json!(1))
    );
    // This provider says nothing of its cache, so nothing is foretold of it.
    assert!(context["cache"]["forecast"].is_null(), "{context}");
    assert_eq!(replies[2]["value"]["total_tokens"].as_u64(), Some(sum));
}

#[test]
fn blocks_and_reminders_of_a_turn_are_hidden_beside_what_is_said() {
    let served = served(vec![says(OPENAI, "Yes."), says(OPENAI, "Still.")], "");
    served.folder.write("page.txt", "Orders <1042>");
    let args = [
        "run",
        "p",
        "--session",
        "s1",
        "--user",
        "Is it?",
        "--block",
        "page=@page.txt",
        "--block",
        "mood=good",
    ];
    let run = served.run(&[&args as &[&str], &["--remind", "Be kind.", "--remind", "Be brief."]].concat());
    assert_eq!(run.shown(), "Yes.\n[exit 0]");
    let asked = served.asked()[0].body.to_string();
    assert_shown(&asked, &["<page>", "&lt;1042", "<mood>", "<system-reminders>", "Be kind.\\nBe brief."]);
    let shown = served.run(&["sessions", "show", "s1"]).stdout;
    assert_shown(&shown, &["context     (hidden)", "reminders   (hidden) Be kind."]);
    let context = served.piped(&["chat", "--session", "s1", "--json"], "/context\n");
    let groups = lines(&context)[0]["value"]["groups"].clone();
    let hidden =
        groups.as_array().and_then(|it| it.iter().find(|it| it["name"] == "hidden context").cloned());
    assert!(hidden.is_some_and(|it| it["tokens"].as_u64() > Some(10)), "{groups}");
}

#[test]
fn a_frozen_prefix_is_evaluated_anew_when_asked() {
    let served = served((1..=5).map(|_| says(OPENAI, "Yes.")).collect(), "");
    let block = |text: &str| {
        let front = "---\nmessage: system\nscope: conversation\nmode: cached\n---\n";
        served.folder.write("blocks/rules.md", &format!("{front}{text}"));
    };
    let says_now = |more: &[&str]| {
        let run = served.run(&[&["run", "p", "--session", "s1", "--user", "Hi."] as &[&str], more].concat());
        assert_eq!(run.code, Some(0), "{}", run.shown());
        served.asked().last().map(|it| it.body["messages"][0].to_string()).unwrap_or_default()
    };
    block("Rule one.");
    assert!(says_now(&[]).contains("Rule one."));
    block("Rule two.");
    assert!(says_now(&[]).contains("Rule one."), "it is pinned");
    assert!(says_now(&["--refresh"]).contains("Rule two."));
    block("Rule three.");
    assert!(says_now(&[]).contains("Rule two."));
    let run = served.run(&["sessions", "refresh", "s1"]);
    assert_eq!(run.shown(), "refreshed s1: its next turn evaluates the prefix anew\n[exit 0]");
    assert!(says_now(&[]).contains("Rule three."));
    let log = served.run(&["sessions", "show", "s1", "--view", "all"]).stdout;
    assert_shown(&log, &["noted under contexture.pins: {", "noted under contexture.pins: {\"anew\":true}"]);
}

#[test]
fn rounds_that_are_summarised_within_a_turn_stay_in_their_place() {
    let state =
        |it: u32| order(&format!("shipped {it} {}", "from one depot to the next, and then on. ".repeat(24)));
    let replies = (1..=7).map(|it| calls(OPENAI, it)).chain([summarises(), says(OPENAI, "All are there.")]);
    let served = Served::with_tools(OPENAI, replies, (1..=7).map(state)).with_shop("");
    small_window(&served, "micro_batch_groups = 3");
    let run = served.run(&["run", "shop", "--session", "s1", "--user", "Where are they?"]);
    assert_eq!((run.code, run.stdout.as_str()), (Some(0), "All are there.\n"), "{}", run.stderr);
    assert_shown(&run.stderr, &["tool find_order", "older conversation summarised, ", "(archive a1)"]);
    let archives = document(&served.run(&["sessions", "archives", "s1", "--json"]));
    assert_eq!(
        (&archives[0]["strategy"], &archives[0]["turns"]),
        (&json!("reactive_micro"), &json!(["t1", "t1"]))
    );
    let read = served.run(&["sessions", "show", "s1"]).stdout;
    assert_shown(
        &read,
        &["user        Where are they?\n  summary     (hidden) a1 of t1 (items", "[call c4]"],
    );
    assert!(!read.contains("[call c2]"), "{read}");
    let context = served.piped(&["chat", "shop", "--session", "s1", "--json"], "/context\n");
    let groups = lines(&context)[0]["value"]["groups"].clone();
    let names: Vec<(&str, bool)> = groups
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|it| Some((it["name"].as_str()?, it["tokens"].as_u64()? > 0)))
        .collect();
    assert!(names.contains(&("summaries", true)) && names.contains(&("this turn", true)), "{groups}");
}

#[test]
#[cfg(unix)]
fn ctrl_c_stops_a_compaction_and_nothing_is_changed() {
    let served = talked([Reply::mute()]);
    let child = served.folder.command(&["compact", "s1"]).spawn().expect("it starts");
    // Once the model is asked, the command waits and listens.
    while served.asked().len() < 7 {
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    let kill = std::process::Command::new("kill").args(["-INT", &child.id().to_string()]).status();
    assert!(kill.expect("signals can be sent").success());
    let output = child.wait_with_output().expect("it ends");
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(3), "{stderr}");
    assert_shown(&stderr, &["error[cancelled]", "nothing is changed"]);
    assert_shown(&served.run(&["sessions", "archives", "s1"]).stdout, &["There are no archives"]);
}
