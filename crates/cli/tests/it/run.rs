//! `run`, against a model on loopback.

use std::time::Duration;

use contexture_message::{Answer, Delta, Part, Thinking};
use contexture_mockmodel::Reply;
use contexture_wire::Dialect;
use serde_json::{Value, json};

use crate::served::{Served, calls, config, last_message, order, says};

const OPENAI: Dialect = Dialect::Openai;

#[test]
fn the_answer_alone_goes_to_standard_output() {
    for dialect in [OPENAI, Dialect::OpenaiResponses, Dialect::Anthropic] {
        let served = Served::new(dialect, [says(dialect, "The answer is 42.")]);
        let run = served.run(&["run", "p", "--user", "What is it?"]);
        assert_eq!(run.shown(), "The answer is 42.\n[exit 0]", "{dialect:?}");
    }
}

#[test]
fn thinking_is_shown_if_it_is_asked_for_and_not_on_standard_output() {
    let dialect = Dialect::Anthropic;
    let answer = || {
        let thinking = Thinking { text: "Hm, hm.".to_owned(), ..Thinking::default() };
        let parts = vec![Part::Thinking(thinking), Part::text("It is 42.")];
        let pieces = ["Hm, ", "hm."].map(|it| Delta::Thinking(it.to_owned()));
        let rest = [Delta::Text("It is 42.".to_owned()), Delta::Done(Box::new(Answer::parts(parts)))];
        Reply::deltas(dialect, &pieces.into_iter().chain(rest).collect::<Vec<_>>())
    };
    let served = Served::new(dialect, [answer(), answer()]);
    let run = served.run(&["run", "p", "--user", "What is it?"]);
    assert_eq!(run.shown(), "It is 42.\n[exit 0]");
    let run = served.run(&["run", "p", "--user", "What is it?", "--thinking"]);
    assert_eq!((run.stdout.as_str(), run.stderr.as_str()), ("It is 42.\n", "Hm, hm.\n"));
}

#[test]
fn a_reader_that_goes_away_does_not_end_the_turn() {
    let served = Served::new(OPENAI, [says(OPENAI, "one two three four").every(Duration::from_millis(50))]);
    let args = ["run", "p", "--user", "Count.", "--session", "s1"];
    let mut child = served.folder.command(&args).spawn().expect("it starts");
    drop(child.stdout.take());
    assert_eq!(child.wait().expect("it ends").code(), Some(0));
    assert!(served.run(&["sessions", "show", "s1"]).stdout.contains("one two three four"));
}

#[test]
fn a_variable_that_means_nothing_is_warned_about_once() {
    let served = Served::new(OPENAI, [says(OPENAI, "Yes.")]);
    let run = served.folder.run_with(&["run", "p", "--user", "Is it?"], "", &[("CONTEXTURE_X", "1")]);
    assert_eq!(run.stderr.matches("CONTEXTURE_X").count(), 1, "{}", run.stderr);
}

#[test]
fn what_the_user_says_can_come_from_standard_input() {
    let served = Served::new(OPENAI, [says(OPENAI, "Yes.")]);
    let args =
        ["run", "p", "--user", "-", "--max-tokens", "7", "--temperature", "0.5", "--model", "mock/m-2"];
    assert_eq!(served.piped(&args, "Is it?\n").code, Some(0));
    let asked = &served.asked()[0];
    assert_eq!(last_message(asked)["content"], "Is it?");
    assert_eq!((&asked.body["model"], &asked.body["temperature"]), (&json!("m-2"), &json!(0.5)));
    assert!(asked.body.to_string().contains(":7"), "{}", asked.body);
    assert!(!asked.headers.contains_key("authorization"), "{asked:?}");
}

#[test]
fn json_is_one_document() {
    let served = Served::new(OPENAI, [says(OPENAI, "Yes.")]);
    let document = served.run(&["run", "p", "--user", "Is it?", "--json"]).json();
    let keys: Vec<&String> = document.as_object().into_iter().flat_map(|it| it.keys()).collect();
    assert_eq!(keys, ["thread", "turn", "status", "ended", "text", "usage", "steps", "remarks", "approvals"]);
    assert_eq!((&document["status"], &document["text"]), (&json!("completed"), &json!("Yes.")));
}

#[test]
fn an_answer_with_a_schema_is_a_value_or_a_failed_check() {
    let replies = || [says(OPENAI, r#"{"n": 7}"#), says(OPENAI, "seven"), says(OPENAI, "still seven")];
    let served = Served::new(OPENAI, replies());
    let schema = "---\noutput: {type: object, properties: {n: {type: integer}}, required: [n]}\n---\nCount.";
    served.folder.write("prompts/p.md", schema);
    let run = served.run(&["run", "p", "--user", "How many?", "--json"]);
    assert_eq!((run.code, &run.json()["output"]), (Some(0), &json!({"n": 7})));
    let run = served.run(&["run", "p", "--user", "How many?", "--json"]);
    assert_eq!((run.code, &run.json()["error"]["code"]), (Some(1), &json!("output_invalid")));
}

#[test]
fn an_answer_that_was_rejected_is_not_printed() {
    let served = Served::new(OPENAI, [says(OPENAI, "seven"), says(OPENAI, r#"{"n": 7}"#)]);
    let schema = "---\noutput: {type: object, properties: {n: {type: integer}}, required: [n]}\n---\nCount.";
    served.folder.write("prompts/p.md", schema);
    let run = served.run(&["run", "p", "--user", "How many?"]);
    assert_eq!((run.code, run.stdout.as_str()), (Some(0), "{\"n\": 7}\n"), "{}", run.stderr);
    assert!(run.stderr.contains("is made again"), "{}", run.stderr);
}

#[test]
fn events_are_json_lines() {
    let replies = [calls(OPENAI, 7), says(OPENAI, "It is on its way.")];
    let served = Served::with_tools(OPENAI, replies, [order("shipped")]).with_shop("");
    let run = served.run(&["run", "shop", "--user", "Where is it?", "--events"]);
    let events: Vec<Value> =
        run.stdout.lines().map(|it| serde_json::from_str(it).expect("each line is JSON")).collect();
    let kinds: Vec<&str> = events.iter().filter_map(|it| it["type"].as_str()).collect();
    let rest = ["turn.start", "context_usage", "tool.call", "tool.result", "text.delta"];
    assert!(rest.iter().all(|it| kinds.contains(it)), "{kinds:?}");
    assert_eq!(kinds.last(), Some(&"turn.end"));
}

#[test]
fn a_tool_of_the_project_is_an_http_call() {
    for dialect in [OPENAI, Dialect::Anthropic] {
        let replies = [calls(dialect, 7), says(dialect, "It is on its way.")];
        let served = Served::with_tools(dialect, replies, [order("shipped")]).with_shop("");
        let run = served.run(&["run", "shop", "--user", "Where is it?"]);
        assert_eq!(run.stdout, "It is on its way.\n", "{}", run.stderr);
        assert_eq!(run.stderr, "tool find_order {\"number\":7}\n  find_order: {\"state\":\"shipped\"}\n");
        assert_eq!(served.called(), ["/orders/7"]);
        assert!(served.asked()[1].body.to_string().contains("shipped"));
    }
}

#[test]
fn prompts_may_have_different_tools_of_one_name() {
    let replies = [calls(OPENAI, 7), says(OPENAI, "It is paid.")];
    let served = Served::with_tools(OPENAI, replies, [order("paid")]).with_shop("");
    let shop = std::fs::read_to_string(served.folder.path().join("prompts/shop.md")).expect("it was written");
    served.folder.write("prompts/bills.md", &shop.replace("/orders/", "/bills/"));
    let run = served.run(&["run", "bills", "--user", "Is it paid?"]);
    assert_eq!(run.stdout, "It is paid.\n", "{}", run.stderr);
    assert_eq!(served.called(), ["/bills/7"]);
}

#[test]
fn a_tool_s_secret_comes_from_the_environment_and_shows_nowhere() {
    let replies = || [calls(OPENAI, 7), says(OPENAI, "Done."), calls(OPENAI, 8), says(OPENAI, "No.")];
    let served = Served::with_tools(OPENAI, replies(), [order("shipped")]).with_shop("");
    let text = std::fs::read_to_string(served.folder.path().join("prompts/shop.md")).expect("it is there");
    let text = text.replace("{number}\"}", "{number}\", header_env: {x-key: SHOP_KEY}}");
    served.folder.write("prompts/shop.md", &text);
    let args = ["run", "shop", "--user", "Where is it?"];
    let run = served.folder.run_with(&args, "", &[("SHOP_KEY", "s3cret-word")]);
    assert_eq!(run.stdout, "Done.\n");
    assert!(!run.stderr.contains("s3cret-word"), "{}", run.stderr);
    // Without it the call fails, and the model is told which one is missing.
    let run = served.run(&args);
    assert!(run.stderr.contains("`SHOP_KEY`"), "{}", run.stderr);
    assert_eq!(served.called().len(), 1);
}

#[test]
fn in_a_pipe_a_call_that_needs_approval_ends_the_run() {
    let served = Served::with_tools(OPENAI, [calls(OPENAI, 7)], []).with_shop("    approval: true\n");
    let run = served.run(&["run", "shop", "--user", "Where is it?"]);
    assert_eq!(run.code, Some(1), "{}", run.shown());
    assert!(run.stderr.contains("approval is needed: find_order {\"number\":7}"), "{}", run.stderr);
    assert!(run.stderr.contains("--yes") && served.called().is_empty());

    let served = Served::with_tools(OPENAI, [calls(OPENAI, 7)], []).with_shop("    approval: true\n");
    let run = served.run(&["run", "shop", "--user", "Where is it?", "--json"]);
    let document = run.json();
    assert_eq!((run.code, &document["status"]), (Some(1), &json!("suspended")));
    assert_eq!(document["approvals"][0]["arguments"], json!({"number": 7}));
}

#[test]
fn a_call_that_waits_is_decided_later() {
    for (deny, said) in [(vec![], "\"shipped\""), (vec!["--deny", "too late"], "too late")] {
        let served =
            Served::with_tools(OPENAI, [calls(OPENAI, 7), says(OPENAI, "Done.")], [order("shipped")])
                .with_shop("    approval: true\n");
        let waits =
            served.run(&["run", "shop", "--user", "Where is it?", "--session", "s1", "--json"]).json();
        let approval = &waits["approvals"][0];
        let (id, token) = (approval["id"].as_str().unwrap(), approval["token"].as_str().unwrap());
        let forged = served.run(&["run", "shop", "--session", "s1", "--decide", id, "forged", "--json"]);
        assert_eq!(forged.json()["error"]["code"], "approval_forged", "{}", forged.shown());
        let args: Vec<&str> =
            ["run", "shop", "--session", "s1", "--decide", id, token].into_iter().chain(deny).collect();
        let run = served.run(&args);
        assert_eq!((run.code, run.stdout.as_str()), (Some(0), "Done.\n"), "{}", run.shown());
        assert!(
            served.asked()[1].body.to_string().contains(said.trim_matches('"')),
            "{}",
            served.asked()[1].body
        );
        let again = served.run(&["run", "shop", "--session", "s1", "--decide", id, token, "--json"]);
        assert_eq!(again.json()["error"]["code"], "approval_not_waiting");
    }
}

#[test]
fn yes_approves_every_call() {
    let replies = [calls(OPENAI, 7), calls(OPENAI, 8), says(OPENAI, "Both are on their way.")];
    let served = Served::with_tools(OPENAI, replies, [order("shipped"), order("packed")])
        .with_shop("    approval: true\n");
    let run = served.run(&["run", "shop", "--user", "Where are they?", "--yes", "--json"]);
    let document = run.json();
    assert_eq!((run.code, &document["text"]), (Some(0), &json!("Both are on their way.")), "{document}");
    assert_eq!(
        (&document["steps"], served.called()),
        (&json!(3), vec!["/orders/7".to_owned(), "/orders/8".to_owned()])
    );
}

#[test]
fn a_session_is_kept_and_a_key_gives_the_same_answer() {
    let served = Served::new(OPENAI, [says(OPENAI, "Hello Ada."), says(OPENAI, "Ada.")]);
    let first = ["run", "p", "--user", "I am Ada.", "--session", "s1", "--key", "k1"];
    assert_eq!(served.run(&first).shown(), "Hello Ada.\n[exit 0]");
    assert_eq!(served.run(&first).shown(), "Hello Ada.\n[exit 0]");
    assert_eq!(served.asked().len(), 1);
    assert_eq!(served.run(&["run", "p", "--user", "Who am I?", "--session", "s1"]).stdout, "Ada.\n");
    assert!(served.asked()[1].body.to_string().contains("I am Ada."));
    let shown = served.run(&["sessions", "show", "s1"]).stdout;
    assert!(shown.contains("t2  completed") && shown.contains("Hello Ada."), "{shown}");
}

#[test]
fn trouble_with_a_model_says_what_to_do() {
    let error = |status: u16, message: &str| {
        Reply::json(status, &json!({"error": {"message": message, "type": "x", "code": null}}))
    };
    for (reply, code, hint) in [
        (error(401, "wrong key"), "model_auth", "`api_key_env` below `[providers.mock]`"),
        (error(404, "no such model"), "model_not_found", "serve a model called `m-1`"),
        (error(400, "wrong"), "model_error", "--wire openai"),
        (
            Reply::status(200).text("<html>").header("content-type", "text/html"),
            "model_malformed",
            "dialect `openai`",
        ),
    ] {
        let served = Served::new(OPENAI, [reply]);
        let run = served.run(&["run", "p", "--user", "Hi.", "--json"]);
        let error = run.json()["error"].clone();
        assert_eq!((run.code, error["code"].as_str()), (Some(3), Some(code)), "{error}");
        assert!(error["hint"].as_str().is_some_and(|it| it.contains(hint)), "{error}");
    }
}

#[test]
fn a_server_that_is_not_there_is_named() {
    let served = Served::new(OPENAI, []);
    let text = config("dialect = \"openai\"\nbase_url = \"http://127.0.0.1:9/v1\"");
    served.folder.write("contexture.toml", &text);
    let run = served.run(&["run", "p", "--user", "Hi."]);
    assert_eq!(run.code, Some(3));
    assert!(run.stderr.contains("is a server running at http://127.0.0.1:9/v1?"), "{}", run.stderr);
}

#[test]
fn a_missing_key_is_told_before_anything_is_sent_or_written() {
    let served = Served::new(OPENAI, []);
    let args = ["run", "p", "--user", "Hi.", "--session", "s1", "--model", "openai/gpt-5-mini"];
    let run = served.run(&args);
    assert_eq!(run.code, Some(3), "{}", run.shown());
    assert!(run.stderr.contains("set the environment variable `OPENAI_API_KEY`"), "{}", run.stderr);
    assert!(served.run(&["sessions", "show", "s1"]).stderr.contains("not_found"));
    // A variable that is named counts, and no other.
    let text = std::fs::read_to_string(served.folder.path().join("contexture.toml")).expect("it is there");
    served.folder.write("contexture.toml", &format!("{text}api_key_env = \"MOCK_KEY\"\n"));
    let run = served.folder.run_with(&["run", "p", "--user", "Hi."], "", &[("OPENAI_API_KEY", "k")]);
    assert!(run.stderr.contains("`MOCK_KEY`") && served.asked().is_empty(), "{}", run.stderr);
}

#[test]
fn a_key_goes_along_and_shows_nowhere() {
    let error = json!({"error": {"message": "the key sk-very-secret is wrong"}});
    let served = Served::new(OPENAI, [Reply::json(401, &error)]);
    let text = std::fs::read_to_string(served.folder.path().join("contexture.toml")).expect("it is there");
    served.folder.write("contexture.toml", &format!("{text}api_key_env = \"MOCK_KEY\"\n"));
    let args = ["run", "p", "--user", "Hi."];
    let variables = [("MOCK_KEY", "sk-very-secret"), ("CONTEXTURE_TELEMETRY_LOG", "trace")];
    let run = served.folder.run_with(&args, "", &variables);
    assert_eq!(served.asked()[0].headers["authorization"], "Bearer sk-very-secret");
    assert!(!run.shown().contains("sk-very-secret"), "{}", run.shown());
    assert!(run.stderr.contains("`MOCK_KEY`"), "{}", run.stderr);
}

#[test]
fn requests_go_through_a_proxy_but_not_to_what_is_excepted() {
    let served = Served::new(OPENAI, [says(OPENAI, "Through."), says(OPENAI, "Straight.")]);
    let text = std::fs::read_to_string(served.folder.path().join("contexture.toml")).expect("it is there");
    let url = text.split('"').find(|it| it.starts_with("http://")).expect("it has an address").to_owned();
    let proxy = url.trim_end_matches("/v1");
    let args = ["run", "p", "--user", "Hi."];
    served.folder.write("contexture.toml", &text.replace(&url, "http://model.invalid/v1"));
    let run = served.folder.run_with(&args, "", &[("http_proxy", proxy)]);
    assert_eq!(run.stdout, "Through.\n", "{}", run.stderr);
    assert_eq!(served.asked()[0].path, "http://model.invalid/v1/chat/completions");
    served.folder.write("contexture.toml", &text);
    let variables = [("HTTP_PROXY", "http://127.0.0.1:9"), ("NO_PROXY", "localhost,127.0.0.1")];
    assert_eq!(served.folder.run_with(&args, "", &variables).stdout, "Straight.\n");
}

#[test]
fn what_can_not_be_asked_is_refused() {
    let served = Served::new(OPENAI, []);
    for (args, code) in [
        (&["run", "p"] as &[&str], "usage"),
        (&["run", "nobody", "--user", "x"], "unknown_prompt"),
        (&["run", "p", "--user", "-", "--input", "-"], "usage"),
        (&["run", "p", "--user", "x", "--key", "k"], "usage"),
        (&["run", "p", "--user", "x", "--temperature", "NaN"], "usage"),
        (&["run", "p", "--user", "x", "--session", "a b/\u{1}"], "id_invalid"),
        (&["run", "p", "--user", "x", "--model", "m"], "model_not_found"),
        (&["chat", "--input", "-"], "usage"),
        (&["chat", "--last", "--session", "x"], "usage"),
        (&["inspect", "p", "--wire", "openai"], "usage"),
        (&["resolve", "p", "--wire", "cohere"], "usage"),
    ] {
        let all: Vec<&str> = args.iter().copied().chain(["--json"]).collect();
        let run = served.run(&all);
        assert_eq!(run.json()["error"]["code"], *code, "{args:?}: {}", run.shown());
        assert_eq!(run.code, Some(2), "{args:?}");
    }
    let run = crate::Folder::new([("prompts/p.md", "Hi.")]).run(&["run", "p", "--user", "x", "--json"]);
    assert_eq!((run.code, &run.json()["error"]["code"]), (Some(2), &json!("model_missing")));
}

#[test]
fn resolve_shows_what_a_provider_gets() {
    let served = Served::new(OPENAI, []);
    let resolve = |dialect: &str| {
        served.run(&["resolve", "p", "--user", "Hi.", "--model", "mock/m-1", "--wire", dialect]).json()
    };
    assert_eq!(resolve("openai")["messages"][1], json!({"role": "user", "content": "Hi."}));
    assert_eq!(resolve("openai-responses")["instructions"], "You are brief.");
    assert!(resolve("anthropic")["system"].to_string().contains("You are brief."));
    assert_eq!(resolve("gemini")["contents"][0]["parts"][0]["text"], "Hi.");
    let args = ["resolve", "p", "--user", "Hi.", "--wire", "openai", "--json"];
    let document = served.run(&args).json();
    assert_eq!((&document["dialect"], &document["losses"]), (&json!("openai"), &json!([])));
    assert_eq!(document["body"], resolve("openai"));
}

#[test]
fn a_stored_session_is_resolved_as_its_next_turn_sends_it() {
    let served = Served::new(OPENAI, [says(OPENAI, "One."), says(OPENAI, "Two.")]);
    served.run(&["run", "p", "--user", "Hi.", "--session", "s1"]);
    let next = ["p", "--user", "And now?", "--session", "s1"];
    let shown = served.run(&[&["resolve"], &next[..], &["--wire", "openai"]].concat()).json();
    served.run(&[&["run"], &next[..]].concat());
    let sent = &served.asked()[1].body;
    assert_eq!(sent["messages"].as_array().map(Vec::len), Some(4), "{sent}");
    assert_eq!(shown["messages"], sent["messages"]);
    // A session that is not stored is only a name for templates.
    let alone = served.run(&["resolve", "p", "--user", "Hi.", "--session", "s2", "--wire", "openai"]).json();
    assert_eq!(alone["messages"].as_array().map(Vec::len), Some(2), "{alone}");
}

#[test]
fn what_a_dialect_can_not_carry_is_told() {
    let served = Served::new(OPENAI, []);
    served.folder.write("prompts/p.md", "---\nsettings: {top_k: 5}\n---\nYou are brief.");
    let run = served.run(&["resolve", "p", "--user", "Hi.", "--wire", "openai-responses"]);
    assert!(run.stderr.contains("left out: settings.top_k"), "{}", run.shown());
}

#[test]
#[cfg(unix)]
fn ctrl_c_stops_the_run_and_keeps_what_was_said() {
    use std::io::Read;
    let text = "one two three four five six";
    let reply = says(OPENAI, text);
    let said = reply.place_after(text);
    let end =
        said + reply.body()[said..].windows(2).position(|it| it == b"\n\n").expect("the event ends") + 2;
    // It never comes to its end, however long the signal takes.
    let served = Served::new(OPENAI, [reply.then_silence(end)]);
    let command = ["run", "p", "--user", "Count.", "--session", "s1"];
    let mut child = served.folder.command(&command).spawn().expect("it starts");
    let mut out = child.stdout.take().expect("it is piped");
    // Once something was said, the run is under way and listens.
    out.read_exact(&mut [0; 3]).expect("something is said");
    let kill = std::process::Command::new("kill").args(["-INT", &child.id().to_string()]).status();
    assert!(kill.expect("signals can be sent").success());
    assert_eq!(child.wait().expect("it ends").code(), Some(3));
    let shown = served.run(&["sessions", "show", "s1"]).stdout;
    assert!(shown.contains("interrupted"), "{shown}");
}

#[test]
fn resolve_shows_what_run_sends() {
    let served = Served::new(Dialect::Openai, [says(Dialect::Openai, "Yes.")]);
    let prompt = "---\nadapt:\n  openai: {settings: {temperature: 0.7}}\n---\nYou act for {{ ctx.tenant }}.";
    served.folder.write("prompts/q.md", prompt);
    let turn = [
        "--provider",
        "mock",
        "--model",
        "openai/gpt-4o",
        "--user",
        "Now?",
        "--block",
        "page=Cart",
        "--remind",
        "Be brief.",
    ];
    let resolved =
        served.run(&[&["resolve", "q", "--json", "--wire", "openai"] as &[&str], &turn].concat()).json();
    let run = served.run(&[&["run", "q"] as &[&str], &turn].concat());
    assert_eq!(run.code, Some(0), "{}", run.shown());
    let sent = &served.asked()[0].body;
    assert_eq!((&sent["model"], &sent["temperature"]), (&json!("openai/gpt-4o"), &json!(0.7)));
    assert!(sent["messages"][0]["content"].to_string().contains("You act for default."), "{sent}");
    let body = resolved.get("body").unwrap_or(&resolved);
    for field in ["model", "messages", "temperature"] {
        assert_eq!(body[field], sent[field], "{field}: {resolved:#}");
    }
}
