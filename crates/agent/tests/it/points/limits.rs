//! Points 2, 3, 6 and 7: summary requests fit, a refusal wedges nothing, reported usage counts, compactions are few.

use contexture_agent::{CompactRequest, CompactionConfig};
use contexture_message::{Answer, Message, Request, Usage};
use contexture_model::{ModelError, ModelErrorKind, Step};
use serde_json::Value;

use super::{MODEL, Scene, Setup, fetches, fine};
use crate::readable::tokens;
use crate::scene::{Summaries, too_long, words};
use crate::stage::says;
use crate::valid::assert_valid_everywhere;

const WINDOW: u32 = 8_192;

/// A summary request fits together with the answer that it allows.
fn assert_fits(request: &Request, window: u32) {
    let answer = request.settings.max_tokens.unwrap_or(0);
    let input = tokens(request);
    assert!(input + answer <= window, "a summary request of {input} tokens for {answer} more, of {window}");
    assert_valid_everywhere(request);
}

#[tokio::test]
async fn summary_requests_fit_the_window() {
    for (turns, size) in [(22, 300), (22, 360), (14, 560), (12, 1_000), (40, 400), (8, 3_000)] {
        let scene = Scene::new(Setup { summaries: None, ..Setup::window(WINDOW) }, fine).await;
        scene.filled(turns, size).await;
        scene.talk("And now?").await.ok();
        scene.agent.compact(&scene.prompt, &scene.stage.thread, CompactRequest::default()).await.unwrap();
        scene.talk("And then?").await.ok();
        assert!(!scene.summary_requests().is_empty(), "{turns} × {size}: no model was asked");
        scene.summary_requests().iter().for_each(|it| assert_fits(it, WINDOW));
    }
}

#[tokio::test]
async fn a_message_larger_than_the_window_is_summarised_in_parts() {
    for asked in [true, false] {
        let scene = Scene::new(Setup { summaries: None, ..Setup::window(WINDOW) }, fine).await;
        let said =
            vec![Message::user(words("everything", 3 * WINDOW as usize)), Message::assistant("I see.")];
        scene.stage.thread.add_messages(said).await.unwrap();
        scene.filled(3, 200).await;
        if asked {
            let request = CompactRequest::default();
            let report = scene.agent.compact(&scene.prompt, &scene.stage.thread, request).await.unwrap();
            assert!(report.archive.is_some(), "{report:?}");
            assert!(scene.summary_requests().len() >= 3, "{}", scene.summary_requests().len());
        }
        scene.talk("And now?").await.ok();
        scene.summary_requests().iter().for_each(|it| assert_fits(it, WINDOW));
    }
}

/// A provider with a smaller window than configured, and two large answers: returns which calls it refused.
async fn wedged(summaries: Option<Summaries>, numbers: bool) -> Vec<u32> {
    const REAL: u32 = WINDOW * 60 / 100;
    let act = move |request: &Request, _| {
        let n_tokens = tokens(request);
        if n_tokens > REAL {
            let message = format!("prompt is too long: {n_tokens} tokens > {REAL} maximum");
            let err = ModelError::new(ModelErrorKind::PromptTooLong, message);
            return Step::Fail(if numbers { err } else { too_long() });
        }
        let is_asked =
            |words: &str| matches!(&*request.messages, [.., last] if format!("{last:?}").contains(words));
        let text = match is_asked("Tell me all about it") {
            true => words(&format!("an answer to {n_tokens}"), 2_700),
            false => "Fine.".to_owned(),
        };
        let usage = Usage { input_tokens: n_tokens.into(), output_tokens: 10, ..Usage::default() };
        Step::Answer(Answer { usage, ..Answer::text(text) })
    };
    let scene = Scene::new(Setup { summaries, ..Setup::window(WINDOW) }, act).await;
    scene.talk("Tell me all about it, first part.").await.ok();
    scene.talk("Tell me all about it, second part.").await.ok();
    let mut failed = Vec::new();
    for turn in 2..80 {
        let told = scene.talk(&format!("Question {turn}?")).await;
        if let Err(err) = &told.outcome {
            failed.push((turn, err.code()));
        }
        assert!(told.compactions().len() <= 3, "{:#?}", told.compactions());
    }
    assert!(failed.is_empty(), "{} turns failed: {failed:?}", failed.len());
    scene.requests().iter().for_each(|it| assert_valid_everywhere(it));
    scene.model.requests().iter().map(|it| tokens(it)).filter(|it| *it > REAL).collect()
}

#[tokio::test]
async fn a_smaller_real_window_fails_no_turn() {
    let cases = [None, Some(Summaries::faithful()), Some(Summaries::failing())];
    for summaries in cases {
        let refused = wedged(summaries.clone(), true).await;
        assert!(refused.len() <= 1, "the refusal named the limit: {refused:?}");
        let refused = wedged(summaries, false).await;
        assert!(refused.len() <= 2, "{refused:?}");
        assert!(refused.windows(2).all(|it| it[1] < it[0]), "as large as one that was refused: {refused:?}");
    }
}

#[tokio::test]
async fn two_large_recent_answers_can_be_compacted_when_asked() {
    for summaries in [Summaries::faithful(), Summaries::failing()] {
        let scene = Scene::new(Setup { summaries: Some(summaries), ..Setup::window(WINDOW) }, fine).await;
        scene.filled(2, 2_400).await;
        let request = CompactRequest::default();
        let report = scene.agent.compact(&scene.prompt, &scene.stage.thread, request).await.unwrap();
        assert!(report.archive.is_some() && report.tokens_after < report.tokens_before, "{report:?}");
    }
}

#[tokio::test]
async fn usage_that_the_provider_reports_sets_a_compaction_off() {
    // The engine counts much less than the provider does.
    let act = |_: &_, number| {
        let usage = Usage { input_tokens: 7_600, output_tokens: 10, ..Usage::default() };
        match number {
            0..7 => match fetches(number..number + 1, 400) {
                Step::Answer(answer) => Step::Answer(Answer { usage, ..answer }),
                other => other,
            },
            _ => Step::Answer(Answer { usage, ..Answer::text("Read.") }),
        }
    };
    let scene = Scene::new(Setup::window(WINDOW), act).await;
    scene.filled(10, 400).await;
    let told = scene.talk("Fetch seven pages.").await;
    assert_eq!(told.ok().text(), "Read.");
    let percent = told.of_type("context_usage")[0]["budget_used_pct"].as_f64().unwrap();
    assert!((98.0..100.0).contains(&percent), "{percent}");
    let compactions = told.compactions();
    assert!((1..=3).contains(&compactions.len()), "{compactions:#?}");
    let usage = &compactions[0]["trigger"]["prompt_usage"];
    assert!(usage["used"].as_u64().is_some_and(|it| it >= 7_000), "{:#}", compactions[0]);
}

#[tokio::test]
async fn a_provider_that_counts_more_is_never_sent_too_much() {
    for factor in [1.3, 1.6, 2.0] {
        let act = move |request: &Request, number| {
            let n_tokens = (f64::from(tokens(request)) * factor) as u64;
            if n_tokens > u64::from(WINDOW) {
                return Step::Fail(too_long());
            }
            let usage = Usage { input_tokens: n_tokens, output_tokens: 10, ..Usage::default() };
            match number {
                0 => Step::Answer(Answer { usage, ..Answer::text("Hello.") }),
                1..40 => match fetches(number..number + 1, 900) {
                    Step::Answer(answer) => Step::Answer(Answer { usage, ..answer }),
                    other => other,
                },
                _ => Step::Answer(Answer { usage, ..Answer::text("Read.") }),
            }
        };
        let scene = Scene::new(Setup::window(WINDOW), act).await;
        scene.talk("Hi.").await.ok();
        let told = scene.talk("Fetch all pages.").await;
        assert_eq!(told.ok().text(), "Read.");
        let largest = scene.requests().iter().map(|it| tokens(it)).max().unwrap();
        let largest = f64::from(largest) * factor;
        assert!(largest <= f64::from(WINDOW), "{largest} with {factor}");
        for usage in told.of_type("context_usage") {
            assert!(usage["budget_used_pct"].as_f64().unwrap() <= 100.0, "{usage}");
        }
    }
}

/// One long turn; returns what was compacted.
async fn in_one_turn(most: u32, rounds: usize, chars: usize) -> Vec<Value> {
    let act = move |_: &_, number| {
        if number < rounds { fetches(number..number + 1, chars) } else { Step::Answer(says("Read.")) }
    };
    let compaction =
        CompactionConfig { max_reactive_compactions_per_request: most, ..CompactionConfig::default() };
    let summaries = Summaries::faithful();
    let setup = Setup { compaction, summaries: Some(summaries.clone()), ..Setup::window(WINDOW) };
    let scene = Scene::new(setup, act).await;
    let told = scene.talk("Fetch all pages.").await;
    assert_eq!(told.ok().text(), "Read.");
    // One of them may be made in two parts.
    let n_asked = summaries.calls().len();
    assert!(n_asked <= 2 * most as usize, "{n_asked} summaries were asked for");
    scene.requests().iter().for_each(|it| {
        assert_valid_everywhere(it);
        assert!(tokens(it) <= WINDOW - 512, "{}", tokens(it));
    });
    told.compactions().into_iter().cloned().collect()
}

#[tokio::test]
async fn compactions_are_counted_over_the_whole_turn() {
    for most in [1, 2, 3] {
        let made = in_one_turn(most, 40, 1_200).await;
        assert!(!made.is_empty() && made.len() <= most as usize, "{} of {most}: {made:#?}", made.len());
    }
}

/// A turn whose summary the provider refuses; returns the size of that request, and what is thought to fit from then on.
async fn refused_summary(turns: usize, size: usize, said: usize) -> (u32, u32) {
    const REAL: u32 = 5_000;
    let act = |request: &Request, _| match tokens(request) {
        0..=REAL => fine(request, 0),
        _ => Step::Fail(too_long()),
    };
    let scene = Scene::new(Setup { summaries: None, ..Setup::window(WINDOW) }, act).await;
    scene.filled(turns, size).await;
    scene.talk(&words("And now?", said)).await.ok();
    let asked = scene.summary_requests();
    let refused = asked.iter().map(|it| tokens(it)).find(|it| *it > REAL).expect("one was refused");
    let known = scene.stage.thread.get();
    let most = known.note("contexture.window").unwrap()[MODEL]["most"].as_u64().unwrap();
    (refused, u32::try_from(most).unwrap())
}

#[tokio::test]
async fn a_refused_request_for_a_summary_counts_with_its_own_size() {
    // At the start of a turn; and in a request that does not fit, of which only the prompt is resolved.
    for (turns, size, said) in [(20, 800, 10), (9, 950, 9_000)] {
        let (refused, most) = refused_summary(turns, size, said).await;
        // Nothing was answered before, so half of it is thought to fit.
        assert!(most.abs_diff(refused / 2) <= refused / 50, "{most} of {refused}");
    }
}
