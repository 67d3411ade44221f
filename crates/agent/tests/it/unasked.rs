//! A run without words of the user on a thread that ends with a message from outside: that message is answered.

use contexture_agent::{ResumePolicy, RunRequest};
use contexture_compose::InlineBlock;
use contexture_message::{Message, Part, Request, Role};
use contexture_model::{ModelError, ModelErrorKind, Scripted, Step};
use contexture_session::{SessionConfig, SessionId, Sessions, Thread};
use serde_json::json;

use crate::stage::{Stage, agent, calls, echo, hi, ports, prompt, says, script};
use crate::valid::assert_valid_everywhere;

/// Answers a message that was added to the thread from outside, and then says something else. Returns what was sent.
async fn answered(thread: &Thread, model: &Scripted, request: RunRequest) -> String {
    thread.add_message(Message::user("From outside.")).await.unwrap();
    let agent = agent(model).tool(echo("echo")).build().unwrap();
    let request = RunRequest { user: None, ..request };
    let outcome = agent.run(&prompt(), thread, request).outcome().await.unwrap();
    assert_eq!(outcome.text(), "Answer.");
    agent.run(&prompt(), thread, hi()).outcome().await.unwrap();
    model.requests().iter().map(|it| shown(it)).collect::<Vec<_>>().join("\n")
}

/// A request on one line, without the system message.
fn shown(request: &Request) -> String {
    assert_valid_everywhere(request);
    let messages = request.messages.iter().filter(|it| it.role != Role::System);
    let each = messages.map(|it| {
        let parts = it.content.iter().map(|it| match it {
            Part::Text { text, .. } => text.split_whitespace().collect::<Vec<_>>().join(" "),
            Part::ToolCall(call) => call.id.clone(),
            Part::ToolResult(result) => result.call_id.clone(),
            other => format!("{other:?}"),
        });
        format!("{}({})", it.role.as_str(), parts.collect::<Vec<_>>().join(", "))
    });
    each.collect::<Vec<_>>().join(" ")
}

fn with_tools() -> Scripted {
    script([calls([("a", "echo", json!({}))]), says("Answer."), says("More.")])
}

#[tokio::test]
async fn a_message_from_outside_is_answered() {
    let (stage, model) = (Stage::new().await, script([says("Answer."), says("More.")]));
    insta::assert_snapshot!(answered(&stage.thread, &model, RunRequest::default()).await, @r"
    user(From outside.)
    user(From outside.) assistant(Answer.) user(hi)
    ");
}

#[tokio::test]
async fn so_it_is_with_tools() {
    let stage = Stage::new().await;
    insta::assert_snapshot!(answered(&stage.thread, &with_tools(), RunRequest::default()).await, @r"
    user(From outside.)
    user(From outside.) assistant(a) tool(a)
    user(From outside.) assistant(a) tool(a) assistant(Answer.) user(hi)
    ");
}

#[tokio::test]
async fn so_it_is_with_hidden_context() {
    let stage = Stage::new().await;
    let blocks = vec![InlineBlock { name: "note".into(), body: "Hidden.".into(), order: 0 }];
    let request = RunRequest { blocks, reminders: vec!["Be quick.".to_owned()], ..RunRequest::default() };
    insta::assert_snapshot!(answered(&stage.thread, &with_tools(), request).await, @r"
    user(From outside.) user(<system-context> <note> Hidden. </note> </system-context>, <system-reminders> Be quick. </system-reminders>)
    user(From outside.) user(<system-context> <note> Hidden. </note> </system-context>, <system-reminders> Be quick. </system-reminders>) assistant(a) tool(a)
    user(From outside.) user(<system-context> <note> Hidden. </note> </system-context>, <system-reminders> Be quick. </system-reminders>) assistant(a) tool(a) assistant(Answer.) user(hi)
    ");
}

#[tokio::test]
async fn a_small_window_keeps_the_message_until_it_is_answered() {
    let stage = Stage::new().await;
    let config = SessionConfig { history_window: 1, ..SessionConfig::default() };
    let sessions = Sessions::new(stage.store.clone(), ports(), config);
    let thread = sessions.open(&SessionId::parse("s").unwrap()).await.unwrap().main().clone();
    thread.add_message(Message::user("Long ago.")).await.unwrap();
    insta::assert_snapshot!(answered(&thread, &with_tools(), RunRequest::default()).await, @r"
    user(From outside.)
    user(From outside.) assistant(a) tool(a)
    assistant(a) tool(a) assistant(Answer.) user(hi)
    ");
}

#[tokio::test]
async fn a_turn_that_answers_it_goes_on_after_an_interruption() {
    let stage = Stage::new().await;
    stage.thread.add_message(Message::user("From outside.")).await.unwrap();
    let cut = Step::Fail(ModelError::new(ModelErrorKind::Disconnected, "cut"));
    let model = Scripted::new([cut, Step::Answer(says("Answer."))]);
    let agent = agent(&model).build().unwrap();
    let request = || RunRequest {
        key: Some("k".into()),
        resume: Some(ResumePolicy::CloseCalls),
        ..RunRequest::default()
    };
    agent.run(&prompt(), &stage.thread, request()).outcome().await.unwrap_err();
    agent.run(&prompt(), &stage.thread, request()).outcome().await.unwrap();
    insta::assert_snapshot!(model.requests().iter().map(|it| shown(it)).collect::<Vec<_>>().join("\n"), @r"
    user(From outside.)
    user(From outside.)
    ");
}
