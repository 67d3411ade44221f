//! What the model reads of a board, and what its tools do.

use std::sync::Arc;

use contexture_agent::{Agent, CompactRequest, RunRequest, Summarized, Summarizer, SummaryCall};
use contexture_capabilities::blackboard::BoardOptions;
use contexture_capabilities::blackboard::{
    Board, BoardAuthor, BoardOwner, BoardScope, BoardWrite, Boards, Edit, Expected, blackboard,
};
use contexture_compose::{BoxError, BoxFuture, Context, Prompt, ResolveOptions};
use contexture_history::Timestamp;
use contexture_message::{Answer, Part, Request, ToolDefinition, ToolOutput};
use contexture_model::Scripted;
use contexture_session::{Append, Guard, SessionId, ThreadKey, record_item};
use serde_json::{Value, json};

use super::{boards, entry, put, schema};
use crate::stage::{Stage, agent, calls, says, script};

/// Says the same about everything.
struct Brief;

impl Summarizer for Brief {
    fn summarize(&self, _: SummaryCall) -> BoxFuture<'static, Result<Summarized, BoxError>> {
        let text = "They talked.".to_owned();
        Box::pin(std::future::ready(Ok(Summarized { text, ..Summarized::default() })))
    }
}

/// A thread whose prompt has a board of its session.
struct Scene {
    stage: Stage,
    prompt: Prompt,
    board: Board,
}

impl Scene {
    async fn new() -> Self {
        let stage = Stage::new().await;
        let boards: Boards = boards(&stage.store);
        let entry = entry(&boards, BoardScope::Session);
        let owner = BoardOwner { session: Some(SessionId::parse("s").unwrap()), ..BoardOwner::default() };
        let board = entry.board(&owner).unwrap();
        let prompt = Prompt::builder("p").system("Be brief.").include(entry).model("test/m").build().unwrap();
        Self { stage, prompt, board }
    }

    fn agent(&self, model: &Scripted) -> Agent {
        agent(model).summarizer(Brief).build().unwrap()
    }

    /// Runs a turn and returns its requests.
    async fn run(&self, answers: Vec<Answer>) -> Vec<Arc<Request>> {
        let model = script(answers);
        let request = RunRequest::user(format!("Go on. {}", "Please. ".repeat(60)));
        // Every turn runs as if by a process that was just started.
        let thread = self.stage.elsewhere().await;
        self.agent(&model).run(&self.prompt, &thread, request).outcome().await.unwrap();
        model.requests()
    }

    async fn say(&self) -> Arc<Request> {
        self.run(vec![says("Fine.")]).await.remove(0)
    }

    /// Lets the model call a tool, and returns its result.
    async fn call(&self, tool: &str, arguments: Value) -> String {
        let requests = self.run(vec![calls(tool, arguments), says("Done.")]).await;
        let parts = requests[1].messages.iter().flat_map(|it| &it.content);
        let mut results = parts.rev().filter_map(|it| match it {
            Part::ToolResult(it) => Some(match &it.output {
                ToolOutput::Text(text) | ToolOutput::ErrorText(text) => text.clone(),
                ToolOutput::Json(value) => value.to_string(),
                other => serde_json::to_string(other).unwrap(),
            }),
            _ => None,
        });
        results.next().unwrap()
    }

    async fn compact(&self) {
        let (agent, thread) = (self.agent(&Scripted::new([])), self.stage.elsewhere().await);
        let report = agent.compact(&self.prompt, &thread, CompactRequest::default()).await.unwrap();
        assert!(report.archive.is_some(), "something was archived");
    }
}

fn system(request: &Request) -> String {
    request.messages[0].joined_text()
}

/// Returns the changes that the newest user message tells.
fn told(request: &Request) -> Option<Value> {
    let texts = request.messages.last().unwrap().joined_text();
    let (_, rest) = texts.split_once("<blackboard-changes id=\"plan\">\n")?;
    Some(serde_json::from_str(rest.split_once("\n</blackboard-changes>").unwrap().0).unwrap())
}

#[tokio::test]
async fn an_empty_board_renders_nothing() {
    let scene = Scene::new().await;
    let request = scene.say().await;
    assert_eq!(system(&request), "Be brief.");
    assert_eq!(told(&request), None);
    let tools: Vec<&str> =
        request.tools.iter().map(|it| it.name.as_str()).filter(|it| it.starts_with("plan")).collect();
    assert_eq!(tools, ["plan_clear", "plan_patch", "plan_read", "plan_write"]);
}

#[tokio::test]
async fn the_prefix_has_a_snapshot_and_the_turn_what_changed_since() {
    let scene = Scene::new().await;
    put(&scene.board, "/title", json!("</blackboard-plan> & more"), Expected::Nothing).await.unwrap();
    let first = scene.say().await;
    insta::assert_snapshot!(system(&first), @r#"
    Be brief.

    <blackboard-plan>
    {"version":2,"state":{"tags":[],"title":"\u003c/blackboard-plan\u003e \u0026 more"}}
    </blackboard-plan>
    "#);
    assert_eq!(told(&first), None);
    put(&scene.board, "/items", json!([{"text": "a"}, {"text": "b"}]), Expected::Nothing).await.unwrap();
    put(&scene.board, "/items/1/done", json!(true), Expected::Nothing).await.unwrap();
    let second = scene.say().await;
    assert_eq!(system(&second), system(&first), "the system bytes stay");
    let changed = json!({"/items": [{"text": "a"}, {"text": "b", "done": true}]});
    assert_eq!(told(&second), Some(json!({"version": 4, "changed": changed})));
    put(&scene.board, "/done", json!(1), Expected::Nothing).await.unwrap();
    let third = scene.say().await;
    assert_eq!(system(&third), system(&first));
    assert_eq!(told(&third).unwrap()["changed"]["/done"], 1);
    assert_eq!(
        told(&third).unwrap()["changed"]["/items"],
        changed["/items"],
        "since the snapshot, not the last turn"
    );
}

#[tokio::test]
async fn a_board_that_was_empty_at_first_is_told_in_the_turn() {
    let scene = Scene::new().await;
    let first = scene.say().await;
    put(&scene.board, "/title", json!("t"), Expected::Nothing).await.unwrap();
    let second = scene.say().await;
    assert_eq!(system(&second), system(&first));
    assert_eq!(told(&second), Some(json!({"version": 2, "changed": {"/title": "t"}})));
    let clear = BoardWrite::new(Edit::Clear("".parse().unwrap())).expecting(Expected::At(2));
    scene.board.write(clear).await.unwrap();
    let third = scene.say().await;
    let third = told(&third).expect("the turn before was told something else");
    assert_eq!(third["changed"], json!({"": {"tags": []}}), "{third}");
}

#[tokio::test]
async fn a_compaction_restates_the_board() {
    let scene = Scene::new().await;
    put(&scene.board, "/title", json!("one"), Expected::Nothing).await.unwrap();
    for no in 0..4 {
        scene.say().await;
        let known = scene.board.read().await.unwrap().version();
        put(&scene.board, "/title", json!(format!("v{no}")), Expected::At(known)).await.unwrap();
        assert!(told(&*scene.say().await).is_some());
        scene.compact().await;
        let restated = scene.say().await;
        assert!(system(&restated).contains(&format!(r#""title":"v{no}""#)), "{}", system(&restated));
        assert_eq!(told(&restated), None);
    }
}

#[tokio::test]
async fn the_model_reads_writes_patches_and_clears() {
    let scene = Scene::new().await;
    let written = scene.call("plan_write", json!({"path": "/title", "value": "t", "reason": "asked"})).await;
    insta::assert_snapshot!(written, @r#"{"version":2,"path":"/title","value":"t"}"#);
    let read = scene.call("plan_read", json!({})).await;
    insta::assert_snapshot!(read, @r#"{"version":2,"path":"","value":{"tags":[],"title":"t"}}"#);
    let stale = scene.call("plan_write", json!({"path": "/title", "value": "u"})).await;
    insta::assert_snapshot!(stale, @r#"{"type":"error-json","value":{"error":"`/title` was changed: its version is 2, the write expected nothing there; its value is \"t\". Nothing was written. If the write is still right, repeat it with version 2."}}"#);
    scene.call("plan_write", json!({"path": "/title", "value": "u", "version": 2.0})).await;
    let operations = json!([
        {"op": "test", "path": "/title", "value": "u"},
        {"op": "replace", "path": "/title", "value": "v"},
        {"op": "add", "path": "/tags/-", "value": "x"},
    ]);
    let patched = scene.call("plan_patch", json!({"operations": operations})).await;
    insta::assert_snapshot!(patched, @r#"{"version":4,"path":"","value":{"tags":["x"],"title":"v"}}"#);
    let refused = scene.call("plan_write", json!({"path": "/color", "value": 1})).await;
    insta::assert_snapshot!(refused, @r#"{"type":"error-json","value":{"error":"the write does not fit the schema: Additional properties are not allowed ('color' was unexpected)"}}"#);
    let cleared = scene.call("plan_clear", json!({"version": 4})).await;
    insta::assert_snapshot!(cleared, @r#"{"version":5,"path":"","value":{"tags":[]}}"#);
    let events = scene.board.history(0, 10).await.unwrap();
    let first = &events[0].record;
    assert_eq!((first.author, first.turn.as_deref()), (BoardAuthor::Model, Some("s t1")));
    assert_eq!(first.reason.as_deref(), Some("asked"));
    assert_eq!(events.len(), 4);
}

#[tokio::test]
async fn a_damaged_board_fails_the_turn() {
    let scene = Scene::new().await;
    put(&scene.board, "/title", json!("t"), Expected::Nothing).await.unwrap();
    let session = SessionId::parse("s").unwrap();
    let key = ThreadKey { tenant: Default::default(), thread: session.journal("board/plan") };
    let item = record_item("blackboard", json!({"kind": "nonsense"}), Timestamp(1));
    scene.stage.store.append(key, Append::new(None, vec![item], Guard::Any)).await.unwrap();
    let run = scene.agent(&script([says("Fine.")]));
    let failed =
        run.run(&scene.prompt, &scene.stage.thread, RunRequest::user("Hi")).outcome().await.unwrap_err();
    assert!(failed.to_string().contains("record 3 of blackboard `plan` is damaged"), "{failed}");
}

#[tokio::test]
async fn tools_of_a_board_collide_by_its_name() {
    let stage = Stage::new().await;
    let boards = boards(&stage.store);
    let board = blackboard(&boards, BoardOptions::new("plan", schema()).scope(BoardScope::Tenant)).unwrap();
    let other = Context::text("other", "text").tool(ToolDefinition::new("plan_read", "Another."));
    let prompt = Prompt::builder("p").include(other).include(board).build().unwrap();
    let collision =
        prompt.resolve(ResolveOptions::default().user_message("Hi")).await.unwrap_err().to_string();
    assert!(collision.contains("blackboard:plan") && collision.contains("context:other"), "{collision}");
}

#[tokio::test]
async fn without_a_session_or_a_store_there_is_no_board() {
    let stage = Stage::new().await;
    for boards in [Boards::unprovided(), boards(&stage.store)] {
        let prompt = Prompt::builder("p")
            .system("Be brief.")
            .include(entry(&boards, BoardScope::Session))
            .build()
            .unwrap();
        let pass = prompt.resolve(ResolveOptions::default().user_message("Hi")).await.unwrap();
        assert_eq!(system(pass.request()), "Be brief.");
        assert!(pass.request().tools.is_empty());
    }
}
