//! `window`: transcripts in every format, in and out.

use insta::assert_snapshot;
use serde_json::{Value, json};

use crate::{Folder, Run};

/// Runs `window` on a transcript. The only caller here.
fn window(transcript: &str, args: &[&str]) -> Run {
    let all: Vec<&str> = ["window", "-"].iter().chain(args).copied().collect();
    Folder::new([]).run_with(&all, transcript, &[])
}

fn document(transcript: &str, args: &[&str]) -> Value {
    let all: Vec<&str> = args.iter().copied().chain(["--json"]).collect();
    window(transcript, &all).json()
}

const NEUTRAL: &str = r#"{"turn":"a","role":"user","content":"one","extra":{"b":1,"a":2.50}}
{"turn":"a","role":"assistant","content":[{"type":"tool_call","id":"c1","name":"find","arguments":{"q":1}}]}
{"turn":"b","role":"user","content":"two"}
{"turn":"b","role":"tool","content":[{"type":"tool_result","call_id":"c9","name":"look","output":{"type":"text","value":"lost"}}]}"#;

const OPENAI: &str = r#"{
  "model": "gpt-4o", "temperature": 0.20,
  "messages": [
    {"role": "developer", "content": "Be kind."},
    {"role": "user", "content": [{"type": "text", "text": "one"}, {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}]},
    {"role": "assistant", "content": null, "tool_calls": [
      {"id": "c1", "type": "function", "function": {"name": "find", "arguments": "{\"q\": 1}"}},
      {"id": "c2", "type": "function", "function": {"name": "look", "arguments": "{"}}], "huge": 12345678901234567890123},
    {"role": "tool", "tool_call_id": "c2", "content": "here"},
    {"role": "user", "content": "two"}
  ],
  "stream": false
}"#;

const ANTHROPIC: &str = r#"{"model": "claude-sonnet-4-5", "max_tokens": 1024,
"system": [{"type": "text", "text": "Be kind.", "cache_control": {"type": "ephemeral"}}],
"messages": [
{"role": "user", "content": "one"},
{"role": "assistant", "content": [{"type": "thinking", "thinking": "hm", "signature": "c2ln"}, {"type": "redacted_thinking", "data": "eHg="},
  {"type": "tool_use", "id": "c1", "name": "find", "input": {}}, {"type": "tool_use", "id": "c2", "name": "look", "input": {}}]},
{"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c2", "content": "here"}, {"type": "text", "text": "go on"}], "mark": 1},
{"role": "assistant", "content": "fine"},
{"role": "user", "content": "two"}
]}"#;

#[test]
fn a_neutral_transcript_is_repaired_as_lines() {
    assert_snapshot!(window(NEUTRAL, &[]).shown());
}

#[test]
fn a_request_of_openai_is_repaired_in_its_place() {
    assert_snapshot!(window(OPENAI, &[]).shown());
}

#[test]
fn a_request_of_anthropic_gets_one_message_of_results() {
    assert_snapshot!(window(ANTHROPIC, &[]).shown());
}

#[test]
fn what_is_kept_whole_is_the_same_to_the_byte() {
    for text in [OPENAI, ANTHROPIC] {
        // Without the message that asks, nothing needs a repair.
        let document: Value = serde_json::from_str(text).expect("it is JSON");
        let messages = document["messages"].as_array().cloned().unwrap_or_default();
        let plain: Vec<&Value> =
            messages.iter().filter(|it| it["content"].is_string() && it["role"] != "tool").collect();
        let pretty = serde_json::to_string_pretty(&plain).expect("it is JSON");
        assert_eq!(window(&pretty, &[]).stdout, format!("{pretty}\n"));
    }
    let chat = NEUTRAL.lines().next().expect("there is one");
    assert_eq!(window(&format!("\u{feff}{chat}\r\n\r\n"), &[]).stdout, format!("{chat}\n"));
}

#[test]
fn a_limit_leaves_the_rest_of_a_request_alone() {
    let run = window(OPENAI, &["--turns", "1"]);
    let kept: Value = serde_json::from_str(&run.stdout).expect("it is JSON");
    let messages = json!([{"role": "developer", "content": "Be kind."}, {"role": "user", "content": "two"}]);
    assert_eq!((&kept["messages"], &kept["stream"]), (&messages, &json!(false)));
    assert!(run.stdout.starts_with("{\n  \"model\": \"gpt-4o\", \"temperature\": 0.20,\n"), "{}", run.stdout);
    assert!(run.stderr.starts_with("1 turn kept, 2 messages, 10 tokens by o200k_base, read as openai\n"));
    assert!(run.stderr.contains("\n1 turn dropped (t1): older than the newest turn"), "{}", run.stderr);
}

#[test]
fn the_document_says_what_was_done() {
    let document = document(NEUTRAL, &["--turns", "1"]);
    assert_eq!(document["turns"], json!(["b"]));
    assert_eq!(document["dropped"][0]["turn"], "a");
    assert_eq!(document["messages"], json!([{"turn": "b", "role": "user", "content": "two"}]));
    assert_eq!(
        document["repairs"],
        json!([{
            "turn": "b", "call_id": "c9", "name": "look", "what": "left_out",
            "reason": "result `c9` of `look` had no call and was left out",
        }])
    );
    assert_eq!(document["counter"], json!({"name": "o200k_base", "exact": true}));
    let keys: Vec<&str> = document.as_object().into_iter().flatten().map(|(key, _)| key.as_str()).collect();
    assert_eq!(keys, ["turns", "messages", "dropped", "repairs", "tokens", "counter"]);
}

#[test]
fn system_messages_are_kept_besides_and_counted() {
    let chat = |system: &str| {
        format!(
            "[{system}{{\"role\": \"user\", \"content\": \"a\"}}, {{\"role\": \"user\", \"content\": \"b\"}}]"
        )
    };
    let with = document(&chat(r#"{"role": "system", "content": "Be kind."},"#), &["--tokens", "1"]);
    let without = document(&chat(""), &["--tokens", "1"]);
    assert_eq!((&with["turns"], &without["turns"]), (&json!(["t2"]), &json!(["t2"])));
    assert_eq!(with["messages"][0]["role"], "system");
    let tokens = |it: &Value| it["tokens"].as_u64().unwrap_or_default();
    assert!(tokens(&with) > tokens(&without) + 3, "{with} {without}");
    let request = document(ANTHROPIC, &["--turns", "1"]);
    assert_eq!(request["system"][0]["text"], "Be kind.");
    assert_eq!(request["counter"]["exact"], false, "the request's own model counts");
}

#[test]
fn data_is_never_counted_as_text() {
    let data = "QUJD".repeat(50_000);
    for transcript in [
        format!(
            r#"[{{"role":"user","content":[{{"type":"image_url","image_url":{{"url":"data:image/png;base64,{data}"}}}}]}}]"#
        ),
        format!(
            r#"[{{"role":"user","content":[{{"type":"input_audio","input_audio":{{"data":"{data}","format":"mp3"}}}}]}}]"#
        ),
        format!(
            r#"[{{"role":"user","content":[{{"type":"image","source":{{"type":"base64","media_type":"image/png","data":"{data}"}}}}]}}]"#
        ),
        format!(
            r#"[{{"role":"user","content":[{{"type":"document","source":{{"type":"base64","media_type":"application/pdf","data":"{data}"}}}}]}}]"#
        ),
        format!(
            r#"[{{"role":"assistant","content":[{{"type":"redacted_thinking","data":"{data}"}},{{"type":"tool_use","id":"a","name":"f"}}]}},
            {{"role":"user","content":[{{"type":"tool_result","tool_use_id":"a","content":[{{"type":"image","source":{{"type":"base64","data":"{data}"}}}}]}}]}}]"#
        ),
        format!(
            r#"[{{"role":"assistant","content":[{{"type":"something_new","blob":{{"data":"{data}"}}}},{{"type":"tool_use","id":"a","name":"f"}}]}}]"#
        ),
    ] {
        let document = document(&transcript, &[]);
        let tokens = document["tokens"].as_u64().unwrap_or_default();
        assert!((1..10_000).contains(&tokens), "{tokens}: {}", &transcript[..120]);
    }
}

#[test]
fn a_message_that_answers_and_asks_stays_whole_in_its_turn() {
    let chat = r#"[{"role":"user","content":"one"},
        {"role":"assistant","content":[{"type":"tool_use","id":"c1","name":"f","input":{}}]},
        {"role":"user","content":[{"type":"tool_result","tool_use_id":"c1"},{"type":"text","text":"and now?"}]},
        {"role":"assistant","content":"done"},
        {"role":"user","content":[{"type":"tool_result","tool_use_id":"c1"},{"type":"text","text":"again"}]}]"#;
    let document = document(chat, &[]);
    assert_eq!(document["turns"], json!(["t1", "t2"]));
    assert_eq!(document["messages"][2]["content"][1]["text"], "and now?");
    assert_eq!(document["messages"][4]["content"], json!([{"type": "text", "text": "again"}]));
    assert_eq!(document["repairs"][0]["what"], "left_out");
}

#[test]
fn results_of_anthropic_are_joined_at_the_front() {
    let chat = r#"[{"role":"assistant","content":[{"type":"tool_use","id":"a","name":"f","input":{}},{"type":"tool_use","id":"b","name":"g","input":{}}]},
        {"role":"user","content":[{"type":"text","text":"wait"},{"type":"tool_result","tool_use_id":"b","content":"B","cache_control":{"type":"ephemeral"}}]}]"#;
    let document = document(chat, &[]);
    let content = json!([
        {"type": "tool_result", "tool_use_id": "b", "content": "B", "cache_control": {"type": "ephemeral"}},
        {"type": "tool_result", "tool_use_id": "a", "content": "interrupted", "is_error": true},
        {"type": "text", "text": "wait"},
    ]);
    assert_eq!((&document["messages"][1]["content"], &document["messages"][2]), (&content, &Value::Null));
}

#[test]
fn a_result_in_another_turn_goes_to_its_call() {
    let chat = r#"{"turn":1,"role":"assistant","content":[{"type":"tool_call","id":"c","name":"f"}]}
{"turn":2,"role":"user","content":"hello"}
{"turn":2,"role":"tool","content":[{"type":"tool_result","call_id":"c","name":"f","output":{"type":"text","value":"late"}}],"at":"noon"}"#;
    let document = document(chat, &[]);
    assert_eq!(document["turns"], json!(["1", "2"]));
    assert_eq!(
        (&document["messages"][1]["turn"], &document["messages"][1]["at"]),
        (&json!(1), &json!("noon"))
    );
    assert_eq!(
        (&document["repairs"][0]["what"], &document["repairs"][0]["turn"]),
        (&json!("moved"), &json!("1"))
    );
}

#[test]
fn older_function_calls_are_paired_by_name() {
    let chat = r#"[{"role":"assistant","content":null,"function_call":{"name":"f","arguments":"{}"}},
        {"role":"function","name":"f","content":"ok"},
        {"role":"assistant","content":null,"function_call":{"name":"g","arguments":"{}"}}]"#;
    let document = document(chat, &[]);
    assert_eq!(document["repairs"].as_array().map(Vec::len), Some(1));
    assert_eq!(document["messages"][3], json!({"role": "function", "name": "g", "content": "interrupted"}));
}

#[test]
fn a_turn_that_says_nothing_is_dropped_with_the_reason() {
    let chat = "{\"role\":\"user\",\"content\":\"a\"}\n{\"role\":\"user\",\"content\":\" \"}";
    let empty = json!({"turn": "t2", "reason": "it is empty: nothing is said in it"});
    let whole = document(chat, &["--turns", "2"]);
    assert_eq!((&whole["turns"], &whole["dropped"]), (&json!(["t1"]), &json!([empty])));
    // It uses its slot, also as the newest.
    let newest = document(chat, &["--turns", "1"]);
    let older = json!({"turn": "t1", "reason": "older than the newest turn"});
    assert_eq!((&newest["turns"], &newest["dropped"]), (&json!([]), &json!([older, empty])));
    assert_eq!(document(chat, &["--turns", "0"])["turns"], json!([]));
}

#[test]
fn the_format_is_found_out() {
    let user = r#"{"role":"user","content":"a"}"#;
    for (format, message) in [
        ("neutral", r#"{"turn":"x","role":"user","content":"a"}"#),
        ("neutral", r#"{"role":"assistant","content":[{"type":"tool_call","id":"c","name":"f"}]}"#),
        (
            "neutral",
            r#"{"role":"tool","content":[{"type":"tool_result","call_id":"c","output":{"type":"text","value":""}}]}"#,
        ),
        ("neutral", r#"{"role":"user","content":[{"type":"image","media_type":"image/png","data":"AAAA"}]}"#),
        ("openai", r#"{"role":"assistant","content":null,"tool_calls":[]}"#),
        ("openai", r#"{"role":"tool","tool_call_id":"c","content":"x"}"#),
        ("openai", r#"{"role":"developer","content":"x"}"#),
        ("openai", r#"{"role":"function","name":"f","content":"x"}"#),
        (
            "openai",
            r#"{"role":"user","content":[{"type":"image_url","image_url":{"url":"https://a.b/c.png"}}]}"#,
        ),
        (
            "anthropic",
            r#"{"role":"assistant","content":[{"type":"tool_use","id":"c","name":"f","input":{}}]}"#,
        ),
        ("anthropic", r#"{"role":"user","content":[{"type":"tool_result","tool_use_id":"c"}]}"#),
        (
            "anthropic",
            r#"{"role":"user","content":[{"type":"image","source":{"type":"url","url":"https://a.b/c.png"}}]}"#,
        ),
        ("anthropic", r#"{"role":"assistant","content":[{"type":"redacted_thinking","data":"AAAA"}]}"#),
    ] {
        for transcript in [
            format!("{user}\n{message}\n"),
            format!("[{user},{message}]"),
            format!("{{\"messages\":[{message}]}}"),
        ] {
            let run = window(&transcript, &[]);
            let is_read = run.stderr.contains(&format!("read as {format}"));
            assert!(is_read && run.code == Some(0), "{transcript}: {}", run.shown());
        }
    }
    for (format, transcript, args) in [
        ("neutral", user.to_owned(), &[] as &[&str]),
        ("openai", format!("[{user}]"), &[]),
        ("openai", format!("{{\"messages\":[{user}]}}"), &[]),
        ("anthropic", format!("{{\"system\":\"x\",\"messages\":[{user}]}}"), &[]),
        ("openai", user.to_owned(), &["--format", "openai"]),
        ("neutral", format!("[{user}]"), &["--format", "neutral"]),
    ] {
        let run = window(&transcript, args);
        assert!(run.stderr.contains(&format!("read as {format}")), "{transcript}: {}", run.shown());
    }
}

#[test]
fn nothing_in_gives_nothing_out() {
    for (transcript, text) in
        [("", ""), ("\n \n", ""), ("[]", "[]\n"), ("{\"messages\": []}", "{\"messages\": []}\n")]
    {
        let run = window(transcript, &[]);
        assert_eq!((run.code, run.stdout.as_str()), (Some(0), text), "{}", run.stderr);
        let document = document(transcript, &["--tokens", "5"]);
        assert_eq!(
            (&document["turns"], &document["messages"], &document["tokens"]),
            (&json!([]), &json!([]), &json!(0))
        );
    }
}

#[test]
fn a_late_result_finds_its_turn() {
    let call = r#"{"type":"tool_call","id":"c1","name":"find","arguments":{}}"#;
    let result =
        r#"{"type":"tool_result","call_id":"c1","name":"find","output":{"type":"text","value":"late"}}"#;
    let lines = [
        r#"{"turn":"t1","role":"user","content":"a"}"#.to_owned(),
        format!(r#"{{"turn":"t1","role":"assistant","content":[{call}]}}"#),
        r#"{"turn":"t2","role":"user","content":"b"}"#.to_owned(),
        format!(r#"{{"turn":"t1","role":"tool","content":[{result}]}}"#),
    ];
    let document = document(&lines.join("\n"), &["--turns", "2"]);
    assert_eq!((&document["turns"], &document["repairs"]), (&json!(["t1", "t2"]), &json!([])));
    assert_eq!(document["messages"][2]["content"][0]["call_id"], "c1");
}

#[test]
fn errors_say_where() {
    let user = r#"{"role":"user","content":"a"}"#;
    for (transcript, code, at) in [
        (format!("{user}\n{{\"role\": \"usr\", \"content\": \"a\"}}"), "message_invalid", "standard input:2"),
        (format!("{user}\n\n{{\"role\": }}"), "input_invalid", "standard input:3:10"),
        (format!("{user}\n7"), "message_invalid", "standard input:2"),
        (format!("[{user},\n  {{\"content\": \"a\"}}]"), "message_invalid", "standard input:2:3"),
        (format!("[{user},\n  {{\"role\": \"user\","), "input_invalid", "standard input:2:18"),
        ("{\"messages\": 3}".to_owned(), "message_invalid", "standard input:1:14"),
        ("{\n\"messages\": [\n{]}".to_owned(), "input_invalid", "standard input:3:2"),
        ("{\"messages\": [], \"messages\": []}".to_owned(), "input_invalid", "standard input:1:27"),
        (
            "[{\"role\": \"user\", \"content\": \"a\", \"n\": 1e999}]".to_owned(),
            "input_invalid",
            "standard input:1:44",
        ),
        ("hello".to_owned(), "input_invalid", "standard input:1:1"),
        (
            r#"[{"role":"user","tool_calls":[{"id":"a","function":{"name":"f"}}]}]"#.to_owned(),
            "message_invalid",
            "standard input:1:2",
        ),
        (
            r#"[{"role":"assistant","tool_calls":[{"function":{"name":"f"}}]}]"#.to_owned(),
            "message_invalid",
            "standard input:1:2",
        ),
        (
            r#"{"system":"x","messages":[{"role":"tool","content":"x"}]}"#.to_owned(),
            "message_invalid",
            "standard input:1:27",
        ),
        (
            r#"[{"role":"assistant","content":[{"type":"tool_use","id":"a"}],"tool_calls":[]}]"#.to_owned(),
            "message_invalid",
            "standard input:1:2",
        ),
        (
            format!("[{}{}]", "[".repeat(100_000), "]".repeat(100_000)),
            "input_invalid",
            "standard input:1:129",
        ),
    ] {
        let run = window(&transcript, &["--json"]);
        let error = &run.json()["error"];
        let start: String = transcript.chars().take(80).collect();
        assert_eq!(
            (run.code, &error["code"], &error["at"]),
            (Some(2), &json!(code), &json!(at)),
            "{start}: {error}"
        );
        assert_eq!(window(&transcript, &[]).stdout, "", "{start}");
    }
    let both = window(user, &["--turns", "1", "--tokens", "1", "--json"]);
    assert_eq!((both.code, &both.json()["error"]["code"]), (Some(2), &json!("usage")));
}
