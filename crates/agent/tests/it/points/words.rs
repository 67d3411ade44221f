//! Points 9 and 10: what events and reports say is what the model read, and an unknown window is said to be assumed.

use contexture_agent::{CompactRequest, CompactionConfig};
use contexture_message::{Answer, Request, Tokens, Usage};
use contexture_model::Step;
use serde_json::{Value, json};

use super::{MODEL, Scene, Setup, configured, facts, fetches, fine, n_messages};
use crate::readable::tokens;
use crate::scene::{Summaries, words};
use crate::stage::says;

fn number(value: &Value, key: &str) -> u64 {
    value[key].as_u64().unwrap_or_else(|| panic!("no `{key}` in {value:#}"))
}

/// Compares the sizes that a report names with the requests before and after it.
fn check_sizes(report: &Value, before: &Request, after: &Request) {
    // The newest request before had neither its own answer nor the next question; the system may count.
    let (was, is) = (n_messages(before), n_messages(after));
    let messages = number(report, "messages_before");
    assert!((was..=was + 3).contains(&messages), "{messages} messages before, {was} were sent\n{report:#}");
    let messages = number(report, "messages_after");
    assert!((is - 1..=is + 1).contains(&messages), "{messages} messages after, {is} are sent\n{report:#}");
    let near = |said: u64, sent: u32| {
        let (said, sent) = (i64::try_from(said).unwrap(), i64::from(sent));
        (said - sent).abs() <= 400 + sent / 10
    };
    let n_tokens = number(report, "tokens_before");
    assert!(near(n_tokens, tokens(before)), "{n_tokens} before, {} were sent\n{report:#}", tokens(before));
    let n_tokens = number(report, "tokens_after");
    assert!(near(n_tokens, tokens(after)), "{n_tokens} after, {} are sent\n{report:#}", tokens(after));
}

#[tokio::test]
async fn a_compaction_at_the_start_of_a_turn_tells_what_the_model_read() {
    // Each turn has a tool call: there are records of the engine between the messages.
    let act = |request: &Request, number: usize| {
        let is_result = format!("{:?}", request.messages.last()).contains("ToolResult");
        if is_result { Step::Answer(says("Read.")) } else { fetches(number..number + 1, 400) }
    };
    let compaction = CompactionConfig { trigger_tokens: Some(Tokens(3_000)), ..CompactionConfig::default() };
    let scene = Scene::new(Setup { compaction, ..Setup::window(32_768) }, act).await;
    for turn in 0..40 {
        let n_before = scene.requests().len();
        let told = scene.talk(&format!("Question {turn}?")).await;
        told.ok();
        let [start] = told.of_type("context_compaction_start")[..] else { continue };
        let [end] = told.of_type("context_compaction_end")[..] else { panic!("{:#?}", told.events) };
        for key in ["strategy", "trigger", "messages_before", "tokens_before"] {
            assert_eq!(start[key], end[key], "`{key}` differs");
        }
        assert!(end.get("items_before").is_none(), "{end:#}");
        let requests = scene.requests();
        check_sizes(end, &requests[n_before - 1], &requests[n_before]);
        return;
    }
    panic!("nothing was compacted");
}

#[tokio::test]
async fn previews_count_as_what_they_are() {
    // Results of about 20,000 tokens each, in a window of 8,192.
    let act = |request: &Request, number: usize| {
        let is_result = format!("{:?}", request.messages.last()).contains("ToolResult");
        if is_result { Step::Answer(says("Read.")) } else { fetches(number..number + 1, 40_000) }
    };
    let scene = Scene::new(Setup::window(8_192), act).await;
    for turn in 0..6 {
        scene.talk(&format!("Question {turn}?")).await.ok();
    }
    let request = CompactRequest::default();
    let report = scene.agent.compact(&scene.prompt, &scene.stage.thread, request).await.unwrap();
    assert!(report.archive.is_some(), "{report:?}");
    let report = json!(report);
    assert!(number(&report, "tokens_before") <= 8_192, "{report:#}");
    let requests = scene.requests();
    scene.talk("And now?").await.ok();
    // The first request of that turn: its own call and result come later.
    check_sizes(&report, requests.last().unwrap(), &scene.requests()[requests.len()]);
}

#[tokio::test]
async fn usage_and_threshold_are_told_apart() {
    let act = |_: &_, number| match number {
        0..30 => fetches(number..number + 1, 1_000),
        _ => Step::Answer(says("Read.")),
    };
    let scene = Scene::new(Setup::window(8_192), act).await;
    let told = scene.talk("Fetch all pages.").await;
    told.ok();
    let usages: Vec<&Value> =
        told.compactions().into_iter().filter(|it| it["trigger"]["prompt_usage"].is_object()).collect();
    assert!(!usages.is_empty(), "{:#?}", told.compactions());
    for report in usages {
        let usage = &report["trigger"]["prompt_usage"];
        let (used, usable) = (number(usage, "used"), number(usage, "usable"));
        let (percent, threshold) = (number(usage, "percent"), number(usage, "threshold"));
        assert!([85, 92].contains(&threshold), "{report:#}");
        assert!(percent >= threshold, "{report:#}");
        assert!((used * 100 / usable).abs_diff(percent) <= 1, "{report:#}");
        assert_eq!(usable, 7_680, "{report:#}");
    }
}

fn reports_usage(_: &Request, _: usize) -> Step {
    let usage = Usage { input_tokens: 20_000, output_tokens: 10, ..Usage::default() };
    Step::Answer(Answer { usage, ..Answer::text("Fine.") })
}

#[tokio::test]
async fn the_window_of_an_unknown_model_is_assumed_and_said_to_be() {
    let setup = Setup { model: "test/unheard-of", window: None, ..Setup::window(0) };
    let scene = Scene::new(setup, reports_usage).await;
    let told = scene.talk("Hi.").await;
    told.ok();
    let [usage] = told.of_type("context_usage")[..] else { panic!("{:#?}", told.events) };
    assert_eq!(usage["window_assumed"], true, "{usage}");
    // What is kept free for the answer, and the margin of an estimate, may or may not count.
    let percent = usage["budget_used_pct"].as_f64().unwrap_or_else(|| panic!("{usage}"));
    assert!((9.9..=11.5).contains(&percent), "{usage}");
    let warnings = told.of_type("warning");
    let says_so = |it: &&&Value| it["message"].as_str().is_some_and(|it| it.contains("assumed"));
    assert_eq!(warnings.iter().filter(says_so).count(), 1, "{warnings:?}");
}

#[tokio::test]
async fn the_window_of_a_known_model_is_not() {
    let scene = Scene::new(Setup::window(32_768), reports_usage).await;
    let told = scene.talk("Hi.").await;
    told.ok();
    let [usage] = told.of_type("context_usage")[..] else { panic!("{:#?}", told.events) };
    assert_ne!(usage["window_assumed"], true, "{usage}");
    assert!(told.of_type("warning").is_empty(), "{:?}", told.of_type("warning"));
}

#[tokio::test]
async fn an_unknown_model_is_compacted_for_like_any_other() {
    let setup = Setup { model: "test/unheard-of", window: None, ..Setup::window(0) };
    let scene = Scene::new(setup, fine).await;
    scene.filled(40, 5_000).await;
    let told = scene.talk("And now?").await;
    told.ok();
    assert!(!told.compactions().is_empty());
    assert!(scene.requests().iter().all(|it| tokens(it) <= 200_000));
}

#[tokio::test]
async fn summaries_are_made_by_the_configured_model_within_its_window() {
    const SMALL: &str = "test/gpt-4o-mini";
    let compaction = configured(json!({"model": SMALL}));
    let others = vec![(SMALL.to_owned(), facts(4_096))];
    let setup = Setup { compaction, others, summaries: None, ..Setup::window(32_768) };
    let scene = Scene::new(setup, fine).await;
    scene.filled(40, 800).await;
    scene.talk("And now?").await.ok();
    let asked = scene.summary_requests();
    assert!(asked.len() >= 3, "longer input is summarised in parts: {}", asked.len());
    for request in asked {
        assert_eq!(request.model.as_deref(), Some(SMALL));
        let answer = request.settings.max_tokens.unwrap_or(0);
        assert!(tokens(&request) + answer <= 4_096, "{} + {answer}", tokens(&request));
    }
    assert!(scene.requests().iter().all(|it| it.model.as_deref() == Some(MODEL)));
}

#[tokio::test]
async fn a_rejected_summary_is_told_with_the_same_fields() {
    let scene =
        Scene::new(Setup { summaries: Some(Summaries::failing()), ..Setup::window(8_192) }, |_: &_, it| {
            Step::Answer(says(&words(&format!("answer {it}"), 300)))
        })
        .await;
    let mut reports = Vec::new();
    for turn in 0..40 {
        let told = scene.talk(&words(&format!("question {turn}"), 100)).await;
        told.ok();
        reports.extend(told.compactions().into_iter().cloned());
    }
    assert!(!reports.is_empty());
    for report in reports {
        for key in ["messages_before", "messages_after", "tokens_before", "tokens_after"] {
            number(&report, key);
        }
        assert!(number(&report, "tokens_before") <= 8_192 && report["accepted"] == false, "{report:#}");
        assert!(report["reason"].as_str().is_some_and(|it| !it.is_empty()), "{report:#}");
    }
}
