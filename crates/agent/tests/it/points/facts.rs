//! Point 5: standing instructions are there verbatim after any number of compactions.

use contexture_agent::{CompactRequest, Made};
use contexture_model::Step;
use serde_json::{Value, json};

use super::{INSTRUCTIONS, Scene, Setup, fine};
use crate::readable::says as request_says;
use crate::scene::{Summaries, words};
use crate::stage::says;

impl Scene {
    /// Says all eight in three turns, among other words.
    async fn instructed(&self) {
        for (turn, some) in INSTRUCTIONS.chunks(3).enumerate() {
            let text = format!("{} What is in file {turn}?", some.join(" "));
            self.talk(&text).await.ok();
        }
    }

    /// The instructions that the newest request lacks.
    fn lacks(&self) -> Vec<&'static str> {
        let request = self.requests().pop().unwrap();
        INSTRUCTIONS.into_iter().filter(|it| !request_says(&request, it)).collect()
    }
}

/// Compacts four times with turns in between; returns the reports.
async fn eroded(summaries: Option<Summaries>, window: u32) -> Vec<(bool, Made)> {
    let act = |_: &_, number| Step::Answer(says(&words(&format!("answer {number}"), 150)));
    let scene = Scene::new(Setup { summaries, ..Setup::window(window) }, act).await;
    scene.instructed().await;
    let mut reports = Vec::new();
    for round in 0..4 {
        for turn in 0..4 {
            let text = words(&format!("question {turn} of round {round}"), 100);
            scene.talk(&text).await.ok();
        }
        let request = CompactRequest::default();
        let report = scene.agent.compact(&scene.prompt, &scene.stage.thread, request).await.unwrap();
        // In a small window most of it may be summarised already.
        assert!(report.archive.is_some() || window < 32_768, "{report:?}");
        reports.push((report.accepted, report.made));
        scene.talk("And now?").await.ok();
        assert_eq!(scene.lacks(), [""; 0], "lost after {} compactions", round + 1);
    }
    let archives = scene.stage.thread.archives().await.unwrap();
    let records = archives.iter().filter(|it| it.holds).map(|it| json!(it.summary)["facts"].clone());
    let facts: Vec<Value> = records.flat_map(|it| it.as_array().cloned().unwrap_or_default()).collect();
    for instruction in INSTRUCTIONS {
        let is_record = facts.iter().any(|it| it.to_string().contains(instruction));
        assert!(is_record, "{instruction} is no record: {facts:?}");
    }
    reports
}

#[tokio::test]
async fn a_summariser_that_copies_every_fact_loses_none() {
    assert_eq!(eroded(Some(Summaries::faithful()), 32_768).await, [(true, Made::Summary); 4]);
}

#[tokio::test]
async fn a_summary_that_lacks_facts_is_taken_and_the_facts_are_added() {
    let forgetful = Summaries::of(|_| async { Ok("The user asked about files and got answers.".to_owned()) });
    assert_eq!(eroded(Some(forgetful), 32_768).await, [(true, Made::Summary); 4]);
}

#[tokio::test]
async fn excerpts_keep_every_fact_too() {
    assert_eq!(eroded(Some(Summaries::failing()), 32_768).await, [(false, Made::Extract); 4]);
}

#[tokio::test]
async fn no_window_is_too_small_for_eight_instructions() {
    for window in [4_096, 8_192] {
        eroded(Some(Summaries::faithful()), window).await;
        eroded(Some(Summaries::failing()), window).await;
        eroded(None, window).await;
    }
}

#[tokio::test]
async fn what_is_said_later_is_kept_as_well() {
    let scene = Scene::new(Setup::window(8_192), fine).await;
    scene.instructed().await;
    let later =
        ["Answer in complete sentences only.", "Never delete files in src/main.", "I prefer short answers."];
    for text in later {
        scene.filled(10, 400).await;
        scene.talk(text).await.ok();
        scene.filled(10, 400).await;
        scene.agent.compact(&scene.prompt, &scene.stage.thread, CompactRequest::default()).await.unwrap();
    }
    scene.talk("And now?").await.ok();
    assert_eq!(scene.lacks(), [""; 0]);
    let request = scene.requests().pop().unwrap();
    for text in later {
        assert!(request_says(&request, text), "{text}");
    }
}

#[tokio::test]
async fn facts_that_are_left_out_with_their_turns_are_still_there() {
    // Excerpts are no help here: everything before is windowed out, and the facts stay.
    let long = Summaries::of(|_| async { Ok(words("far too much", 20_000)) });
    let scene = Scene::new(Setup { summaries: Some(long), ..Setup::window(4_096) }, fine).await;
    scene.instructed().await;
    for turn in 0..12 {
        scene.talk(&words(&format!("long question {turn}"), 2_500)).await.ok();
        assert_eq!(scene.lacks(), [""; 0], "turn {turn}");
    }
}
