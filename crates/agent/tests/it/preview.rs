//! The preview of a turn is what the turn sends.

use std::sync::Arc;

use contexture_agent::{RunRequest, constraint};
use contexture_compose::{Block, Context, InlineBlock, Prompt, Text};
use contexture_history::TurnNo;
use contexture_message::{Message, ToolDefinition};
use contexture_session::{SessionId, SessionStart, Store};
use contexture_store_sqlite::{SqliteConfig, SqliteStore};
use serde_json::{Value, json};

use crate::stage::{Stage, TestTime, agent, calls, echo, hi, says, script, sessions};

fn prompt() -> Prompt {
    Prompt::builder("p")
        .model("test/m")
        .system("Be brief.")
        .include(Context::text("plan", Text::of(|it: &Value| format!("Plan: {}.", it["plan"]))))
        .include(Block::text("rules", "Be kind."))
        .include(Block::text("page", "Seven.").user().turn())
        .tool(echo("look"))
        .constraint(constraint("any", |_| async { Ok(()) }))
        .build()
        .unwrap()
}

/// Requests that differ in one thing each.
fn requests() -> Vec<(&'static str, RunRequest)> {
    let asks = || RunRequest::user("Where is it?").input(json!({"plan": "pro"}));
    let blocks = vec![InlineBlock { name: "state".into(), body: "open".into(), order: 0 }];
    vec![
        ("plain", asks()),
        ("reminders", RunRequest { reminders: vec!["Mind the gap.".into()], ..asks() }),
        ("blocks", RunRequest { blocks, ..asks() }),
        ("client tools", asks().client_tools(vec![ToolDefinition::new("there", "There.")])),
        ("model and instructions", asks().model("test/model").instructions("Speak Greek.")),
    ]
}

#[tokio::test]
async fn a_preview_is_what_the_turn_sends() {
    for (name, request) in requests() {
        let stage = Stage::new().await;
        let model = script([calls([("a", "look", json!({}))]), says("one"), says("two")]);
        let agent = agent(&model).build().unwrap();
        let first = hi().input(json!({"plan": "free"}));
        agent.run(&prompt(), &stage.thread, first).outcome().await.unwrap();

        let before = stage.log().await;
        let seen = agent.preview(&prompt(), &stage.thread, request.clone()).await.unwrap();
        assert_eq!((stage.log().await, model.requests().len()), (before, 2), "{name}: nothing happens");

        agent.run(&prompt(), &stage.thread, request).outcome().await.unwrap();
        let sent = &model.requests()[2];
        assert_eq!(json!(seen.request()), json!(**sent), "{name}");
    }
}

#[tokio::test]
async fn without_a_message_it_ends_with_the_history() {
    let stage = Stage::new().await;
    let model = script([says("one")]);
    let agent = agent(&model).build().unwrap();
    let prompt = Prompt::builder("p").model("test/m").user("Never said.").build().unwrap();
    agent.run(&prompt, &stage.thread, hi()).outcome().await.unwrap();
    let seen = agent.preview(&prompt, &stage.thread, RunRequest::default()).await.unwrap();
    let last = seen.request().messages.last().map(|it| (**it).clone());
    assert_eq!(last, Some(Message::assistant("one")));
    assert_eq!(stage.thread.get().turn(), TurnNo(1));
}

#[tokio::test]
async fn after_a_restart_the_preview_is_the_same() {
    let dir = tempfile::tempdir().unwrap();
    let open = || -> Arc<dyn Store> {
        let config = SqliteConfig::new(Arc::new(TestTime));
        Arc::new(SqliteStore::open(dir.path().join("threads.db"), config).unwrap())
    };
    let id = SessionId::parse("s").unwrap();
    let model = script([calls([("a", "look", json!({}))]), says("one"), says("two")]);
    let request = RunRequest::user("Where is it?").input(json!({"plan": "pro"}));
    let before = {
        let start = SessionStart { id: Some(id.clone()), label: None };
        let thread = sessions(&open()).create(start).await.unwrap().main().clone();
        let agent = agent(&model).build().unwrap();
        agent.run(&prompt(), &thread, hi().input(json!({"plan": "free"}))).outcome().await.unwrap();
        agent.preview(&prompt(), &thread, request.clone()).await.unwrap()
    };
    let thread = sessions(&open()).open(&id).await.unwrap().main().clone();
    let agent = agent(&model).build().unwrap();
    let after = agent.preview(&prompt(), &thread, request.clone()).await.unwrap();
    assert_eq!(json!(after.request()), json!(before.request()));

    agent.run(&prompt(), &thread, request).outcome().await.unwrap();
    assert_eq!(json!(after.request()), json!(*model.requests()[2]));
}
