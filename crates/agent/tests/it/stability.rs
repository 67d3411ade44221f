//! The bytes that were sent stay as they are: for any conversation, in every dialect, until a compaction, an ageing that the
//! Explanation names, or a refresh. And nothing of the thread is silently missing from any request.

use std::collections::VecDeque;
use std::mem;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use contexture_agent::{
    Agent, AgentConfig, ApprovalRequest, CancellationToken, CompactRequest, CompactionConfig, Decision,
    RunRequest, RunSpec, Tool, Verdict,
};
use contexture_compose::{Block, InlineBlock, Prompt};
use contexture_message::{Delta, Part, ToolCall, ToolDefinition};
use contexture_model::{ModelError, ModelErrorKind, Step};
use contexture_session::{NewItem, State, Thread};
use futures::StreamExt;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::bytes::{changed_messages, changed_system, lost_tools};
use crate::scene::{Acting, Called, Passes, Summaries, hangs, small_window, words};
use crate::stage::{Counting, Stage, TestTime, says};
use crate::valid::assert_valid_everywhere;
use crate::whole::assert_whole;

#[derive(Clone, Debug)]
enum Act {
    Turn {
        rounds: Vec<Vec<Kind>>,
        end: End,
        inline: bool,
        reminder: bool,
    },
    /// Decides about what waits, if anything does.
    Decide {
        approve: bool,
    },
    Event,
    /// Goes on in a new process.
    Elsewhere,
    /// Goes on in the process before, which has not looked since.
    Back,
    Pause,
    LongPause,
    Refresh,
    Compact,
    Undo,
    Model,
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    Small,
    Large,
    Huge,
    Fails,
    Risky,
}

#[derive(Clone, Copy, Debug)]
enum End {
    Answers,
    Fails,
    /// It breaks off after some words.
    Cut,
    /// Somebody cancels it while it speaks.
    Cancelled,
}

#[derive(Clone, Debug)]
struct Plot {
    acts: Vec<Act>,
    window: Option<u32>,
    hidden_turns: Option<usize>,
    summaries: bool,
}

fn kinds() -> impl Strategy<Value = Kind> {
    prop_oneof![
        4 => Just(Kind::Small),
        3 => Just(Kind::Large),
        1 => Just(Kind::Huge),
        1 => Just(Kind::Fails),
        1 => Just(Kind::Risky),
    ]
}

fn acts() -> impl Strategy<Value = Act> {
    let end = prop_oneof![
        6 => Just(End::Answers),
        1 => Just(End::Fails),
        1 => Just(End::Cut),
        1 => Just(End::Cancelled),
    ];
    let rounds = prop::collection::vec(prop::collection::vec(kinds(), 1..3), 0..4);
    let turn = (rounds, end, any::<bool>(), any::<bool>())
        .prop_map(|(rounds, end, inline, reminder)| Act::Turn { rounds, end, inline, reminder });
    prop_oneof![
        12 => turn,
        2 => any::<bool>().prop_map(|approve| Act::Decide { approve }),
        2 => Just(Act::Event),
        2 => Just(Act::Elsewhere),
        2 => Just(Act::Back),
        1 => Just(Act::Pause),
        1 => Just(Act::LongPause),
        1 => Just(Act::Refresh),
        1 => Just(Act::Compact),
        1 => Just(Act::Undo),
        1 => Just(Act::Model),
    ]
}

fn plots() -> impl Strategy<Value = Plot> {
    let window = prop_oneof![Just(None), Just(Some(14_000)), Just(Some(40_000))];
    let hidden = prop_oneof![2 => Just(None), 1 => Just(Some(2))];
    (prop::collection::vec(acts(), 2..14), window, hidden, any::<bool>())
        .prop_map(|(acts, window, hidden_turns, summaries)| Plot { acts, window, hidden_turns, summaries })
}

/// What a play has at hand.
struct Play {
    stage: Stage,
    thread: Thread,
    /// The thread as another process knows it.
    before: Thread,
    agent: Agent,
    model: Acting,
    prompt: Prompt,
    passes: Passes,
    script: Arc<Mutex<VecDeque<Step>>>,
    waiting: Vec<ApprovalRequest>,
    number: u64,
    /// The other model was asked for since.
    other_model: bool,
}

fn tool(name: &str, run: impl Fn(&Value) -> Result<Value, &'static str> + Send + Sync + 'static) -> Tool {
    let run = Arc::new(run);
    let tool = ToolDefinition::new(name, "A tool.");
    Tool::new(tool, move |it| {
        let made = run(&it.call.arguments).map_err(Into::into);
        async move { made }
    })
    .unwrap()
}

fn sized(name: &str, tokens: usize) -> Tool {
    tool(name, move |arguments| Ok(words(&format!("result {}", arguments["n"]), tokens).into()))
}

/// A block whose function says something else each time.
fn restless(name: &str) -> Block {
    let count = Arc::new(AtomicU64::new(0));
    let name = name.to_owned();
    Block::dynamic(name.clone(), move |_| {
        let (name, number) = (name.clone(), count.fetch_add(1, Ordering::Relaxed));
        async move { Ok(format!("{name} said for the {number}. time")) }
    })
}

impl Play {
    async fn new(plot: &Plot) -> Self {
        let stage = Stage::new().await;
        let script: Arc<Mutex<VecDeque<Step>>> = Arc::default();
        let next = Arc::clone(&script);
        let model = Acting::new(&stage.thread, move |_, number| {
            let step = next.lock().unwrap().pop_front();
            step.unwrap_or_else(|| Step::Answer(says(&format!("answer {number}"))))
        });
        let passes = Passes::default();
        let prompt = Prompt::builder("p")
            .model("test/model")
            .system("Be brief.")
            .include(restless("frozen"))
            .include(Block::text("steady", "Always the same.").turn())
            .include(Block::text("now", "Always the same, too.").real_time())
            .include(restless("each-turn").user().turn())
            .include(restless("each-turn-now").user().turn().real_time())
            .include(restless("first-turn").user());
        let prompt = passes.watch(prompt).build().unwrap();
        let compaction =
            CompactionConfig { hidden_context_turns: plot.hidden_turns, ..CompactionConfig::default() };
        let summaries = if plot.summaries { Summaries::faithful() } else { Summaries::failing() };
        let builder = Agent::builder(model.clone(), Arc::new(TestTime), Counting::default())
            .config(AgentConfig { compaction, ..AgentConfig::default() })
            .summarizer(summaries)
            .tool(sized("small", 20))
            .tool(sized("large", 2_000))
            .tool(sized("huge", 7_000))
            .tool(tool("fails", |_| Err("it broke")))
            .tool(sized("risky", 20).needs_approval());
        let builder = match plot.window {
            Some(window) => builder.catalogue(small_window(window)),
            None => builder,
        };
        let (thread, before) = (stage.thread.clone(), stage.elsewhere().await);
        let (agent, waiting) = (builder.build().unwrap(), Vec::new());
        Self {
            stage,
            thread,
            before,
            agent,
            model,
            prompt,
            passes,
            script,
            waiting,
            number: 0,
            other_model: false,
        }
    }

    fn next(&mut self) -> u64 {
        self.number += 1;
        self.number
    }

    async fn act(&mut self, act: &Act) {
        match act {
            Act::Turn { rounds, end, inline, reminder } => {
                self.script(rounds, *end);
                self.turn(*end, *inline, *reminder).await;
            }
            Act::Decide { approve } => self.decide(*approve).await,
            Act::Event => {
                let text = format!("event {}", self.next());
                self.thread.add(vec![NewItem::event("news", text)]).await.unwrap();
            }
            Act::Elsewhere => self.before = mem::replace(&mut self.thread, self.stage.elsewhere().await),
            Act::Back => mem::swap(&mut self.before, &mut self.thread),
            Act::Pause => tokio::time::advance(Duration::from_secs(60)).await,
            Act::LongPause => tokio::time::advance(Duration::from_secs(400)).await,
            Act::Refresh => self.agent.refresh(&self.thread).await.unwrap(),
            Act::Compact => {
                self.agent.compact(&self.prompt, &self.thread, CompactRequest::default()).await.unwrap();
            }
            Act::Undo => {
                self.thread.undo().await.unwrap();
            }
            Act::Model => self.other_model = !self.other_model,
        }
    }

    fn script(&mut self, rounds: &[Vec<Kind>], end: End) {
        let mut steps: Vec<Step> = rounds.iter().map(|it| self.calls(it)).collect();
        let number = self.next();
        steps.push(match end {
            End::Answers => Step::Answer(says(&format!("final answer {number}"))),
            End::Fails => Step::Fail(ModelError::new(ModelErrorKind::Overloaded, "busy")),
            End::Cut => Step::Pieces(
                vec![Delta::Text(format!("cut words {number}"))],
                Some(ModelError::new(ModelErrorKind::Overloaded, "gone")),
            ),
            End::Cancelled => hangs(&format!("half a word {number}")),
        });
        *self.script.lock().unwrap() = steps.into();
    }

    fn calls(&mut self, kinds: &[Kind]) -> Step {
        let parts = kinds.iter().map(|kind| {
            let name = match kind {
                Kind::Small => "small",
                Kind::Large => "large",
                Kind::Huge => "huge",
                Kind::Fails => "fails",
                Kind::Risky => "risky",
            };
            let number = self.next();
            let id = format!("c{number}");
            Part::ToolCall(ToolCall { id, name: name.to_owned(), arguments: json!({"n": number}) })
        });
        Step::Answer(contexture_message::Answer::parts(parts.collect()))
    }

    async fn turn(&mut self, end: End, inline: bool, reminder: bool) {
        let number = self.next();
        let page = InlineBlock { name: "page".into(), body: format!("page {number}"), order: 0 };
        let cancel = CancellationToken::new();
        let request = RunRequest {
            blocks: if inline { vec![page] } else { Vec::new() },
            reminders: if reminder { vec![format!("reminder {number}")] } else { Vec::new() },
            spec: RunSpec { model: self.other_model.then(|| "test/other".to_owned()), ..RunSpec::default() },
            cancel: cancel.clone(),
            ..RunRequest::user(format!("question {number}: {}", words(&format!("user {number}"), 60)))
        };
        let mut run = self.agent.run(&self.prompt, &self.thread, request);
        if matches!(end, End::Cancelled) {
            // The last step never ends, so that everything stands still once its words are there.
            while let Ok(Some(_)) = tokio::time::timeout(Duration::from_secs(1), run.next()).await {}
            cancel.cancel();
        }
        match run.outcome().await {
            Ok(outcome) => self.waiting = outcome.approvals,
            Err(err) => assert!(["model_overloaded", "cancelled"].contains(&err.code().as_str()), "{err}"),
        }
    }

    async fn decide(&mut self, approve: bool) {
        let waiting = mem::take(&mut self.waiting);
        for ApprovalRequest { id, token, .. } in waiting {
            let verdict = if approve { Verdict::Approve } else { Verdict::Deny { reason: None } };
            let decision = Decision { approval: id, token, verdict };
            let run = self.agent.decide(&self.prompt, &self.thread, decision, CancellationToken::new());
            // The model may have been told to say nothing any more; then nobody waits for it.
            let outcome = tokio::time::timeout(Duration::from_secs(5), run.outcome()).await;
            if let Ok(Ok(outcome)) = outcome {
                self.waiting.extend(outcome.approvals);
            }
        }
    }
}

/// Compares a call with the one before; `refreshed` if somebody asked for a new prefix between them, or nobody said anything
/// for longer than the cache lives.
fn check(play: &Play, before: &Called, now: &Called, refreshed: bool) {
    let (was, is) = (State::replay(&before.log), State::replay(&now.log));
    let is_compacted = was.archives != is.archives;
    let is_aged = (was.aged_results, was.aged_hidden) != (is.aged_results, is.aged_hidden);
    let pass = play.passes.of(&now.request);
    if !is_compacted && is_aged {
        let why = pass.explain();
        assert!(why.cache.edits.iter().any(|it| it.chosen), "not named: {:?}", why.cache.edits);
    }
    let is_dropped = !pass.explain().dropped.is_empty() || was.history_after != is.history_after;
    let was_dropped = !play.passes.of(&before.request).explain().dropped.is_empty();
    if !is_compacted && !is_aged && !is_dropped && !was_dropped {
        let changed = changed_messages(&before.request, &now.request);
        assert!(changed.is_none(), "{}", changed.unwrap());
    }
    let is_same_model = before.request.model == now.request.model;
    if !is_compacted && was.history_after == is.history_after && is_same_model {
        let lost = lost_tools(&before.request, &now.request);
        assert!(lost.is_none(), "{}", lost.unwrap());
    }
    if was.n_archives == is.n_archives && is_same_model && !refreshed {
        let changed = changed_system(&before.request, &now.request);
        assert!(changed.is_none(), "{}", changed.unwrap());
    }
}

async fn played(plot: Plot) {
    let mut play = Play::new(&plot).await;
    let (mut n_calls, mut refreshed) = (0, false);
    for act in &plot.acts {
        refreshed |= matches!(act, Act::LongPause | Act::Refresh);
        play.act(act).await;
        let calls = play.model.calls();
        for number in n_calls..calls.len() {
            assert_valid_everywhere(&calls[number].request);
            assert_whole(&play.passes.of(&calls[number].request), &calls[number].log);
            if number > 0 {
                check(&play, &calls[number - 1], &calls[number], refreshed);
            }
            refreshed = false;
        }
        n_calls = calls.len();
    }
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, max_shrink_iters: 400, ..ProptestConfig::default() })]

    #[test]
    fn earlier_bytes_stay_and_nothing_is_silently_missing(plot in plots()) {
        runtime().block_on(played(plot));
    }
}
