//! What a run brings for the hidden envelope, which views include it, and a message made of the input.

use std::sync::Arc;
use std::time::Duration;

use contexture_agent::{Attachment, ContextRef, References, RunRequest};
use contexture_compose::ports::Clock;
use contexture_compose::{BoxError, BoxFuture, Engine, OnError, Prompt, PromptBuilder, Scope, Text};
use contexture_history::Visibility;
use contexture_message::{Request, Role};
use contexture_model::Scripted;
use serde_json::json;

use crate::stage::{Stage, agent, says};

/// A clock that runs.
#[derive(Debug)]
struct TokioClock;

impl Clock for TokioClock {
    fn now(&self) -> Duration {
        Duration::ZERO
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        Box::pin(tokio::time::sleep(duration))
    }
}

fn prompt() -> PromptBuilder {
    Prompt::builder("p").model("test/model").system("Be brief.")
}

fn model() -> Scripted {
    Scripted::always(says("Fine."))
}

fn reference(kind: &str, id: &str) -> ContextRef {
    ContextRef { kind: kind.to_owned(), id: id.to_owned(), label: None }
}

/// Returns what the users said in a request, a line each.
fn said(request: &Request) -> String {
    let users = request.messages.iter().filter(|it| it.role == Role::User);
    users.map(|it| serde_json::to_string(&it.content).unwrap()).collect::<Vec<_>>().join("\n")
}

/// Resolves tickets at once and orders never.
fn references(on_error: OnError) -> References {
    let ticket = |it: ContextRef, _: Scope| async move { Ok::<_, BoxError>(format!("Text of {}.", it.id)) };
    let never = |_: ContextRef, _: Scope| std::future::pending::<Result<String, BoxError>>();
    References::default().with("ticket", ticket).with_rules(
        "order",
        never,
        Duration::from_millis(50),
        on_error,
    )
}

#[tokio::test]
async fn references_end_at_their_deadline_and_the_others_are_sent() {
    let (stage, model) = (Stage::new().await, model());
    let build = |on_error| {
        let engine = Engine { clock: Arc::new(TokioClock), ..Engine::default() };
        agent(&model).engine(engine).references(references(on_error)).build().unwrap()
    };
    let refs = || [reference("ticket", "T-1"), reference("order", "7")];
    let request = || RunRequest::user("Help").context_refs(refs());
    build(OnError::Warn).run(&prompt().build().unwrap(), &stage.thread, request()).outcome().await.unwrap();
    let sent = said(&model.requests()[0]);
    assert!(sent.contains("Text of T-1.") && !sent.contains("order"), "{sent}");
    let failed =
        build(OnError::Fail).run(&prompt().build().unwrap(), &stage.thread, request()).outcome().await;
    assert!(failed.unwrap_err().to_string().contains("reference:order/7"));
    assert_eq!(model.requests().len(), 1, "nothing was sent");
    assert_eq!(stage.thread.get().turn().0, 1, "nothing was written");
}

#[tokio::test]
async fn attachments_are_checked_before_anything_is_written() {
    let (stage, model) = (Stage::new().await, model());
    let agent = agent(&model).build().unwrap();
    let attached =
        |name: &str, text: &str| Attachment { name: name.into(), media_type: None, text: text.into() };
    for wrong in
        [vec![attached("", "x")], vec![attached("a", " ")], vec![attached("a", "x"), attached("a", "y")]]
    {
        let request = RunRequest { attachments: wrong, ..RunRequest::user("Help") };
        let err = agent.run(&prompt().build().unwrap(), &stage.thread, request).outcome().await.unwrap_err();
        assert_eq!(err.code().as_str(), "body_invalid", "{err}");
    }
    assert!(model.requests().is_empty() && stage.log().await.is_empty(), "{}", stage.log().await);
}

#[tokio::test]
async fn a_run_wins_over_its_prompt_about_who_sees_it() {
    let (stage, model) = (Stage::new().await, model());
    let agent = agent(&model).build().unwrap();
    let hidden = prompt().visibility(Visibility::CLIENT).build().unwrap();
    agent.run(&hidden, &stage.thread, RunRequest::user("one")).outcome().await.unwrap();
    let shown = RunRequest::user("two").visibility(Visibility::BOTH);
    agent.run(&hidden, &stage.thread, shown).outcome().await.unwrap();
    agent.run(&prompt().build().unwrap(), &stage.thread, RunRequest::user("three")).outcome().await.unwrap();
    insta::assert_snapshot!(said(&model.requests()[2]), @r#"
    [{"type":"text","text":"two"}]
    [{"type":"text","text":"three"}]
    "#);
}

#[tokio::test]
async fn what_a_prompt_makes_of_the_input_is_on_record_as_said_by_the_user() {
    let (stage, model) = (Stage::new().await, model());
    let agent = agent(&model).build().unwrap();
    let question = || Text::template("{{ input.question }}").unwrap();
    let prompt = prompt().said_by_user(question()).user(question()).build().unwrap();
    let request = || RunRequest::default().input(json!({"question": "Where?"}));
    let preview = agent.preview(&prompt, &stage.thread, request()).await.unwrap();
    agent.run(&prompt, &stage.thread, request()).outcome().await.unwrap();
    assert_eq!(said(preview.request()), said(&model.requests()[0]));
    assert_eq!(said(&model.requests()[0]), r#"[{"type":"text","text":"Where?"}]"#);
    assert_eq!(stage.log().await.matches("t1 user: Where?").count(), 1, "{}", stage.log().await);
}
