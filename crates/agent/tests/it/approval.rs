//! Approval: suspended durably, decided once, by whoever has the token, in any process.

use contexture_agent::{Agent, AgentError, CancellationToken, Decision, Ended, Outcome, Tool, Verdict};
use contexture_compose::{Definition, Prompt, PromptBuilder, StopCondition};
use contexture_history::TurnStatus;
use contexture_message::{Part, Role, ToolDefinition};
use contexture_model::Scripted;
use contexture_session::Thread;
use serde_json::json;

use crate::stage::{Stage, agent, calls, echo, hi, prompt, says, script, told};

const APPROVAL: &str = "s:t1:b";

fn model() -> Scripted {
    script([calls([("a", "free", json!({"n": 1})), ("b", "risky", json!({"n": 2}))]), says("All done.")])
}

fn careful(model: &Scripted) -> Agent {
    agent(model).tool(echo("free")).tool(echo("risky").needs_approval()).build().unwrap()
}

fn decision(approval: &str, token: &str, verdict: Verdict) -> Decision {
    Decision { approval: approval.to_owned(), token: token.to_owned(), verdict }
}

async fn decide(agent: &Agent, thread: &Thread, decision: Decision) -> Result<Outcome, AgentError> {
    agent.decide(&prompt(), thread, decision, CancellationToken::new()).outcome().await
}

/// Runs until the turn waits.
async fn waiting(stage: &Stage, model: &Scripted) -> Agent {
    let agent = careful(model);
    let outcome = agent.run(&prompt(), &stage.thread, hi()).outcome().await.unwrap();
    assert_eq!((outcome.status, outcome.ended), (TurnStatus::Suspended, Ended::Suspended));
    assert_eq!(outcome.approvals[0].id, APPROVAL);
    agent
}

#[tokio::test]
async fn a_call_waits_and_its_siblings_are_answered() {
    let stage = Stage::new().await;
    let (events, _) = told(careful(&model()).run(&prompt(), &stage.thread, hi())).await;
    insta::assert_snapshot!(events, @r#"
    turn.start {"thread":"s","turn":"t1"}
    context_usage {"input_tokens":10,"output_tokens":2,"cache_read_tokens":0,"budget_used_pct":0.0}
    tool.call {"id":"a","name":"free","arguments":{"n":1},"runs":"server"}
    tool.call {"id":"b","name":"risky","arguments":{"n":2},"runs":"server"}
    tool.result {"id":"a","name":"free","output":{"type":"json","value":{"n":1}}}
    approval.required {"approval":{"id":"s:t1:b","token":"secret-0","call_id":"b","tool":"risky","arguments":{"n":2}}}
    turn.end {"status":"suspended","reason":"it waits for approval","usage":{"input_tokens":10,"cache_read_tokens":0,"output_tokens":2,"reasoning_tokens":0}}
    "#);
    let log = stage.log().await;
    assert!(!log.contains("secret-0"), "the log must not hold the token: {log}");
    assert!(log.contains("t1 tool: a->{\"type\":\"json\",\"value\":{\"n\":1}}"), "{log}");
}

#[tokio::test]
async fn an_approved_call_runs_and_the_turn_goes_on() {
    let stage = Stage::new().await;
    let model = model();
    let agent = waiting(&stage, &model).await;
    let outcome =
        decide(&agent, &stage.thread, decision(APPROVAL, "secret-0", Verdict::Approve)).await.unwrap();
    assert_eq!((outcome.text().as_str(), outcome.steps, outcome.turn.0), ("All done.", 2, 1));
    assert_eq!(outcome.usage.input_tokens, 20);
    let log = stage.log().await;
    assert!(log.contains("b->{\"type\":\"json\",\"value\":{\"n\":2}}"), "{log}");
    assert!(
        log.contains("{\"turn_ended\":{\"status\":\"completed\",\"usage\":{\"input_tokens\":20"),
        "{log}"
    );
    // Every call has its result, in one row.
    let request = &model.requests()[1];
    let results: Vec<_> =
        request.messages.iter().filter(|it| it.role == Role::Tool).flat_map(|it| &it.content).collect();
    assert_eq!(results.len(), 2);
}

#[tokio::test]
async fn a_denied_call_is_told_to_the_model() {
    let stage = Stage::new().await;
    let model = model();
    let agent = waiting(&stage, &model).await;
    let verdict = Verdict::Deny { reason: Some("too risky".into()) };
    decide(&agent, &stage.thread, decision(APPROVAL, "secret-0", verdict)).await.unwrap();
    let log = stage.log().await;
    assert!(log.contains("b->{\"type\":\"execution-denied\",\"value\":{\"reason\":\"too risky\"}}"), "{log}");
}

#[tokio::test]
async fn forged_repeated_and_strange_decisions_change_nothing() {
    let stage = Stage::new().await;
    let model = model();
    let agent = waiting(&stage, &model).await;
    let before = stage.log().await;
    let refused = async |approval: &str, token: &str| {
        let made = decision(approval, token, Verdict::Approve);
        decide(&agent, &stage.thread, made).await.unwrap_err().code()
    };
    assert_eq!(refused(APPROVAL, "secret-1").await, "approval_forged");
    assert_eq!(refused(APPROVAL, "").await, "approval_forged");
    assert_eq!(refused("s:t1:a", "secret-0").await, "approval_not_waiting");
    assert_eq!(refused("other", "secret-0").await, "approval_not_waiting");
    let other = contexture_compose::Prompt::builder("other").model("test/m").build().unwrap();
    let made = decision(APPROVAL, "secret-0", Verdict::Approve);
    let run = agent.decide(&other, &stage.thread, made, CancellationToken::new());
    assert_eq!(run.outcome().await.unwrap_err().code(), "approval_other_prompt");
    assert_eq!(stage.log().await, before);

    decide(&agent, &stage.thread, decision(APPROVAL, "secret-0", Verdict::Approve)).await.unwrap();
    let after = stage.log().await;
    assert_eq!(refused(APPROVAL, "secret-0").await, "approval_not_waiting");
    assert_eq!((stage.log().await, model.requests().len()), (after, 2));
}

#[tokio::test]
async fn a_cancelled_decision_changes_nothing() {
    let stage = Stage::new().await;
    let agent = waiting(&stage, &model()).await;
    let before = stage.log().await;
    let cancel = CancellationToken::new();
    cancel.cancel();
    let run =
        agent.decide(&prompt(), &stage.thread, decision(APPROVAL, "secret-0", Verdict::Approve), cancel);
    assert!(run.outcome().await.unwrap_err().is_cancelled());
    assert_eq!(stage.log().await, before);
    decide(&agent, &stage.thread, decision(APPROVAL, "secret-0", Verdict::Approve)).await.unwrap();
}

#[tokio::test]
async fn a_stop_condition_sees_the_whole_round() {
    let definition = Definition {
        id: "p".into(),
        model: Some("test/m".into()),
        stop_when: vec![StopCondition::ToolCalled("free".into())],
        ..Definition::default()
    };
    let prompt = PromptBuilder::from(definition).build().unwrap();
    let (stage, model) = (Stage::new().await, model());
    let agent = careful(&model);
    agent.run(&prompt, &stage.thread, hi()).outcome().await.unwrap();
    let made = decision(APPROVAL, "secret-0", Verdict::Approve);
    let run = agent.decide(&prompt, &stage.thread, made, CancellationToken::new());
    assert_eq!(run.outcome().await.unwrap().ended, Ended::ToolCalled("free".into()));
}

#[tokio::test]
async fn attempts_are_remembered_while_a_turn_waits() {
    let constraint = serde_json::from_value(json!({"id": "short", "max_chars": 3})).unwrap();
    let prompt = Prompt::builder("p").model("test/m").constraint(constraint).build().unwrap();
    let model = script([says("too long"), calls([("b", "risky", json!({}))]), says("ok")]);
    let (stage, agent) = (Stage::new().await, careful(&model));
    agent.run(&prompt, &stage.thread, hi()).outcome().await.unwrap();
    let made = decision(APPROVAL, "secret-0", Verdict::Approve);
    let elsewhere = stage.elsewhere().await;
    agent.decide(&prompt, &elsewhere, made, CancellationToken::new()).outcome().await.unwrap();
    let roles = model.requests()[2].messages.iter().map(|it| it.role.as_str()).collect::<Vec<_>>().join(" ");
    assert_eq!(roles, "user assistant user assistant tool");
}

#[tokio::test]
async fn a_cancelled_round_answers_calls_that_nobody_was_asked_about() {
    let stage = Stage::new().await;
    let request = hi();
    let cancel = request.cancel.clone();
    let stops = Tool::new(ToolDefinition::new("free", "Stops the run."), move |_| {
        cancel.cancel();
        async { Ok(json!(1)) }
    });
    let agent = agent(&model()).tool(stops.unwrap()).tool(echo("risky").needs_approval()).build().unwrap();
    let (events, outcome) = told(agent.run(&prompt(), &stage.thread, request)).await;
    assert!(outcome.unwrap_err().is_cancelled());
    assert_eq!(events.matches("tool.result").count(), 2, "{events}");
    assert!(!events.contains("approval.required"), "{events}");
    assert!(stage.log().await.contains("b->{\"type\":\"error-text\",\"value\":\"interrupted\"}"));
}

#[tokio::test]
async fn a_decision_can_come_after_a_restart() {
    let stage = Stage::new().await;
    let model = model();
    drop(waiting(&stage, &model).await);
    // Another process: another agent, another view of the thread, nothing in memory.
    let elsewhere = stage.elsewhere().await;
    let agent = careful(&model);
    let outcome = decide(&agent, &elsewhere, decision(APPROVAL, "secret-0", Verdict::Approve)).await.unwrap();
    assert_eq!(outcome.text(), "All done.");
}

#[tokio::test]
async fn the_turn_goes_on_when_everything_is_decided() {
    let stage = Stage::new().await;
    let model = script([calls([("a", "risky", json!({})), ("b", "risky", json!({}))]), says("ok")]);
    let agent = careful(&model);
    agent.run(&prompt(), &stage.thread, hi()).outcome().await.unwrap();
    let first = decision("s:t1:b", "secret-1", Verdict::Approve);
    let outcome = decide(&agent, &stage.thread, first.clone()).await.unwrap();
    assert_eq!((outcome.status, model.requests().len()), (TurnStatus::Suspended, 1));
    assert_eq!(decide(&agent, &stage.thread, first).await.unwrap_err().code(), "approval_decided");
    let second = decision("s:t1:a", "secret-0", Verdict::Deny { reason: None });
    let outcome = decide(&agent, &stage.thread, second).await.unwrap();
    assert_eq!(outcome.status, TurnStatus::Completed);
    let log = stage.log().await;
    assert!(log.contains("t1 tool: a->{\"type\":\"execution-denied\",\"value\":{}} b->"), "{log}");
}

#[tokio::test]
async fn of_two_decisions_at_once_one_counts() {
    let stage = Stage::new().await;
    let model = model();
    let agent = waiting(&stage, &model).await;
    let made = || decision(APPROVAL, "secret-0", Verdict::Approve);
    let (one, two) =
        futures::join!(decide(&agent, &stage.thread, made()), decide(&agent, &stage.thread, made()));
    let codes: Vec<_> =
        [one, two].into_iter().map(|it| it.map_or_else(|err| err.code().as_str(), |_| "done")).collect();
    assert!(codes.contains(&"done") && codes.contains(&"approval_not_waiting"), "{codes:?}");
    assert_eq!(model.requests().len(), 2);
}

#[tokio::test]
async fn a_new_turn_leaves_the_waiting_call_answered() {
    let stage = Stage::new().await;
    let model = model();
    let agent = waiting(&stage, &model).await;
    agent.run(&prompt(), &stage.thread, hi()).outcome().await.unwrap();
    let request = &model.requests()[1];
    let results =
        request.messages.iter().flat_map(|it| &it.content).filter(|it| matches!(it, Part::ToolResult(_)));
    assert_eq!(results.count(), 2);
    let late = decide(&agent, &stage.thread, decision(APPROVAL, "secret-0", Verdict::Approve)).await;
    assert_eq!(late.unwrap_err().code(), "approval_not_waiting");
}

#[tokio::test]
async fn approval_can_depend_on_the_arguments() {
    let stage = Stage::new().await;
    let model =
        script([calls([("a", "pay", json!({"amount": 5}))]), calls([("b", "pay", json!({"amount": 500}))])]);
    let pay = echo("pay").needs_approval_if(|it| it["amount"].as_u64() > Some(100));
    let agent = agent(&model).tool(pay).build().unwrap();
    let outcome = agent.run(&prompt(), &stage.thread, hi()).outcome().await.unwrap();
    let asked: Vec<_> = outcome.approvals.iter().map(|it| it.call_id.as_str()).collect();
    assert_eq!((asked, outcome.steps), (vec!["b"], 2));
}

#[tokio::test]
async fn the_owner_of_a_turn_decides_without_a_token() {
    let (stage, model) = (Stage::new().await, model());
    let agent = waiting(&stage, &model).await;
    let decide = async |approval: &str| {
        let cancel = CancellationToken::new();
        let run = agent.decide_as_owner(&prompt(), &stage.thread, approval, Verdict::Approve, cancel);
        run.outcome().await.map(|it| it.text()).map_err(|err| err.code().as_str())
    };
    let before = stage.log().await;
    assert_eq!(decide("s:t1:a").await, Err("approval_not_waiting"));
    assert_eq!(stage.log().await, before);
    assert_eq!(decide(APPROVAL).await, Ok("All done.".to_owned()));
    let after = stage.log().await;
    assert_eq!(decide(APPROVAL).await, Err("approval_not_waiting"));
    assert_eq!((stage.log().await, model.requests().len()), (after, 2));
}

#[tokio::test]
async fn the_owner_too_decides_once() {
    let stage = Stage::new().await;
    let model = script([calls([("a", "risky", json!({})), ("b", "risky", json!({}))]), says("ok")]);
    let agent = careful(&model);
    agent.run(&prompt(), &stage.thread, hi()).outcome().await.unwrap();
    let deny = || Verdict::Deny { reason: None };
    let decide = async |verdict| {
        let run =
            agent.decide_as_owner(&prompt(), &stage.thread, APPROVAL, verdict, CancellationToken::new());
        run.outcome().await.map(|it| it.status).map_err(|err| err.code().as_str())
    };
    assert_eq!(decide(Verdict::Approve).await, Ok(TurnStatus::Suspended));
    assert_eq!(decide(deny()).await, Err("approval_decided"));
}
