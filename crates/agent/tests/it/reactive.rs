//! Room is made while a turn runs: before a call that would fill the window, and after one that was too long.

use std::time::Duration;

use contexture_agent::{Agent, AgentConfig, CompactionConfig, CompactionReport, Made, Outcome, Tool};
use contexture_agent::{CancellationToken, Decision, RunRequest, Verdict};
use contexture_compose::Prompt;
use contexture_history::compaction::{Strategy, Trigger};
use contexture_message::{Answer, Message, Part, Request, ToolCall, ToolDefinition, Usage};
use contexture_model::Step;
use serde_json::json;
use std::sync::Arc;

use crate::scene::{Acting, Passes, Summaries, small_window, too_long, words};
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

/// A tool whose results have about so many tokens.
fn reads(tokens: usize) -> Tool {
    Tool::new(ToolDefinition::new("read", "Reads."), move |it| async move {
        Ok(words(&format!("page {}", it.call.arguments["n"]), tokens).into())
    })
    .unwrap()
}

fn reading(number: usize) -> Step {
    let call =
        ToolCall { id: format!("c{number}"), name: "read".to_owned(), arguments: json!({"n": number}) };
    Step::Answer(Answer { usage: Usage::default(), ..Answer::parts(vec![Part::ToolCall(call)]) })
}

async fn scene(
    window: u32,
    config: CompactionConfig,
    result_tokens: usize,
    act: impl Fn(&Request, usize) -> Step + Send + Sync + 'static,
) -> Scene {
    let stage = Stage::new().await;
    let model = Acting::new(&stage.thread, act);
    let passes = Passes::default();
    let prompt = Prompt::builder("p").model("test/model").system("Be brief.");
    let prompt = passes.watch(prompt).build().unwrap();
    let config = AgentConfig { compaction: config, max_steps: 200, ..AgentConfig::default() };
    let agent = Agent::builder(model.clone(), Arc::new(TestTime), Counting::default())
        .config(config)
        .catalogue(small_window(window))
        .summarizer(Summaries::faithful())
        .tool(reads(result_tokens))
        .tool(reads_after_approval())
        .build()
        .unwrap();
    Scene { stage, model, agent, prompt, passes }
}

fn reads_after_approval() -> Tool {
    Tool::new(ToolDefinition::new("risky", "Reads."), |_| async { Ok("done".into()) })
        .unwrap()
        .needs_approval()
}

impl Scene {
    async fn say(&self, text: &str) -> Outcome {
        self.agent.run(&self.prompt, &self.stage.thread, RunRequest::user(text)).outcome().await.unwrap()
    }

    /// Turns that were before, each with a question and an answer of about so many tokens together.
    async fn filled(&self, turns: usize, tokens: usize) {
        for turn in 0..turns {
            let question = Message::user(words(&format!("question {turn}"), tokens / 2));
            let answer = Message::assistant(words(&format!("answer {turn}"), tokens / 2));
            self.stage.thread.add_messages(vec![question, answer]).await.unwrap();
        }
    }

    /// Every request is valid, says why it looks like that, and holds the user's newest words.
    fn check(&self, prompt: &str) {
        for call in self.model.calls() {
            assert_valid_everywhere(&call.request);
            assert_whole(&self.passes.of(&call.request), &call.log);
            let texts = call.request.messages.iter().flat_map(|it| &it.content);
            assert!(texts.into_iter().any(|it| matches!(it, Part::Text { text, .. } if text == prompt)));
        }
    }
}

fn strategies(reports: &[CompactionReport]) -> Vec<Strategy> {
    reports.iter().map(|it| it.strategy).collect()
}

#[tokio::test]
async fn a_prompt_that_is_too_long_is_compacted_and_sent_again() {
    let act = |_: &Request, number| match number {
        0 => Step::Fail(too_long()),
        _ => Step::Answer(says("Fine.")),
    };
    let scene = scene(100_000, CompactionConfig::default(), 20, act).await;
    scene.filled(8, 400).await;
    let outcome = scene.say("And now?").await;
    assert_eq!((outcome.text().as_str(), outcome.steps), ("Fine.", 1));
    let [report] = outcome.compactions.as_slice() else { panic!("{:?}", outcome.compactions) };
    assert_eq!((report.strategy, report.trigger), (Strategy::ReactiveFull, Trigger::PromptTooLong));
    assert_eq!((report.archive.as_deref(), report.made, report.accepted), (Some("a1"), Made::Summary, true));
    assert!(report.tokens_after < report.tokens_before && report.messages_after < report.messages_before);
    let requests = scene.model.requests();
    assert!(requests[1].messages.len() < requests[0].messages.len());
    scene.check("And now?");
}

#[tokio::test]
async fn a_prompt_that_stays_too_long_ends_with_the_error() {
    let scene = scene(100_000, CompactionConfig::default(), 20, |_, _| Step::Fail(too_long())).await;
    scene.filled(30, 400).await;
    let run = scene.agent.run(&scene.prompt, &scene.stage.thread, RunRequest::user("And now?"));
    assert_eq!(run.outcome().await.unwrap_err().code(), "prompt_too_long");
    // At most three compactions, so at most four calls.
    let n_calls = scene.model.calls().len();
    assert!((2..=4).contains(&n_calls), "{n_calls}");
    scene.check("And now?");
    // The next turn has nothing left to summarise: one call, one error.
    let run = scene.agent.run(&scene.prompt, &scene.stage.thread, RunRequest::user("Again?"));
    assert_eq!(run.outcome().await.unwrap_err().code(), "prompt_too_long");
    assert!(scene.model.calls().len() <= n_calls + 2);
}

#[tokio::test]
async fn what_can_not_be_summarised_is_shown_shorter() {
    // Two rounds with two large results each: they are the newest ones, so both stay.
    let reads = |numbers: [usize; 2]| {
        let call =
            |it: usize| ToolCall { id: format!("c{it}"), name: "read".into(), arguments: json!({"n": it}) };
        Step::Answer(Answer::parts(numbers.map(|it| Part::ToolCall(call(it))).into()))
    };
    let act = move |_: &Request, number| match number {
        0 => reads([0, 1]),
        1 => reads([2, 3]),
        2 => Step::Fail(too_long()),
        _ => Step::Answer(says("Fine.")),
    };
    // Nothing grows old because it pays.
    let config = CompactionConfig { expected_calls: 1, ..CompactionConfig::default() };
    let scene = scene(100_000, config, 3_000, act).await;
    let outcome = scene.say("Read.").await;
    assert_eq!(outcome.text(), "Fine.");
    let why = outcome.passes.last().unwrap().explain();
    // Half of what was refused: the largest are previews, each with its handle.
    assert_eq!(why.shortened_results.len(), 3);
    assert!(why.cache.edits.iter().any(|it| it.chosen), "{:?}", why.cache.edits);
    scene.check("Read.");
}

#[tokio::test]
async fn without_compaction_nothing_is_summarised_and_older_turns_are_left_out() {
    let config = CompactionConfig { enabled: false, ..CompactionConfig::default() };
    let act = |_: &Request, number| match number {
        0 => Step::Fail(too_long()),
        _ => Step::Answer(says("Fine.")),
    };
    let scene = scene(100_000, config, 20, act).await;
    scene.filled(8, 400).await;
    let outcome = scene.say("And now?").await;
    assert_eq!((outcome.text().as_str(), outcome.compactions.len()), ("Fine.", 0));
    let requests = scene.model.requests();
    assert!(requests[1].messages.len() < requests[0].messages.len());
    scene.check("And now?");
}

#[tokio::test]
async fn some_rounds_are_summarised_from_85_percent_and_all_from_92_percent_on() {
    // 9,000 tokens can be used. Results of 500 tokens: the window fills in small steps.
    let act = |_: &Request, number| if number < 16 { reading(number) } else { Step::Answer(says("Read.")) };
    let scene = scene(10_000, CompactionConfig::default(), 500, act).await;
    let outcome = scene.say("Read all pages.").await;
    assert_eq!(outcome.text(), "Read.");
    let strategies = strategies(&outcome.compactions);
    assert_eq!(strategies.first(), Some(&Strategy::ReactiveMicro), "{strategies:?}");
    for pass in &outcome.passes {
        assert!(pass.total_tokens().0 < 9_000 * 92 / 100, "{}", pass.total_tokens());
    }
    scene.check("Read all pages.");
}

#[tokio::test]
async fn nothing_is_compacted_below_85_percent_or_after_the_last_step() {
    let act = |_: &Request, number| {
        if number < 3 { reading(number) } else { Step::Answer(says(&words("the end", 9_000))) }
    };
    let scene = scene(10_000, CompactionConfig::default(), 500, act).await;
    let outcome = scene.say("Read some pages.").await;
    assert_eq!((outcome.steps, outcome.compactions.len()), (4, 0));
}

#[tokio::test]
async fn a_very_long_loop_of_tools_runs_through_a_small_window() {
    for result_tokens in [100, 400, 1_400] {
        let act =
            |_: &Request, number| if number < 100 { reading(number) } else { Step::Answer(says("Read.")) };
        let scene = scene(8_000, CompactionConfig::default(), result_tokens, act).await;
        let outcome = scene.say("Read all pages.").await;
        assert_eq!((outcome.text().as_str(), outcome.steps), ("Read.", 101), "{result_tokens}");
        for pass in &outcome.passes {
            assert!(pass.total_tokens().0 <= 7_200, "{}", pass.total_tokens());
        }
        scene.check("Read all pages.");
    }
}

#[tokio::test]
async fn results_that_jump_over_the_window_are_made_room_for() {
    // Each round is a third of the window: there is no call between 85 and 100 percent.
    let act = |_: &Request, number| if number < 12 { reading(number) } else { Step::Answer(says("Read.")) };
    let scene = scene(6_000, CompactionConfig::default(), 1_450, act).await;
    let outcome = scene.say("Read all pages.").await;
    assert_eq!((outcome.text().as_str(), outcome.steps), ("Read.", 13));
    scene.check("Read all pages.");
}

#[tokio::test]
async fn a_large_newest_turn_does_not_block_the_thread() {
    let scene = scene(6_000, CompactionConfig::default(), 20, |_, _| Step::Answer(says("Fine."))).await;
    scene.filled(1, 5_500).await;
    let outcome = scene.say("And now?").await;
    assert_eq!(outcome.text(), "Fine.");
    scene.check("And now?");
}

#[tokio::test]
async fn a_turn_that_waits_for_approval_can_be_compacted_around() {
    let act = |_: &Request, number| match number {
        0 => {
            let call = ToolCall { id: "r".to_owned(), name: "risky".to_owned(), arguments: json!({}) };
            Step::Answer(Answer::parts(vec![Part::ToolCall(call)]))
        }
        _ => Step::Answer(says("Done.")),
    };
    let scene = scene(100_000, CompactionConfig::default(), 20, act).await;
    scene.filled(8, 400).await;
    let waiting = scene.say("Do it.").await;
    let request = contexture_agent::CompactRequest::default();
    let report = scene.agent.compact(&scene.prompt, &scene.stage.thread, request).await.unwrap();
    assert_eq!(report.archive.as_deref(), Some("a1"), "{report:?}");
    let approval = &waiting.approvals[0];
    let (approval, token) = (approval.id.clone(), approval.token.clone());
    let decision = Decision { approval, token, verdict: Verdict::Approve };
    let run = scene.agent.decide(&scene.prompt, &scene.stage.thread, decision, CancellationToken::new());
    assert_eq!(run.outcome().await.unwrap().text(), "Done.");
    scene.check("Do it.");
}

#[tokio::test(start_paused = true)]
async fn a_refresh_does_not_disturb_a_turn_that_waits() {
    let act = |_: &Request, number| match number {
        0 => {
            let call = ToolCall { id: "r".to_owned(), name: "risky".to_owned(), arguments: json!({}) };
            Step::Answer(Answer::parts(vec![Part::ToolCall(call)]))
        }
        _ => Step::Answer(says("Done.")),
    };
    let scene = scene(100_000, CompactionConfig::default(), 20, act).await;
    let waiting = scene.say("Do it.").await;
    scene.agent.refresh(&scene.stage.thread).await.unwrap();
    tokio::time::advance(Duration::from_secs(3_600)).await;
    let approval = &waiting.approvals[0];
    let (approval, token) = (approval.id.clone(), approval.token.clone());
    let decision = Decision { approval, token, verdict: Verdict::Approve };
    let run = scene.agent.decide(&scene.prompt, &scene.stage.thread, decision, CancellationToken::new());
    assert_eq!(run.outcome().await.unwrap().text(), "Done.");
}
