//! The engine's own tools: what they read, and when they are offered.

use std::sync::Arc;

use contexture_agent::{Agent, AgentConfig, CompactRequest, Summarized, Summarizer, SummaryCall, Tool};
use contexture_compose::{BoxError, BoxFuture, Prompt};
use contexture_history::Visibility;
use contexture_message::{
    Image, MediaSource, Message, Part, Request, Role, ToolCall, ToolDefinition, ToolOutput, ToolResult,
};
use contexture_model::Scripted;
use contexture_session::{NewItem, SessionId, SessionStart, Thread};
use serde_json::{Value, json};

use crate::stage::{Stage, agent, calls, echo, hi, prompt, says, script, sessions};

/// A tool that gives a text.
fn gives(text: impl Into<String>) -> Tool {
    let text: Arc<str> = text.into().into();
    Tool::new(ToolDefinition::new("logs", "Gives logs."), move |_| {
        let text = text.to_string();
        async move { Ok(json!(text)) }
    })
    .unwrap()
}

/// Puts a call and its result on a thread, as others do.
async fn add_result(thread: &Thread, id: &str, output: ToolOutput) {
    add_result_of(thread, "logs", id, output).await;
}

async fn add_result_of(thread: &Thread, name: &str, id: &str, output: ToolOutput) {
    let call = ToolCall { id: id.to_owned(), name: name.to_owned(), arguments: json!({}) };
    let result = ToolResult { call_id: id.to_owned(), name: name.to_owned(), output };
    let messages = vec![
        Message::user("look"),
        Message::parts(Role::Assistant, vec![Part::ToolCall(call)]),
        Message::parts(Role::Tool, vec![Part::ToolResult(result)]),
    ];
    thread.add_messages(messages).await.unwrap();
}

/// Makes sure that `read_tool_result` is offered.
async fn add_large(thread: &Thread) {
    add_result(thread, "large", ToolOutput::Text("many words ".repeat(8_000))).await;
}

/// Has the model call one of the tools with each of these arguments, and returns what it sees of each result.
async fn asked(thread: &Thread, name: &str, arguments: impl IntoIterator<Item = Value>) -> Vec<String> {
    let mut seen = Vec::new();
    for (idx, arguments) in arguments.into_iter().enumerate() {
        let id = format!("own{idx}");
        let model = script([calls([(&id, name, arguments)]), says("ok")]);
        agent(&model).build().unwrap().run(&prompt(), thread, hi()).outcome().await.unwrap();
        seen.push(newest_result(&model));
    }
    seen
}

fn newest_result(model: &Scripted) -> String {
    let requests = model.requests();
    let message = requests.last().unwrap().messages.iter().rfind(|it| it.role == Role::Tool).unwrap();
    let Part::ToolResult(result) = &message.content[0] else { panic!("a result") };
    match &result.output {
        ToolOutput::Text(text) => text.clone(),
        other => serde_json::to_string(other).unwrap(),
    }
}

fn offered(request: &Request) -> Vec<&str> {
    request.tools.iter().map(|it| it.name.as_str()).collect()
}

/// Returns which tools the requests of a run of one answer offer.
async fn offered_now(build: impl Fn(&Scripted) -> Agent, prompt: &Prompt, thread: &Thread) -> Vec<String> {
    let model = script([says("ok")]);
    build(&model).run(prompt, thread, hi()).outcome().await.unwrap();
    offered(&model.requests()[0]).into_iter().map(str::to_owned).collect()
}

fn plain(model: &Scripted) -> Agent {
    agent(model).build().unwrap()
}

/// Splits what a range says into its first line and the text.
fn split(range: &str) -> (&str, &str) {
    range.split_once('\n').unwrap()
}

#[tokio::test]
async fn a_huge_result_is_read_by_ranges() {
    let whole: String = (0..50_000).map(|it| format!("{it:07}\n{}\n", "x".repeat(991))).collect();
    let model = script([
        calls([("a", "logs", json!({}))]),
        calls([("b", "read_tool_result", json!({"handle": "a", "offset": 40_000_000, "limit": 12}))]),
        calls([("c", "read_tool_result", json!({"handle": "a", "offset": 49_999_990.0}))]),
        says("ok"),
    ]);
    assert_eq!(whole.len(), 50_000_000);
    let stage = Stage::new().await;
    let agent = agent(&model).tool(gives(whole)).build().unwrap();
    agent.run(&prompt(), &stage.thread, hi()).outcome().await.unwrap();
    let requests = model.requests();
    let result = |idx: usize| {
        let Part::ToolResult(it) = &requests[idx].messages.last().unwrap().content[0] else { panic!() };
        let ToolOutput::Text(text) = &it.output else { panic!("{:?}", it.output) };
        text.clone()
    };
    assert!(result(1).contains("the handle \"a\": call `read_tool_result`"), "{}", result(1));
    insta::assert_snapshot!(result(2), @r#"
    [Characters 40000000 to 40000012 of 50000000 of the result of `logs` with handle "a". Next offset: 40000012.]
    0040000
    xxxx
    "#);
    insta::assert_snapshot!(result(3), @r#"
    [Characters 49999990 to 50000000 of 50000000 of the result of `logs` with handle "a". Next offset: none.]
    xxxxxxxxx
    "#);
    assert_eq!(offered(&requests[0]), ["logs"]);
    assert_eq!(offered(&requests[1]), ["logs", "read_tool_result"]);
}

#[tokio::test]
async fn ranges_join_to_the_whole_and_none_is_a_preview() {
    let whole = "Zeile ä 🦀 あいうえお\n".repeat(9_000);
    let stage = Stage::new().await;
    add_result(&stage.thread, "a", ToolOutput::Text(whole.clone())).await;
    let (mut read, mut offset) = (String::new(), 0);
    loop {
        let arguments = json!({"handle": "a", "offset": offset, "limit": 1_000_000});
        let range = asked(&stage.thread, "read_tool_result", [arguments]).await.remove(0);
        let (head, text) = split(&range);
        assert!(head.starts_with(&format!("[Characters {offset} to ")), "{head}");
        read.push_str(text);
        match head.split_once("Next offset: ").unwrap().1.trim_end_matches(".]") {
            "none" => break,
            next => offset = next.parse().unwrap(),
        }
    }
    assert!(read == whole);
}

#[tokio::test]
async fn a_result_is_searched() {
    let stage = Stage::new().await;
    let line =
        |it: usize| if it % 100 == 7 { format!("{it} ÄRGER (1+1)?\n") } else { format!("{it} fine\n") };
    let text: String = (0..6_000).map(line).collect();
    add_result(&stage.thread, "a", ToolOutput::Text(text.clone())).await;
    let asked = |arguments: Value| asked(&stage.thread, "read_tool_result", [arguments]);
    let found = asked(json!({"handle": "a", "search": "ärger (1+1)?"})).await.remove(0);
    let lines: Vec<&str> = found.lines().collect();
    assert_eq!(lines.len(), 11, "{found}");
    assert!(lines[1].contains("7 ÄRGER (1+1)? 8 fine"), "{}", lines[1]);
    // The offset of a place is where a range can begin.
    let at: usize = lines[3].split_once(':').unwrap().0.parse().unwrap();
    let range = asked(json!({"handle": "a", "offset": at, "limit": 5})).await.remove(0);
    assert_eq!(split(&range).1, "ÄRGER");
    // The next ones begin where it says.
    let next = lines[0].split_once("search from: ").unwrap().1.trim_end_matches(".]");
    let more = asked(json!({"handle": "a", "search": "ÄRGER", "offset": next.parse::<u64>().unwrap()})).await;
    assert!(more[0].lines().nth(1).unwrap().contains("1007 ÄRGER"), "{}", more[0]);
    insta::assert_snapshot!(asked(json!({"handle": "a", "search": "ÄRGER", "offset": 90_000_000})).await[0], @r#""ÄRGER" is not in the result of `logs` with handle "a" from offset 90000000 on; it has 59370 characters."#);
}

#[tokio::test]
async fn every_kind_of_result_is_read_as_text() {
    let stage = Stage::new().await;
    add_large(&stage.thread).await;
    let image = Image { source: MediaSource::Data("aGk=".into()), media_type: Some("image/png".into()) };
    let outputs = [
        ToolOutput::Json(json!({"b": [1, "x"], "a": null})),
        ToolOutput::failure("broken"),
        ToolOutput::ErrorText("gone".into()),
        ToolOutput::ExecutionDenied { reason: Some("no".into()) },
        ToolOutput::Content(vec![Part::text("one"), Part::Image(image), Part::text("two")]),
    ];
    let mut seen = Vec::new();
    for output in outputs {
        // The same id again: the newest counts.
        add_result(&stage.thread, "same", output).await;
        let range = asked(&stage.thread, "read_tool_result", [json!({"handle": "same"})]).await.remove(0);
        seen.push(split(&range).1.to_owned());
    }
    insta::assert_snapshot!(seen.join("\n--\n"), @r#"
    {"b":[1,"x"],"a":null}
    --
    {"error":"broken"}
    --
    gone
    --
    no
    --
    one
    [Here is one image, which has no text to read.]
    two
    "#);
}

#[tokio::test]
async fn only_results_of_the_thread_are_found() {
    let stage = Stage::new().await;
    let other = sessions(&stage.store)
        .create(SessionStart { id: Some(SessionId::parse("other").unwrap()), label: None })
        .await
        .unwrap();
    add_result(other.main(), "theirs", ToolOutput::Text("secret".into())).await;
    add_large(&stage.thread).await;
    let read = |handle: &str| vec![json!({"handle": handle})];
    let seen = asked(&stage.thread, "read_tool_result", read("theirs")).await;
    insta::assert_snapshot!(seen[0], @r#"{"type":"error-json","value":{"error":"there is no result with the handle \"theirs\"; the newest handles are \"large\" (of `logs`)"}}"#);

    let copy = stage.thread.fork(None, None).await.unwrap();
    add_result(&copy, "copied", ToolOutput::Text("of the copy".into())).await;
    assert!(asked(&copy, "read_tool_result", read("large")).await[0].contains("many words"));
    assert!(asked(&stage.thread, "read_tool_result", read("copied")).await[0].contains("there is no result"));

    // What the application hides, and what was before a reset, is not for the model.
    let hidden =
        ToolResult { call_id: "h".into(), name: "logs".into(), output: ToolOutput::Text("x".into()) };
    let hidden = Message::parts(Role::Tool, vec![Part::ToolResult(hidden)]);
    stage.thread.add(vec![NewItem::from(hidden).visibility(Visibility::NONE)]).await.unwrap();
    assert!(asked(&stage.thread, "read_tool_result", read("h")).await[0].contains("there is no result"));
    stage.thread.reset_history().await.unwrap();
    add_result(&stage.thread, "new", ToolOutput::Text("word ".repeat(8_000))).await;
    assert!(asked(&stage.thread, "read_tool_result", read("large")).await[0].contains("there is no result"));
}

#[tokio::test]
async fn reading_is_offered_once_it_is_needed_and_then_always() {
    let stage = Stage::new().await;
    let names = || offered_now(plain, &PROMPT, &stage.thread);
    assert!(names().await.is_empty());
    add_result(&stage.thread, "a", ToolOutput::Text("small".into())).await;
    assert!(names().await.is_empty());
    add_large(&stage.thread).await;
    assert_eq!(names().await, ["read_tool_result"]);
    // The large result leaves the window; the tool stays.
    for _ in 0..stage.thread.history_window() + 1 {
        stage.thread.add_messages(vec![Message::user("hi"), Message::assistant("ho")]).await.unwrap();
    }
    let shown = stage.thread.get().turns().iter().flat_map(|it| it.messages().to_vec()).collect::<Vec<_>>();
    assert!(shown.iter().all(|it| it.role != Role::Tool));
    assert_eq!(names().await, ["read_tool_result"]);
    assert_eq!(offered_now(plain, &PROMPT, &stage.elsewhere().await).await, ["read_tool_result"]);
    stage.thread.reset_history().await.unwrap();
    assert!(names().await.is_empty());
}

static PROMPT: std::sync::LazyLock<Prompt> = std::sync::LazyLock::new(prompt);

#[tokio::test]
async fn the_tools_can_be_switched_off() {
    let stage = Stage::new().await;
    archived(&stage.thread).await;
    assert_eq!(offered_now(plain, &PROMPT, &stage.thread).await, ["read_tool_result", "recall"]);
    let without = |model: &Scripted| {
        agent(model).config(AgentConfig { own_tools: false, ..AgentConfig::default() }).build().unwrap()
    };
    assert!(offered_now(without, &PROMPT, &stage.thread).await.is_empty());
}

#[tokio::test]
async fn a_tool_of_the_users_with_that_name_wins() {
    let stage = Stage::new().await;
    archived(&stage.thread).await;
    let model = script([calls([("x", "recall", json!({"any": 1}))]), says("ok")]);
    let own = agent(&model).tool(echo("recall")).build().unwrap();
    own.run(&prompt(), &stage.thread, hi()).outcome().await.unwrap();
    assert_eq!(newest_result(&model), r#"{"type":"json","value":{"any":1}}"#);

    // Also one that the prompt brings along; where it brings none, the engine's own is called.
    let brings = Prompt::builder("p").model("test/m").tool(echo("recall")).build().unwrap();
    for (prompt, says_so) in [(brings, r#""value":{}"#), (prompt(), "either a `query`")] {
        let model = script([calls([("y", "recall", json!({}))]), says("ok")]);
        agent(&model).build().unwrap().run(&prompt, &stage.thread, hi()).outcome().await.unwrap();
        assert!(newest_result(&model).contains(says_so), "{}", newest_result(&model));
    }
}

/// Says the same of everything.
struct Brief;

impl Summarizer for Brief {
    fn summarize(&self, _: SummaryCall) -> BoxFuture<'static, Result<Summarized, BoxError>> {
        Box::pin(async {
            Ok(Summarized { text: "They talked about animals.".into(), ..Summarized::default() })
        })
    }
}

/// Fills a thread and archives most of it.
async fn archived(thread: &Thread) {
    let story = format!("The walrus is called Wally. {}", "He likes fish. ".repeat(900));
    thread.add_messages(vec![Message::user(story), Message::assistant("Noted.")]).await.unwrap();
    add_result(thread, "zoo", ToolOutput::Text("The pelican is called Pelle.".into())).await;
    // What was read before is not found again.
    add_result_of(thread, "recall", "echo", ToolOutput::Text("The pelican is called Pelle.".into())).await;
    for idx in 0..8 {
        let messages = vec![Message::user(format!("question {idx}")), Message::assistant("An answer.")];
        thread.add_messages(messages).await.unwrap();
    }
    let compacting = agent(&script([])).summarizer(Brief).build().unwrap();
    let report = compacting.compact(&prompt(), thread, CompactRequest::default()).await.unwrap();
    assert!(report.archive.is_some(), "{report:?}");
}

#[tokio::test]
async fn what_is_archived_is_found_and_read() {
    let stage = Stage::new().await;
    archived(&stage.thread).await;
    let seen = asked(
        &stage.thread,
        "recall",
        [
            json!({"query": "pelican called", "limit": 1}),
            json!({"query": "unicorn"}),
            json!({"item": 10}),
            json!({"item": 400}),
            json!({"query": "x", "item": 1}),
        ],
    )
    .await;
    insta::assert_snapshot!(seen.join("\n--\n"), @r#"
    [item 5 · turn 2 · result of a tool; read it with `read_tool_result` and the handle "zoo"]
    The pelican is called Pelle.
    --
    Nothing of what was summarised has any of these words. Try other words, or say that you do not find it.
    --
    [Characters 0 to 10 of 10 of item 10 of turn 4 (assistant). Next offset: none.]
    An answer.
    --
    {"type":"error-json","value":{"error":"there is no item 400 among what was summarised; a `query` finds the items that can be read"}}
    --
    {"type":"error-json","value":{"error":"say either a `query` to look for or an `item` to read"}}
    "#);
    let found = asked(&stage.thread, "recall", [json!({"query": "walrus Wally"})]).await.remove(0);
    let item: u64 = found.split_once("[item ").unwrap().1.split_once(' ').unwrap().0.parse().unwrap();
    let (mut read, mut offset) = (String::new(), 0);
    loop {
        let range = asked(&stage.thread, "recall", [json!({"item": item, "offset": offset})]).await.remove(0);
        let (head, text) = split(&range);
        read.push_str(text);
        match head.split_once("Next offset: ").unwrap().1.trim_end_matches(".]") {
            "none" => break,
            next => offset = next.parse().unwrap(),
        }
    }
    assert_eq!(read, format!("The walrus is called Wally. {}", "He likes fish. ".repeat(900)));
    // Results of archived ranges are found too.
    let seen = asked(&stage.thread, "read_tool_result", [json!({"handle": "zoo"})]).await;
    assert_eq!(split(&seen[0]).1, "The pelican is called Pelle.");
}

#[tokio::test]
async fn hostile_queries_find_nothing_and_break_nothing() {
    let stage = Stage::new().await;
    archived(&stage.thread).await;
    let hostile =
        ["\"", "*", "') OR 1=1 --", "NEAR(", "\u{0}", "🦀", "-", "a:b^2"].map(|it| json!({"query": it}));
    for seen in asked(&stage.thread, "recall", hostile).await {
        assert!(seen.starts_with("Nothing") || seen.starts_with("[item"), "{seen}");
    }
    for seen in asked(&stage.thread, "recall", [json!({}), json!({"query": " "})]).await {
        assert!(seen.contains("say either a `query`"), "{seen}");
    }
    let long = json!({"query": "walrus ".repeat(50_000)});
    assert!(asked(&stage.thread, "recall", [long]).await[0].contains("Wally"));
}

#[tokio::test]
async fn other_threads_are_not_recalled() {
    let stage = Stage::new().await;
    let start = SessionStart { id: Some(SessionId::parse("other").unwrap()), label: None };
    let other = sessions(&stage.store).create(start).await.unwrap();
    archived(other.main()).await;
    for idx in 0..9 {
        let words = format!("words about our garden {idx} ").repeat(100);
        stage.thread.add_messages(vec![Message::user(words), Message::assistant("Yes.")]).await.unwrap();
    }
    let compacting = agent(&script([])).summarizer(Brief).build().unwrap();
    let report = compacting.compact(&prompt(), &stage.thread, CompactRequest::default()).await.unwrap();
    assert!(report.archive.is_some());
    let seen = asked(&stage.thread, "recall", [json!({"query": "walrus"}), json!({"query": "garden"})]).await;
    assert!(seen[0].starts_with("Nothing") && seen[1].starts_with("[item"), "{seen:?}");
    // What is not archived is in the conversation, and not found.
    stage.thread.add_message(Message::user("zebra")).await.unwrap();
    assert!(asked(&stage.thread, "recall", [json!({"query": "zebra"})]).await[0].starts_with("Nothing"));
}
