//! Conversations longer than the window of turns: it never slides silently.

use std::sync::Arc;

use contexture_agent::{Agent, AgentConfig, CompactionConfig, Outcome, RunRequest};
use contexture_compose::Prompt;
use contexture_history::compaction::Trigger;
use contexture_model::Step;
use contexture_session::State;

use crate::bytes::{changed_messages, changed_system};
use crate::scene::{Acting, Passes, Summaries, words};
use crate::stage::{Counting, Stage, TestTime, says};
use crate::valid::assert_valid_everywhere;
use crate::whole::assert_whole;

struct Scene {
    stage: Stage,
    model: Acting,
    agent: Agent,
    prompt: Prompt,
    passes: Passes,
}

async fn scene(config: CompactionConfig, summaries: Summaries) -> Scene {
    let stage = Stage::new().await;
    let model = Acting::new(&stage.thread, |_, number| Step::Answer(says(&format!("Answer {number}."))));
    let passes = Passes::default();
    let prompt = Prompt::builder("p").model("test/model").system("Be brief.");
    let prompt = passes.watch(prompt).build().unwrap();
    let agent = Agent::builder(model.clone(), Arc::new(TestTime), Counting::default())
        .config(AgentConfig { compaction: config, ..AgentConfig::default() })
        .summarizer(summaries)
        .build()
        .unwrap();
    Scene { stage, model, agent, prompt, passes }
}

impl Scene {
    /// Has turns, every tenth of them in a new process.
    async fn talk(&self, turns: usize) -> Vec<Outcome> {
        let mut outcomes = Vec::new();
        let mut thread = self.stage.thread.clone();
        for turn in 0..turns {
            if turn % 10 == 9 {
                thread = self.stage.elsewhere().await;
            }
            let text = format!("Question {turn}. {}", words(&format!("turn {turn}"), 30));
            let run = self.agent.run(&self.prompt, &thread, RunRequest::user(text));
            outcomes.push(run.outcome().await.unwrap());
        }
        outcomes
    }

    fn check(&self) {
        for call in self.model.calls() {
            assert_valid_everywhere(&call.request);
            assert_whole(&self.passes.of(&call.request), &call.log);
        }
    }
}

#[tokio::test]
async fn a_full_window_is_compacted_and_the_bytes_stay_in_between() {
    for summaries in [Summaries::faithful(), Summaries::failing()] {
        let scene = scene(CompactionConfig::default(), summaries).await;
        let outcomes = scene.talk(110).await;
        let reports: Vec<_> = outcomes.iter().flat_map(|it| &it.compactions).collect();
        let is_by_turns = |trigger: Trigger| matches!(trigger, Trigger::HistoryTurns { window: 50, .. });
        assert!(!reports.is_empty() && reports.iter().all(|it| is_by_turns(it.trigger)), "{reports:?}");
        assert!(reports.len() <= 4, "it is done seldom: {}", reports.len());
        scene.check();
        for pair in scene.model.calls().windows(2) {
            let (was, is) = (State::replay(&pair[0].log), State::replay(&pair[1].log));
            if was.archives == is.archives {
                assert_eq!(changed_messages(&pair[0].request, &pair[1].request), None);
                assert_eq!(changed_system(&pair[0].request, &pair[1].request), None);
            }
            let why = scene.passes.of(&pair[1].request).explain();
            assert!(
                why.excluded.iter().all(|it| !it.reason.contains("history_window")),
                "{:?}",
                why.excluded
            );
        }
    }
}

#[tokio::test]
async fn without_compaction_what_is_outside_of_the_window_is_listed() {
    let config = CompactionConfig { enabled: false, ..CompactionConfig::default() };
    let scene = scene(config, Summaries::faithful()).await;
    let outcomes = scene.talk(60).await;
    assert!(outcomes.iter().all(|it| it.compactions.is_empty()));
    scene.check();
    let last = scene.passes.of(&scene.model.requests()[59]).explain();
    let listed: Vec<String> =
        last.excluded.iter().map(|it| format!("{}: {}", it.source, it.reason)).collect();
    assert_eq!(listed, ["history:..t9: older than the newest 50 turns (history_window)"]);
}
