//! Code that was handed in may panic: the run then ends with an error, and its turn on record.

use std::sync::Arc;

use contexture_agent::{Agent, AgentBuilder, Checked, Ended};
use contexture_compose::{Constraint, Contribution, Guardrail, Prompt, PromptBuilder, contributor};
use contexture_model::{Deltas, Model, ModelCall, Scripted};
use futures::{StreamExt, stream};
use serde_json::{Value, json};

use crate::stage::{Counting, Stage, TestTime, agent, calls, echo, hi, prompt, says, script, told};

fn builder() -> PromptBuilder {
    Prompt::builder("p").model("test/m")
}

fn guarded(guardrail: Value) -> Prompt {
    let guardrail: Guardrail = serde_json::from_value(guardrail).unwrap();
    builder().guardrail(guardrail).build().unwrap()
}

/// Runs a prompt and returns the last event and the last line of the log.
async fn ended(agent: AgentBuilder, prompt: &Prompt) -> String {
    let stage = Stage::new().await;
    let (events, _) = told(agent.build().unwrap().run(prompt, &stage.thread, hi())).await;
    let log = stage.log().await;
    [events.lines().last().unwrap(), log.lines().last().unwrap_or("nothing on record")].join("\n")
}

fn breaks() -> AgentBuilder {
    let judge = |_: Arc<str>| async { panic!("of the guardrail") };
    agent(&script([says("x")])).guardrail("breaks", judge)
}

#[tokio::test]
async fn a_guardrail_that_panics_lets_nothing_pass() {
    insta::assert_snapshot!(ended(breaks(), &guarded(json!({"id": "breaks"}))).await, @r#"
    error {"code":"panicked","message":"a model, check or entry panicked"}
    t1 {"turn_ended":{"status":"failed","reason":"a model, check or entry panicked","code":"panicked","usage":{"input_tokens":10,"cache_read_tokens":0,"output_tokens":2,"reasoning_tokens":0}}}
    "#);
    insta::assert_snapshot!(ended(breaks(), &guarded(json!({"id": "breaks", "on": "input"}))).await, @r#"
    error {"code":"panicked","message":"a model, check or entry panicked"}
    nothing on record
    "#);
}

#[tokio::test]
async fn a_constraint_that_panics_fails_the_turn() {
    let constraint: Constraint = serde_json::from_value(json!({"id": "breaks"})).unwrap();
    let prompt = builder().constraint(constraint).build().unwrap();
    async fn judge(_: Checked) -> Result<(), String> {
        panic!("of the constraint")
    }
    insta::assert_snapshot!(ended(agent(&script([says("x")])).constraint("breaks", judge), &prompt).await, @r#"
    error {"code":"panicked","message":"a model, check or entry panicked"}
    t1 {"turn_ended":{"status":"failed","reason":"a model, check or entry panicked","code":"panicked","usage":{"input_tokens":10,"cache_read_tokens":0,"output_tokens":2,"reasoning_tokens":0}}}
    "#);
}

struct Breaking;

impl Model for Breaking {
    fn stream(&self, _: ModelCall) -> Deltas {
        stream::once(async { panic!("of the model") }).boxed()
    }
}

#[tokio::test]
async fn a_model_that_panics_fails_the_turn() {
    let agent = Agent::builder(Breaking, Arc::new(TestTime), Counting::default());
    insta::assert_snapshot!(ended(agent, &prompt()).await, @r#"
    error {"code":"panicked","message":"a model, check or entry panicked"}
    t1 {"turn_ended":{"status":"failed","reason":"a model, check or entry panicked","code":"panicked"}}
    "#);
}

#[tokio::test]
async fn an_entry_that_panics_between_steps_fails_the_turn() {
    let n_runs = std::sync::atomic::AtomicU32::new(0);
    let entry = contributor("breaks", move |_| {
        let is_first = n_runs.fetch_add(1, std::sync::atomic::Ordering::Relaxed) == 0;
        async move { if is_first { Ok(Contribution::default()) } else { panic!("of the entry") } }
    });
    let prompt = builder().include(entry).build().unwrap();
    let agent = agent(&Scripted::always(calls([("a", "echo", json!({}))]))).tool(echo("echo"));
    insta::assert_snapshot!(ended(agent, &prompt).await, @r#"
    error {"code":"contributor_failed","message":"contributor:breaks: the contributor failed: it panicked: of the entry"}
    t1 {"turn_ended":{"status":"failed","reason":"contributor:breaks: the contributor failed: it panicked: of the entry","code":"contributor_failed","usage":{"input_tokens":10,"cache_read_tokens":0,"output_tokens":2,"reasoning_tokens":0}}}
    "#);
}

#[tokio::test]
async fn a_predicate_that_panics_asks() {
    let stage = Stage::new().await;
    let tool = echo("echo").needs_approval_if(|_| panic!("of the predicate"));
    let agent = agent(&script([calls([("a", "echo", json!({}))])])).tool(tool).build().unwrap();
    let outcome = agent.run(&prompt(), &stage.thread, hi()).outcome().await.unwrap();
    assert_eq!(outcome.ended, Ended::Suspended);
}
