//! The working state of a session: under a schema, in a block, and of one session only.

use contexture_agent::RunRequest;
use contexture_capabilities::blackboard::{BoardOwner, BoardWrite, Boards};
use contexture_capabilities::memory::{Layer, MemoryEntry, MemoryTools, WORKING, WorkingOptions, memory};
use contexture_compose::{Prompt, Scope};
use contexture_message::{Part, Request, ToolOutput};
use contexture_session::{SessionId, Thread};
use serde_json::{Value, json};

use super::Process;
use crate::blackboard::boards;
use crate::stage::{agent, calls, says, script};

fn schema() -> Value {
    json!({"properties": {"step": {"type": "integer", "minimum": 0}, "notes": {"type": "array", "x-merge": "append"}}})
}

struct Scene {
    process: Process,
    boards: Boards,
}

impl Scene {
    fn new() -> Self {
        let process = Process::new();
        Self { boards: boards(&process.store), process }
    }

    fn entry(&self) -> MemoryEntry {
        let entry = memory(self.process.memories.clone());
        entry.working(&self.boards, WorkingOptions::new(schema())).unwrap()
    }

    /// Lets the model call a tool, and returns the requests.
    async fn call(&self, entry: MemoryEntry, thread: &Thread, tool: &str, arguments: Value) -> Vec<Request> {
        let prompt = Prompt::builder("p").system("You help.").include(entry).model("test/m").build().unwrap();
        let model = script([calls(tool, arguments), says("Done.")]);
        let session = Some(thread.id().session().to_string());
        let scope = Scope { user: Some("ada".into()), session, ..Scope::default() };
        let request = RunRequest::user("Go.").scope(scope);
        agent(&model).build().unwrap().run(&prompt, thread, request).outcome().await.unwrap();
        model.requests().iter().map(|it| Request::clone(it)).collect()
    }
}

fn result(requests: &[Request]) -> String {
    match &requests[1].messages.last().unwrap().content[0] {
        Part::ToolResult(it) => match &it.output {
            ToolOutput::Text(text) => text.clone(),
            ToolOutput::Json(value) | ToolOutput::ErrorJson(value) => value.to_string(),
            other => panic!("{other:?}"),
        },
        other => panic!("{other:?}"),
    }
}

fn tools(request: &Request) -> Vec<&str> {
    request.tools.iter().map(|it| it.name.as_str()).collect()
}

#[tokio::test]
async fn a_write_that_breaks_the_schema_is_refused_with_path_and_rule() {
    let scene = Scene::new();
    let thread = scene.process.create("s").await;
    let write = async |value| {
        let arguments = json!({"path": "/step", "value": value});
        result(&scene.call(scene.entry(), &thread, "working_write", arguments).await)
    };
    insta::assert_snapshot!(write(json!("two")).await, @r#"{"error":"the write does not fit the schema: /step: \"two\" is not of type \"integer\""}"#);
    insta::assert_snapshot!(write(json!(-1)).await, @r#"{"error":"the write does not fit the schema: /step: -1 is less than the minimum of 0"}"#);
    insta::assert_snapshot!(write(json!(2)).await, @r#"{"version":2,"path":"/step","value":2}"#);
}

#[tokio::test]
async fn a_session_reads_its_own_state_in_a_block() {
    let scene = Scene::new();
    let owner = BoardOwner { session: Some(SessionId::parse("s").unwrap()), ..BoardOwner::default() };
    let (own, other) = (scene.process.create("s").await, scene.process.create("t").await);
    // The application writes by the same rules.
    let board = scene.boards.find(WORKING, &owner).err();
    assert!(board.is_some(), "no entry has defined it yet");
    let entry = scene.entry();
    let board = scene.boards.find(WORKING, &owner).unwrap();
    board.write(BoardWrite::put("/step", 3).unwrap()).await.unwrap();
    let refused = board.write(BoardWrite::put("/colour", "red").unwrap()).await.unwrap_err();
    assert!(refused.to_string().contains("'colour' was unexpected"), "{refused}");
    let request = scene.call(entry.clone(), &own, "working_read", json!({})).await.remove(0);
    insta::assert_snapshot!(request.messages[0].joined_text(), @r#"
    You help.

    <blackboard-working>
    {"version":2,"state":{"step":3}}
    </blackboard-working>
    "#);
    let request = scene.call(entry, &other, "working_read", json!({})).await.remove(0);
    assert_eq!(request.messages[0].joined_text(), "You help.");
}

#[tokio::test]
async fn notes_in_free_text_are_for_memories_without_a_schema() {
    let scene = Scene::new();
    let note = json!({"text": "Half done.", "layer": "working"});
    let thread = scene.process.create("s").await;
    let requests = scene.call(scene.entry(), &thread, "remember", note.clone()).await;
    insta::assert_snapshot!(result(&requests), @r#"{"error":"the arguments are invalid: /layer: the value is not one of \"rules\", \"facts\" or \"procedures\""}"#);
    let requests = scene.call(memory(scene.process.memories.clone()), &thread, "remember", note).await;
    assert!(result(&requests).starts_with("Remembered as [m-"), "{}", result(&requests));
    let records = scene.process.ada().list(&Default::default()).await.unwrap();
    assert!(records.iter().any(|it| it.layer == Layer::Working && it.text == "Half done."), "{records:?}");
}

#[tokio::test]
async fn a_memory_without_tools_shows_its_working_state() {
    let scene = Scene::new();
    let thread = scene.process.create("s").await;
    let requests = scene.call(scene.entry().tools(MemoryTools::Off), &thread, "none", json!({})).await;
    assert_eq!(tools(&requests[0]), [] as [&str; 0]);
    let requests = scene.call(scene.entry(), &thread, "none", json!({})).await;
    let expected = ["forget", "memory_read", "memory_search", "remember"].into_iter();
    let expected = expected.chain(["working_clear", "working_patch", "working_read", "working_write"]);
    assert_eq!(tools(&requests[0]), expected.collect::<Vec<_>>());
}
