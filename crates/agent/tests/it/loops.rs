//! The loop: steps, stop conditions, what is on record, what the next turn sees.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use contexture_agent::{Agent, AgentConfig, Ended, RunRequest};
use contexture_compose::{Contribution, Definition, Prompt, PromptBuilder, StopCondition, Text, contributor};
use contexture_message::{Answer, Delta, Message, Part, StopReason, Thinking, Usage};
use contexture_model::{Deltas, Model, ModelCall, Scripted, Step};
use futures::{StreamExt, stream};
use serde_json::{Value, json};

use crate::stage::{Counting, Stage, TestTime, agent, calls, echo, hi, prompt, says, script, told};

#[tokio::test]
async fn an_answer_is_streamed_and_on_record() {
    let stage = Stage::new().await;
    let agent = agent(&script([says("Hello!")])).build().unwrap();
    let (events, outcome) = told(agent.run(&prompt(), &stage.thread, hi())).await;
    insta::assert_snapshot!(events, @r#"
    turn.start {"thread":"s","turn":"t1"}
    text.delta {"text":"Hello!"}
    context_usage {"input_tokens":10,"output_tokens":2,"cache_read_tokens":0,"budget_used_pct":0.0}
    turn.end {"status":"completed","usage":{"input_tokens":10,"cache_read_tokens":0,"output_tokens":2,"reasoning_tokens":0}}
    "#);
    let outcome = outcome.unwrap();
    assert_eq!((outcome.text().as_str(), outcome.steps, outcome.ended), ("Hello!", 1, Ended::Answered));
    insta::assert_snapshot!(stage.log().await, @r#"
    t1 {"turn_began":{}}
    t1 user: hi
    t1 assistant: Hello!
    t1 {"noted":{"key":"contexture.sent","value":{"view":[0,0,0,0],"sent":{"model":"test/model","system":[{"source":"prompt","text":"Be brief.","tokens":4}],"messages":0}}}}
    t1 {"turn_ended":{"status":"completed","usage":{"input_tokens":10,"cache_read_tokens":0,"output_tokens":2,"reasoning_tokens":0}}}
    "#);
}

struct AtOnce;

impl Model for AtOnce {
    fn stream(&self, _: ModelCall) -> Deltas {
        stream::iter([Ok(Delta::Done(Box::new(says("Hello!"))))]).boxed()
    }
}

#[tokio::test]
async fn an_answer_that_comes_at_once_is_streamed_too() {
    let stage = Stage::new().await;
    let agent = Agent::builder(AtOnce, Arc::new(TestTime), Counting::default()).build().unwrap();
    let (events, _) = told(agent.run(&prompt(), &stage.thread, hi())).await;
    assert!(events.contains("text.delta {\"text\":\"Hello!\"}"), "{events}");
}

#[tokio::test]
async fn the_users_message_has_the_users_rank() {
    let stage = Stage::new().await;
    let model = script([says("ok")]);
    let request = RunRequest { user: Some(Message::system("obey")), ..RunRequest::default() };
    agent(&model).build().unwrap().run(&prompt(), &stage.thread, request).outcome().await.unwrap();
    let roles: Vec<_> = model.requests()[0].messages.iter().map(|it| it.role.as_str()).collect();
    assert_eq!(roles, ["system", "user"]);
    assert!(stage.log().await.contains("t1 user: obey"));
}

#[tokio::test]
async fn tools_run_and_the_loop_goes_on() {
    let stage = Stage::new().await;
    let model =
        script([calls([("a", "echo", json!({"x": 1})), ("b", "echo", json!({"x": 2}))]), says("Done.")]);
    let agent = agent(&model).tool(echo("echo")).build().unwrap();
    let (events, outcome) = told(agent.run(&prompt(), &stage.thread, hi())).await;
    assert_eq!(outcome.unwrap().steps, 2);
    insta::assert_snapshot!(events, @r#"
    turn.start {"thread":"s","turn":"t1"}
    context_usage {"input_tokens":10,"output_tokens":2,"cache_read_tokens":0,"budget_used_pct":0.0}
    tool.call {"id":"a","name":"echo","arguments":{"x":1},"runs":"server"}
    tool.call {"id":"b","name":"echo","arguments":{"x":2},"runs":"server"}
    tool.result {"id":"a","name":"echo","output":{"type":"json","value":{"x":1}}}
    tool.result {"id":"b","name":"echo","output":{"type":"json","value":{"x":2}}}
    text.delta {"text":"Done."}
    context_usage {"input_tokens":10,"output_tokens":2,"cache_read_tokens":0,"cache_forecast_tokens":34,"budget_used_pct":0.0}
    turn.end {"status":"completed","usage":{"input_tokens":20,"cache_read_tokens":0,"output_tokens":4,"reasoning_tokens":0}}
    "#);
    insta::assert_snapshot!(stage.log().await, @r#"
    t1 {"turn_began":{}}
    t1 user: hi
    t1 assistant: a=echo({"x":1}) b=echo({"x":2})
    t1 tool: a->{"type":"json","value":{"x":1}} b->{"type":"json","value":{"x":2}}
    t1 assistant: Done.
    t1 {"noted":{"key":"contexture.sent","value":{"view":[0,0,0,0],"sent":{"model":"test/model","tools":[{"source":"call","text":"{\"name\":\"echo\",\"description\":\"Gives back what it gets.\",\"parameters\":{\"type\":\"object\"}}","tokens":24}],"system":[{"source":"prompt","text":"Be brief.","tokens":4}],"messages":0}}}}
    t1 {"turn_ended":{"status":"completed","usage":{"input_tokens":20,"cache_read_tokens":0,"output_tokens":4,"reasoning_tokens":0}}}
    "#);
    // The second call saw the first one's calls and results.
    let roles = |n: usize| model.requests()[n].messages.iter().map(|it| it.role.as_str()).collect::<Vec<_>>();
    assert_eq!(roles(0), ["system", "user"]);
    assert_eq!(roles(1), ["system", "user", "assistant", "tool"]);
}

#[tokio::test]
async fn the_next_turn_sees_the_one_before() {
    let stage = Stage::new().await;
    let model = script([says("one"), says("two")]);
    let agent = agent(&model).build().unwrap();
    agent.run(&prompt(), &stage.thread, RunRequest::user("first")).outcome().await.unwrap();
    agent.run(&prompt(), &stage.thread, RunRequest::user("second")).outcome().await.unwrap();
    let texts: Vec<_> =
        model.requests()[1].messages.iter().map(|it| it.as_text().unwrap().to_owned()).collect();
    assert_eq!(texts, ["Be brief.", "first", "one", "second"]);
}

fn stopping(conditions: Vec<StopCondition>) -> Prompt {
    let definition = Definition {
        id: "p".into(),
        model: Some("openai/gpt-5-mini".into()),
        stop_when: conditions,
        ..Definition::default()
    };
    PromptBuilder::from(definition).build().unwrap()
}

/// Runs a model that calls a tool for ever, and returns why it stopped after how many steps.
async fn stopped(conditions: Vec<StopCondition>) -> (Ended, u32) {
    let stage = Stage::new().await;
    let model = Scripted::always(calls([("a", "echo", json!({}))]));
    let agent = agent(&model).tool(echo("echo")).build().unwrap();
    let outcome = agent.run(&stopping(conditions), &stage.thread, hi()).outcome().await.unwrap();
    assert!(outcome.message.is_some(), "the model's last message, with its calls");
    let log = stage.log().await;
    assert!(log.contains("\"turn_ended\":{\"status\":\"completed\",\"reason\":\"stopped"), "{log}");
    assert_eq!(log.matches("=echo(").count(), log.matches("->{").count());
    (outcome.ended, outcome.steps)
}

#[tokio::test]
async fn a_model_that_calls_tools_for_ever_stops_at_the_limits() {
    assert_eq!(stopped(vec![]).await, (Ended::MaxSteps(10), 10));
    assert_eq!(stopped(vec![StopCondition::MaxSteps(3)]).await, (Ended::MaxSteps(3), 3));
    assert_eq!(stopped(vec![StopCondition::MaxSteps(30)]).await, (Ended::MaxSteps(30), 30));
    assert_eq!(
        stopped(vec![StopCondition::ToolCalled("echo".into())]).await,
        (Ended::ToolCalled("echo".into()), 1)
    );
    assert_eq!(stopped(vec![StopCondition::MaxTokens(25)]).await, (Ended::MaxTokens, 3));
    // A call costs 10 tokens in and 2 out: 0.25 and 2 dollars a million.
    assert_eq!(stopped(vec![StopCondition::MaxCost(0.000_01)]).await, (Ended::MaxCost, 2));
    let both = vec![StopCondition::MaxTokens(1_000_000), StopCondition::MaxSteps(2)];
    assert_eq!(stopped(both).await, (Ended::MaxSteps(2), 2));
}

#[tokio::test]
async fn a_limit_that_cannot_be_kept_is_told_once() {
    let definition = Definition {
        model: Some("test/of-unknown-price".into()),
        ..stopping(vec![StopCondition::MaxCost(1.0), StopCondition::MaxTokens(9)]).definition().clone()
    };
    let prompt = PromptBuilder::from(definition).build().unwrap();
    let stage = Stage::new().await;
    let calling = Answer { usage: Usage::default(), ..calls([("a", "echo", json!({}))]) };
    let model = script([calling, Answer::text("ok")]);
    let agent = agent(&model).tool(echo("echo")).build().unwrap();
    let outcome = agent.run(&prompt, &stage.thread, hi()).outcome().await.unwrap();
    let remarks: Vec<_> = outcome.remarks.iter().map(|it| it.message.as_str()).collect();
    assert_eq!(
        remarks,
        [
            "the model's price is not known: the cost has no limit",
            "the provider does not tell what was used: the tokens have no limit"
        ]
    );
}

#[tokio::test]
async fn a_model_that_pauses_for_ever_stops_at_the_limits() {
    let stage = Stage::new().await;
    let model = Scripted::always(Answer { stop: StopReason::Paused, ..says("Wait.") });
    let outcome = agent(&model).build().unwrap().run(&prompt(), &stage.thread, hi()).outcome().await.unwrap();
    assert_eq!((outcome.ended, outcome.steps), (Ended::MaxSteps(10), 10));
    assert_eq!(stage.log().await.matches("assistant: Wait.").count(), 10);
}

#[tokio::test]
async fn answers_that_are_made_again_count() {
    for condition in [StopCondition::MaxSteps(2), StopCondition::MaxTokens(13)] {
        let constraint = serde_json::from_value(json!({"id": "short", "max_chars": 1})).unwrap();
        let definition = stopping(vec![condition]).definition().clone();
        let prompt = PromptBuilder::from(definition).constraint(constraint).build().unwrap();
        let stage = Stage::new().await;
        let model = Scripted::always(says("long"));
        let run = agent(&model).build().unwrap().run(&prompt, &stage.thread, hi());
        assert_eq!(run.outcome().await.unwrap_err().code(), "constraint_failed");
        assert_eq!(model.requests().len(), 2);
    }
}

#[tokio::test]
async fn names_that_no_provider_takes_back_are_made_others() {
    let stage = Stage::new().await;
    let long = "x".repeat(5000);
    let model = script([
        calls([
            ("a", "", json!({})),
            ("b", "the echo", json!({})),
            ("c", "ä.b", json!({})),
            ("d", &long, json!({})),
        ]),
        says("ok"),
    ]);
    let agent = agent(&model).tool(echo("the_echo")).build().unwrap();
    agent.run(&prompt(), &stage.thread, hi()).outcome().await.unwrap();
    let log = stage.log().await;
    let calls = log.lines().find(|it| it.starts_with("t1 assistant: a=")).unwrap();
    assert_eq!(
        calls,
        format!("t1 assistant: a=unnamed({{}}) b=_the_echo({{}}) c=__b({{}}) d={}({{}})", "x".repeat(60))
    );
    assert_eq!(log.matches("there is no tool").count(), 4, "{log}");
}

#[tokio::test]
async fn ids_that_come_twice_are_made_different() {
    let stage = Stage::new().await;
    let model = script([
        calls([("", "echo", json!(1)), ("x", "echo", json!({})), ("x", "echo", json!({}))]),
        says("ok"),
    ]);
    let agent = agent(&model).tool(echo("echo")).build().unwrap();
    agent.run(&prompt(), &stage.thread, hi()).outcome().await.unwrap();
    let log = stage.log().await;
    assert!(log.contains("call_2=echo(1) x=echo({}) x_2=echo({})"), "{log}");
}

#[tokio::test]
async fn the_same_key_gives_the_first_outcome() {
    let stage = Stage::new().await;
    let model = script([says("once")]);
    let agent = agent(&model).build().unwrap();
    let request = || RunRequest { key: Some("k".into()), ..hi() };
    let first = agent.run(&prompt(), &stage.thread, request()).outcome().await.unwrap();
    let second = agent.run(&prompt(), &stage.thread, request()).outcome().await.unwrap();
    assert_eq!((first.turn, first.text()), (second.turn, second.text()));
    assert_eq!((second.ended, model.requests().len()), (Ended::Replayed, 1));
}

#[tokio::test]
async fn the_prompts_own_user_text_begins_the_turn() {
    let stage = Stage::new().await;
    let model = script([says("one"), says("two")]);
    let agent = agent(&model).build().unwrap();
    let user = Text::of(|input: &Value| format!("Greet {}.", input["name"].as_str().unwrap_or_default()));
    let prompt = Prompt::builder("p").model("test/m").user(user).build().unwrap();
    for name in ["Ada", "Bob"] {
        let request = RunRequest::default().input(json!({"name": name}));
        agent.run(&prompt, &stage.thread, request).outcome().await.unwrap();
    }
    let texts: Vec<_> =
        model.requests()[1].messages.iter().map(|it| it.as_text().unwrap().to_owned()).collect();
    assert_eq!(texts, ["Greet Ada.", "one", "Greet Bob."]);
}

#[tokio::test]
async fn the_threads_model_and_instructions_count() {
    let stage = Stage::new().await;
    stage.thread.set_provider_model("other", "large").await.unwrap();
    stage.thread.set_system_instructions(Some("Speak German.")).await.unwrap();
    let model = script([says("Hallo!"), says("Hi!")]);
    let agent = agent(&model).build().unwrap();
    agent.run(&prompt(), &stage.thread, hi()).outcome().await.unwrap();
    let request = hi().model("third/small");
    agent.run(&prompt(), &stage.thread, request).outcome().await.unwrap();
    let requests = model.requests();
    assert_eq!(requests[0].model.as_deref(), Some("other/large"));
    assert_eq!(requests[1].model.as_deref(), Some("third/small"));
    assert_eq!(requests[0].messages[0].as_text(), Some("Be brief.\n\nSpeak German."));
}

#[tokio::test]
async fn what_can_not_be_sent_leaves_no_trace() {
    let stage = Stage::new().await;
    let agent = agent(&script([])).build().unwrap();
    let nameless = Prompt::builder("p").build().unwrap();
    let (events, outcome) = told(agent.run(&nameless, &stage.thread, hi())).await;
    assert_eq!(outcome.unwrap_err().code(), "model_missing");
    assert!(events.starts_with("error {\"code\":\"model_missing\""), "{events}");
    let small = Prompt::builder("p").model("test/m").input_budget(3).build().unwrap();
    let err = agent.run(&small, &stage.thread, hi()).outcome().await.unwrap_err();
    assert_eq!((err.code().as_str(), stage.log().await.as_str()), ("budget_exceeded", ""));
}

#[tokio::test]
async fn only_dynamic_entries_are_resolved_again_between_steps() {
    let stage = Stage::new().await;
    let ran = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&ran);
    let entry = contributor("c", move |_| {
        let n = counted.fetch_add(1, Ordering::Relaxed);
        async move { Ok(Contribution::text(format!("run {n}"))) }
    });
    let profile = contexture_compose::Profile {
        volatility: Some(contexture_compose::Volatility::Conversation),
        ..contexture_compose::Profile::default()
    };
    let prompt = Prompt::builder("p").model("test/m").include(entry.profile(profile)).build().unwrap();
    let model = script([calls([("a", "echo", json!({}))]), says("ok")]);
    let agent = agent(&model).tool(echo("echo")).build().unwrap();
    agent.run(&prompt, &stage.thread, hi()).outcome().await.unwrap();
    assert_eq!(ran.load(Ordering::Relaxed), 1);
    let system = |n: usize| model.requests()[n].messages[0].as_text().unwrap().to_owned();
    assert_eq!(system(0), system(1));
}

#[tokio::test]
async fn thinking_goes_back_with_the_calls_it_led_to() {
    let stage = Stage::new().await;
    let thinking =
        Part::Thinking(Thinking { text: "hm".into(), signature: Some("sig".into()), ..Thinking::default() });
    let mut answer = calls([("a", "echo", json!({}))]);
    answer.message.content.insert(0, thinking.clone());
    let model = script([answer, says("ok")]);
    let agent = agent(&model).tool(echo("echo")).build().unwrap();
    agent.run(&prompt(), &stage.thread, hi()).outcome().await.unwrap();
    assert_eq!(model.requests()[1].messages[2].content[0], thinking);
}

#[tokio::test]
async fn a_paused_answer_is_gone_on_with() {
    let stage = Stage::new().await;
    let paused = Answer { stop: contexture_message::StopReason::Paused, ..says("First half.") };
    let agent = agent(&script([paused, says("Second half.")])).build().unwrap();
    let outcome = agent.run(&prompt(), &stage.thread, hi()).outcome().await.unwrap();
    assert_eq!((outcome.steps, outcome.text().as_str()), (2, "Second half."));
    assert!(stage.log().await.contains("First half."));
}

#[tokio::test]
async fn an_answer_that_was_cut_is_remarked_on() {
    let stage = Stage::new().await;
    let cut = Answer { stop: contexture_message::StopReason::MaxTokens, ..says("Once upon a") };
    let agent = agent(&script([cut])).build().unwrap();
    let outcome = agent.run(&prompt(), &stage.thread, hi()).outcome().await.unwrap();
    assert_eq!(outcome.remarks[0].source, "model");
    assert_eq!(outcome.text(), "Once upon a");
}

#[tokio::test]
async fn a_refusal_without_words_is_an_error() {
    let stage = Stage::new().await;
    let refused = Answer { stop: contexture_message::StopReason::Refused, ..says("") };
    let agent = agent(&Scripted::new([Step::Answer(refused)])).build().unwrap();
    let err = agent.run(&prompt(), &stage.thread, hi()).outcome().await.unwrap_err();
    assert_eq!(err.code(), "model_refused");
}

#[tokio::test]
async fn a_run_that_nobody_polls_does_nothing() {
    let stage = Stage::new().await;
    let model = script([says("never")]);
    let agent = agent(&model).config(AgentConfig { max_steps: 1, ..AgentConfig::default() }).build().unwrap();
    drop(agent.run(&prompt(), &stage.thread, hi()));
    assert_eq!((model.requests().len(), stage.log().await.as_str()), (0, ""));
}
