//! Points 1 and 4: results that the model has not read stay readable, and a compaction makes no turn fail.

use contexture_message::ToolOutput;
use contexture_model::Step;
use serde_json::{Value, json};

use super::{Scene, Setup, fetched, fetches, fetches_like};
use crate::readable::{Shown, is_offered, page, says as request_says, shown, tokens};
use crate::scene::{Summaries, words};
use crate::stage::{calls, says};
use crate::valid::assert_valid_everywhere;

fn whole(n: usize, chars: usize) -> ToolOutput {
    whole_like(n, chars, false)
}

fn whole_like(n: usize, chars: usize, dense: bool) -> ToolOutput {
    ToolOutput::Text(fetched(&json!({"n": n, "chars": chars, "dense": dense})))
}

/// One round of parallel calls in the first turn; returns how the next request shows each result.
async fn first_round(window: u32, n: usize, chars: usize, dense: bool) -> Vec<Shown> {
    let act = move |_: &_, number| match number {
        0 => fetches_like(0..n, chars, dense),
        _ => Step::Answer(says("Read.")),
    };
    let scene = Scene::new(Setup::window(window), act).await;
    let told = scene.talk("Fetch all pages.").await;
    assert_eq!(told.ok().text(), "Read.");
    let request = scene.requests()[1].clone();
    assert_valid_everywhere(&request);
    assert!(tokens(&request) <= window - 512, "{}", tokens(&request));
    assert!(!request_says(&request, "in excerpts"), "unread results were summarised");
    assert!(scene.stage.thread.archives().await.unwrap().is_empty(), "{:?}", told.compactions());
    (0..n).map(|it| shown(&request, &format!("c{it}"), &whole_like(it, chars, dense)).unwrap()).collect()
}

#[tokio::test]
async fn eight_parallel_results_of_9_000_characters_are_readable_at_32k() {
    for dense in [false, true] {
        let shown = first_round(32_768, 8, 9_000, dense).await;
        // Those that do not fit become previews, one after the other, until the rest does.
        assert!(shown.contains(&Shown::Whole), "{shown:?}");
    }
}

#[tokio::test]
async fn four_parallel_results_of_4_000_characters_are_readable_at_8k() {
    for dense in [false, true] {
        first_round(8_192, 4, 4_000, dense).await;
    }
    assert!(first_round(8_192, 4, 4_000, false).await.contains(&Shown::Whole));
}

#[tokio::test]
async fn results_that_fit_are_whole() {
    assert_eq!(first_round(32_768, 8, 2_000, false).await, [Shown::Whole; 8]);
    assert_eq!(first_round(8_192, 4, 1_500, false).await, [Shown::Whole; 4]);
    assert_eq!(first_round(4_096, 3, 900, false).await, [Shown::Whole; 3]);
}

#[tokio::test]
async fn a_result_of_9_000_characters_is_a_preview_at_4k() {
    assert_eq!(first_round(4_096, 1, 9_000, false).await, [Shown::Preview]);
}

#[tokio::test]
async fn eight_results_of_40_000_characters_are_readable_in_every_window() {
    for window in [4_096, 8_192, 32_768] {
        first_round(window, 8, 40_000, false).await;
    }
}

#[tokio::test]
async fn a_recent_result_takes_at_most_a_quarter_of_the_window() {
    for (window, chars) in [(4_096, 3_000), (8_192, 6_000), (32_768, 24_000)] {
        // A third of the window, more or less.
        let tokens = contexture_message::TokenCounter::count(
            &contexture_message::Encoding::O200kBase,
            &fetched(&json!({"n": 0, "chars": chars})),
        );
        assert!(tokens.0 > window / 4 && tokens.0 < window / 2, "{tokens} of {window}");
        assert_eq!(first_round(window, 1, chars, false).await, [Shown::Preview], "{window}");
    }
}

#[tokio::test]
async fn the_model_reads_a_large_result_piece_by_piece_at_4k() {
    const CHARS: usize = 9_000;
    const PIECE: usize = 1_500;
    let act = |_: &_, number: usize| match number {
        0 => fetches(0..1, CHARS),
        it if it <= CHARS / PIECE => {
            let arguments: Value = json!({"handle": "c0", "offset": (it - 1) * PIECE, "limit": PIECE});
            Step::Answer(calls([(&format!("r{it}"), "read_tool_result", arguments)]))
        }
        _ => Step::Answer(says("Read.")),
    };
    let scene = Scene::new(Setup::window(4_096), act).await;
    let told = scene.talk("Read page 0.").await;
    assert_eq!(told.ok().text(), "Read.");
    let requests = scene.requests();
    assert!(requests.iter().skip(1).all(|it| is_offered(it)));
    let text = page("page 0", CHARS);
    for piece in 0..CHARS / PIECE {
        // The beginning of the range; fewer characters may come back than were asked for.
        let expected = &text[piece * PIECE..][..200];
        let request = serde_json::to_string(&requests[piece + 2].messages).unwrap();
        let expected = serde_json::to_string(expected).unwrap();
        assert!(request.contains(expected.trim_matches('"')), "piece {piece} was never shown");
        assert_valid_everywhere(&requests[piece + 2]);
    }
}

#[tokio::test]
async fn results_age_one_by_one_over_several_rounds() {
    for (window, n, chars) in [(4_096, 3, 1_800), (8_192, 4, 3_000), (32_768, 8, 7_000)] {
        let act = move |_: &_, number| match number {
            0..6 => fetches(number * n..(number + 1) * n, chars),
            _ => Step::Answer(says("Read.")),
        };
        let scene = Scene::new(Setup::window(window), act).await;
        let told = scene.talk("Fetch all pages.").await;
        assert_eq!(told.ok().text(), "Read.");
        assert!(told.compactions().len() <= 3, "{:#?}", told.compactions());
        for (round, request) in scene.requests().iter().skip(1).enumerate() {
            for it in round * n..(round + 1) * n {
                let result = shown(request, &format!("c{it}"), &whole(it, chars));
                assert!(result.is_ok(), "{window}, round {round}: {result:?}");
            }
            assert_valid_everywhere(request);
        }
    }
}

/// Twelve ordinary turns, then two results of 5,500 characters, in one round or in two.
#[derive(Clone, Copy, Debug)]
struct Case {
    question: usize,
    answer: usize,
    dense: bool,
    parallel: bool,
}

async fn after_twelve_turns(summaries: Summaries, case: Case) {
    let fetches = move |pages| fetches_like(pages, 5_500, case.dense);
    let act = move |_: &_, number| match (number, case.parallel) {
        (0..12, _) => Step::Answer(says(&words(&format!("answer {number}"), case.answer))),
        (12, true) => fetches(0..2),
        (12, false) => fetches(0..1),
        (13, false) => fetches(1..2),
        _ => Step::Answer(says("Read.")),
    };
    let scene = Scene::new(Setup { summaries: Some(summaries), ..Setup::window(8_192) }, act).await;
    for turn in 0..12 {
        scene.talk(&words(&format!("question {turn}"), case.question)).await.ok();
    }
    let told = scene.talk("Fetch both pages.").await;
    assert!(told.outcome.is_ok(), "{case:?}: {:?}", told.outcome.as_ref().err());
    let requests = scene.requests();
    let (first, second) = if case.parallel { (13, 13) } else { (13, 14) };
    for (request, n) in [(first, 0), (second, 1)] {
        let whole = whole_like(n, 5_500, case.dense);
        let result = shown(&requests[request], &format!("c{n}"), &whole);
        assert!(result.is_ok(), "{case:?}: {result:?}");
    }
    scene.talk("And now?").await.ok();
    scene.requests().iter().for_each(|it| assert_valid_everywhere(it));
}

#[tokio::test]
async fn a_rejected_summary_makes_no_turn_fail() {
    let empty = || Summaries::of(|_| async { Ok(String::new()) });
    let long = || Summaries::of(|_| async { Ok(words("too much", 9_000)) });
    for (question, answer) in [(30, 30), (100, 200), (150, 300), (250, 250), (400, 100)] {
        for (dense, parallel) in [(false, true), (true, true), (false, false), (true, false)] {
            let case = Case { question, answer, dense, parallel };
            after_twelve_turns(Summaries::failing(), case).await;
            after_twelve_turns(empty(), case).await;
            after_twelve_turns(long(), case).await;
            after_twelve_turns(Summaries::faithful(), case).await;
        }
    }
}
