//! Point 8: nothing is summarised that no prompt would show.

use contexture_agent::RunRequest;
use contexture_compose::{HistoryConfig, Prompt};
use contexture_history::Limit;
use contexture_message::Tokens;

use super::{MODEL, Scene, Setup, fine};
use crate::scene::{Summaries, words};

/// Eighty turns with a prompt that takes so much of the history.
async fn eighty_turns(limit: Limit) {
    let summaries = Summaries::faithful();
    let history = Some(HistoryConfig { limit: Some(limit) });
    let setup = Setup { summaries: Some(summaries.clone()), history, ..Setup::window(8_192) };
    let scene = Scene::new(setup, fine).await;
    for turn in 0..80 {
        let told = scene.talk(&words(&format!("turn {turn}"), 60)).await;
        told.ok();
        assert!(told.compactions().is_empty(), "turn {turn}: {:#?}", told.compactions());
    }
    assert_eq!(summaries.calls().len(), 0, "summaries that no one reads");
    assert!(scene.stage.thread.archives().await.unwrap().is_empty());
    for request in scene.requests() {
        assert!(request.tools.iter().all(|it| it.name != "recall"), "`recall` is offered");
    }
}

#[tokio::test]
async fn a_prompt_that_shows_eight_turns_pays_for_no_summary() {
    eighty_turns(Limit::Turns(8)).await;
}

#[tokio::test]
async fn nor_does_one_that_shows_none_or_few_tokens() {
    eighty_turns(Limit::Turns(0)).await;
    eighty_turns(Limit::Tokens(Tokens(800))).await;
}

#[tokio::test]
async fn the_same_thread_is_summarised_for_a_prompt_that_shows_all_of_it() {
    let summaries = Summaries::faithful();
    let history = Some(HistoryConfig { limit: Some(Limit::Turns(8)) });
    let setup = Setup { summaries: Some(summaries.clone()), history, ..Setup::window(8_192) };
    let scene = Scene::new(setup, fine).await;
    for turn in 0..40 {
        scene.talk(&words(&format!("turn {turn}"), 250)).await.ok();
    }
    assert_eq!(summaries.calls().len(), 0);
    let all = scene.passes.watch(Prompt::builder("all").model(MODEL).system("Be brief.")).build().unwrap();
    let run = scene.agent.run(&all, &scene.stage.thread, RunRequest::user("What was said?"));
    let outcome = run.outcome().await.unwrap();
    assert!(!outcome.compactions.is_empty() && !summaries.calls().is_empty());
}
