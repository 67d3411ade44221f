//! `chat` through a pipe, against a model on loopback.

use contexture_mockmodel::Reply;
use contexture_wire::Dialect;
use serde_json::Value;

use crate::served::{Served, calls, last_message, order, says};

const OPENAI: Dialect = Dialect::Openai;

#[test]
fn each_line_is_a_turn_and_the_session_is_kept() {
    for dialect in [OPENAI, Dialect::Anthropic] {
        let served = Served::new(
            dialect,
            [says(dialect, "Hello Ada."), says(dialect, "You are Ada."), says(dialect, "Bye.")],
        );
        let run = served.piped(&["chat", "--session", "s1"], "I am Ada.\n\nWho am I?\n");
        assert_eq!(run.stdout, "Hello Ada.\nYou are Ada.\n", "{}", run.stderr);
        assert_eq!((run.code, run.stderr.as_str()), (Some(0), "session s1 begins with mock/m-1\n"));
        assert!(served.asked()[1].body.to_string().contains("Hello Ada."));

        let run = served.piped(&["chat", "--last"], "Goodbye.");
        assert_eq!(
            (run.stdout.as_str(), run.stderr.as_str()),
            ("Bye.\n", "session s1 continues with mock/m-1\n")
        );
        assert!(served.asked()[2].body.to_string().contains("I am Ada."));
        let shown = served.run(&["sessions", "show", "s1"]).stdout;
        assert!(shown.contains("t3  completed") && shown.contains("You are Ada."), "{shown}");
    }
}

#[test]
fn a_new_session_has_a_name_that_can_be_read_and_looking_leaves_nothing() {
    let served = Served::new(OPENAI, []);
    let run = served.piped(&["chat"], "/help\n/model\n/context\n/compact\n/tools\n/history\n");
    assert_eq!(run.code, Some(0), "{}", run.shown());
    let name = run.stderr.split_whitespace().nth(1).unwrap_or_default();
    assert_eq!(name.split('-').count(), 3, "{}", run.stderr);
    for shown in
        ["/session ID", "The model is mock/m-1.", "of 191808 tokens", "no tools", "Nothing was said yet."]
    {
        assert!(run.stdout.contains(shown), "{shown}: {}", run.stdout);
    }
    assert_eq!(served.run(&["sessions", "list"]).stdout, "There are no sessions.\n");
}

#[test]
fn commands_change_the_conversation() {
    let replies = ["One.", "Two.", "Two again.", "Elsewhere."].map(|it| says(OPENAI, it));
    let served = Served::new(OPENAI, replies);
    let typed = "First\n/system Speak Dutch.\n/model mock/m-2\nSecond\n/retry\n/context all\n/new other\nThird\n/session s1\n/history 1\n/sessions\n";
    let run = served.piped(&["chat", "--session", "s1"], typed);
    assert_eq!(run.code, Some(0), "{}", run.shown());
    let asked = served.asked();
    assert_eq!(asked[0].body["model"], "m-1");
    assert_eq!(asked[1].body["model"], "m-2");
    assert!(asked[1].body.to_string().contains("Speak Dutch."));
    assert_eq!(last_message(&asked[2])["content"], "Second");
    let other = asked[3].body.to_string();
    assert!(
        !other.contains("First") && !other.contains("Dutch") && asked[3].body["model"] == "m-1",
        "{other}"
    );
    for shown in ["history:t1", "Session other begins.", "Session s1 continues.", "Two again.", "other "] {
        assert!(run.stdout.contains(shown), "{shown}: {}", run.stdout);
    }
}

#[test]
fn a_command_that_is_not_there_is_refused_with_the_nearest_one() {
    let served = Served::new(OPENAI, []);
    let run = served.piped(&["chat"], "/histroy\n");
    assert_eq!(run.code, Some(2));
    assert!(run.stderr.contains("did you mean `/history`?"), "{}", run.stderr);
}

#[test]
fn a_turn_that_fails_is_told_and_the_chat_goes_on() {
    let served = Served::new(OPENAI, [Reply::status(401), says(OPENAI, "Here I am.")]);
    let run = served.piped(&["chat"], "Hello?\nHello?\n");
    assert_eq!((run.stdout.as_str(), run.code), ("Here I am.\n", Some(3)));
    assert!(run.stderr.contains("error[model_auth]"), "{}", run.stderr);
}

#[test]
fn a_line_can_go_on() {
    let served = Served::new(OPENAI, [says(OPENAI, "Fine.")]);
    assert_eq!(served.piped(&["chat"], "one\\\ntwo\n").stdout, "Fine.\n");
    assert_eq!(last_message(&served.asked()[0])["content"], "one\ntwo");
}

#[test]
fn in_a_pipe_a_call_that_needs_approval_is_denied_and_the_model_is_told() {
    let replies = || [calls(OPENAI, 7), says(OPENAI, "I could not look.")];
    let served = Served::with_tools(OPENAI, replies(), []).with_shop("    approval: true\n");
    let run = served.piped(&["chat", "shop"], "Where is it?\n/tools\n");
    assert!(run.stdout.starts_with("I could not look.\n"), "{}", run.shown());
    assert!(run.stdout.contains("after approval") && run.stderr.contains("denied"), "{}", run.shown());
    assert!(served.called().is_empty());

    let served = Served::with_tools(OPENAI, replies(), [order("shipped")]).with_shop("    approval: true\n");
    let run = served.piped(&["chat", "shop", "--yes"], "Where is it?\n");
    assert_eq!((run.code, served.called()), (Some(0), vec!["/orders/7".to_owned()]), "{}", run.shown());
}

#[test]
fn json_is_a_line_for_each_event_and_each_reply() {
    let served = Served::new(OPENAI, [says(OPENAI, "Hello.")]);
    let run = served.piped(&["chat", "--json"], "Hi.\n/sessions\n/nothing\nHi?\n");
    let lines: Vec<Value> =
        run.stdout.lines().map(|it| serde_json::from_str(it).expect("each line is JSON")).collect();
    let kinds: Vec<&str> = lines.iter().filter_map(|it| it["type"].as_str()).collect();
    for kind in ["turn.start", "text.delta", "turn.end", "reply", "error", "failure"] {
        assert!(kinds.contains(&kind), "{kind}: {kinds:?}");
    }
}

#[test]
fn the_prompt_is_the_only_one_or_chat_or_our_own() {
    let served = Served::new(OPENAI, ["1", "2", "3"].map(|it| says(OPENAI, it)));
    let system = |at: usize| served.asked()[at].body["messages"][0].to_string();
    served.piped(&["chat"], "Hi.");
    assert!(system(0).contains("You are brief."));
    served.folder.write("prompts/q.md", "You are long.");
    let run = served.piped(&["chat"], "Hi.");
    assert!(run.code == Some(2) && run.stderr.contains("contexture chat PROMPT"), "{}", run.shown());
    served.folder.write("prompts/chat.md", "You chat.");
    served.piped(&["chat"], "Hi.");
    assert!(system(1).contains("You chat."));
    std::fs::remove_dir_all(served.folder.path().join("prompts")).expect("it is there");
    let run = served.piped(&["chat", "--store", "memory:"], "Hi.");
    assert_eq!(run.code, Some(0), "{}", run.shown());
    assert!(system(2).contains("in a terminal"));
}

#[test]
fn so_many_turns_go_along_as_the_configuration_says() {
    let served = Served::new(OPENAI, ["one", "two", "three", "four"].map(|it| says(OPENAI, it)));
    let args = ["chat", "--session", "s1"];
    served.piped(&args, "first\nsecond\nthird\n");
    let variables = [("CONTEXTURE_HISTORY_WINDOW_TURNS", "1")];
    assert_eq!(served.folder.run_with(&args, "fourth\n", &variables).stdout, "four\n");
    let asked = served.asked()[3].body.to_string();
    assert!(asked.contains("third") && !asked.contains("first") && !asked.contains("second"), "{asked}");
}
