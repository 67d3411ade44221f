//! What the provider's cache should read, and who is named when it can't; hidden context that is left out by policy.

use std::sync::Arc;

use contexture_agent::{Agent, AgentConfig, CompactionConfig, RunRequest};
use contexture_compose::{Block, InlineBlock, Pass, Prompt};
use contexture_message::{Answer, Message, Tokens, Usage};
use contexture_model::Scripted;

use crate::scene::words;
use crate::stage::{self, Counting, Stage, TestTime, says, script, told};

fn agent(config: CompactionConfig) -> Agent {
    Agent::builder(Scripted::always(says("Fine.")), Arc::new(TestTime), Counting::default())
        .config(AgentConfig { compaction: config, ..AgentConfig::default() })
        .build()
        .unwrap()
}

fn prompt(system: &str, notes: &str) -> Prompt {
    let notes = Block::text("notes", notes.to_owned()).real_time();
    Prompt::builder("p").model("test/model").system(system.to_owned()).include(notes).build().unwrap()
}

async fn turn(agent: &Agent, prompt: &Prompt, stage: &Stage, request: RunRequest) -> Pass {
    let outcome = agent.run(prompt, &stage.thread, request).outcome().await.unwrap();
    outcome.passes.last().unwrap().clone()
}

/// Whether so many tokens are all of a request, up to what frames it.
fn is_all_of(pass: &Pass, tokens: Tokens) -> bool {
    let all = pass.total_tokens().0;
    (all - 12..=all).contains(&tokens.0)
}

#[tokio::test]
async fn everything_that_was_sent_before_is_read_again() {
    let (agent, stage) = (agent(CompactionConfig::default()), Stage::new().await);
    let prompt = prompt("Be brief.", "the same");
    let mut before: Option<Pass> = None;
    for number in 0..5 {
        let request = RunRequest {
            blocks: vec![InlineBlock { name: "page".into(), body: format!("{number}"), order: 0 }],
            ..RunRequest::user(words(&format!("turn {number}"), 100))
        };
        let pass = turn(&agent, &prompt, &stage, request).await;
        let forecast = pass.explain().cache.forecast;
        if let Some(before) = &before {
            let forecast = forecast.unwrap();
            assert_eq!(forecast.changed, None, "turn {number}");
            assert!(is_all_of(before, forecast.read_tokens), "turn {number}");
        }
        before = Some(pass);
    }
}

#[tokio::test]
async fn another_process_foretells_the_same() {
    let (agent, stage) = (agent(CompactionConfig::default()), Stage::new().await);
    let prompt = prompt("Be brief.", "the same");
    let mut before = turn(&agent, &prompt, &stage, RunRequest::user(words("one", 100))).await;
    for number in 0..3 {
        let thread = stage.elsewhere().await;
        let run = agent.run(&prompt, &thread, RunRequest::user(format!("number {number}")));
        let pass = run.outcome().await.unwrap().passes.last().unwrap().clone();
        let forecast = pass.explain().cache.forecast.unwrap();
        assert_eq!((forecast.changed, forecast.assumed), (None, true), "{number}");
        assert!(is_all_of(&before, forecast.read_tokens), "{number}");
        before = pass;
    }
}

#[tokio::test]
async fn a_change_is_named_with_its_source_and_its_first_byte() {
    let (agent, stage) = (agent(CompactionConfig::default()), Stage::new().await);
    let first = turn(&agent, &prompt("Be brief.", "version 1"), &stage, RunRequest::user("hi")).await;
    let pass = turn(&agent, &prompt("Be brief.", "version 2"), &stage, RunRequest::user("hi")).await;
    let change = pass.explain().cache.forecast.unwrap().changed.unwrap();
    let system = |pass: &Pass| match &pass.request().messages[0].content[0] {
        contexture_message::Part::Text { text, .. } => text.clone(),
        other => panic!("{other:?}"),
    };
    let (was, is) = (system(&first), system(&pass));
    let differs = was.bytes().zip(is.bytes()).position(|(was, is)| was != is);
    assert!(change.source.contains("notes"), "{change:?}");
    assert_eq!(Some(change.byte), differs);
    assert!(change.lost_tokens.0 > 0);
    let pass = turn(&agent, &prompt("Be long.", "version 2"), &stage, RunRequest::user("hi")).await;
    let change = pass.explain().cache.forecast.unwrap().changed.unwrap();
    assert_eq!((change.source.as_str(), change.byte), ("prompt", "Be ".len()));
}

#[tokio::test]
async fn old_hidden_context_is_left_out_with_a_reason() {
    let config = CompactionConfig { hidden_context_turns: Some(2), ..CompactionConfig::default() };
    let (agent, stage) = (agent(config), Stage::new().await);
    let prompt = prompt("Be brief.", "the same");
    let mut passes = Vec::new();
    for number in 0..6 {
        let body = words(&format!("page {number}"), 2_000);
        let blocks = vec![InlineBlock { name: "page".into(), body, order: 0 }];
        let request = RunRequest { blocks, ..RunRequest::user(format!("question {number}")) };
        passes.push(turn(&agent, &prompt, &stage, request).await);
    }
    let last = passes.last().unwrap();
    let sent = format!("{:?}", last.request().messages);
    assert!(sent.contains("page 5.") && sent.contains("page 4."), "the newest stay");
    assert!(!sent.contains("page 0."), "{sent}");
    assert!((0..6).all(|it| sent.contains(&format!("question {it}"))), "what the user said stays");
    let why = last.explain();
    let reason = why.excluded.iter().find(|it| it.reason.contains("hidden context")).unwrap();
    assert!(reason.source.starts_with("history:t1"), "{reason:?}");
    // Whenever something was left out, the Explanation of that call says what was weighed.
    let named = passes.iter().flat_map(|it| it.explain().cache.edits).find(|it| it.chosen).unwrap();
    assert!(named.edit.contains("hidden context") && named.saves_tokens.0 > 1_000, "{named:?}");
}

#[tokio::test]
async fn without_the_policy_hidden_context_stays() {
    let (agent, stage) = (agent(CompactionConfig::default()), Stage::new().await);
    let prompt = prompt("Be brief.", "the same");
    let blocks = vec![InlineBlock { name: "page".into(), body: "page zero".into(), order: 0 }];
    turn(&agent, &prompt, &stage, RunRequest { blocks, ..RunRequest::user("look") }).await;
    for number in 0..9 {
        stage.thread.add_message(Message::user(format!("aside {number}"))).await.unwrap();
    }
    let pass = turn(&agent, &prompt, &stage, RunRequest::user("and now?")).await;
    assert!(format!("{:?}", pass.request().messages).contains("page zero"));
}

#[tokio::test]
async fn a_provider_that_reports_no_cache_figures_has_no_forecast_and_no_break() {
    let usage = Usage { input_tokens: 10, output_tokens: 2, ..Usage::default() };
    let answer = |cache_read_tokens| Answer { usage: Usage { cache_read_tokens, ..usage }, ..says("Fine.") };
    let model = script([answer(None), answer(None), answer(None), answer(Some(3)), answer(None)]);
    let (agent, stage) = (stage::agent(&model).build().unwrap(), Stage::new().await);
    let mut told_of = Vec::new();
    for number in 0..5 {
        // Every turn changes the prefix.
        let prompt = prompt("Be brief.", &format!("version {number}"));
        let thread = if number == 2 { stage.elsewhere().await } else { stage.thread.clone() };
        let (events, outcome) = told(agent.run(&prompt, &thread, RunRequest::user("hi"))).await;
        let cache = outcome.unwrap().passes.last().unwrap().explain().cache;
        let has = |it: &str| events.contains(it);
        told_of.push((
            has("cache_read"),
            has("cache_forecast"),
            has("cache_break"),
            cache.forecast.is_some(),
        ));
    }
    // Once it reports them, the next request is compared with what it was sent then.
    let (silent, reported) = ((false, false, false, false), (true, false, false, false));
    assert_eq!(told_of, [silent, silent, silent, reported, silent]);
}
