//! Every feature of a thread with every other: on one thread, one after the other and, where both belong to a turn, in one.
//!
//! After each act, on every request that the model got: the user's text stands there exactly once, contributors ran once
//! for each call, every call has its result, and what was sent before stands at the beginning unless a compaction took it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use contexture_agent::{
    Agent, AnswerRequest, CancellationToken, CompactRequest, Decision, Outcome, RunRequest, RunSpec, Verdict,
};
use contexture_compose::{Context, InlineBlock, Prompt, Text};
use contexture_history::TurnStatus;
use contexture_message::{Image, MediaSource, Message, Part, Request, Role, ToolDefinition, ToolOutput};
use contexture_model::Step;
use contexture_session::Thread;
use serde_json::{Value, json};

use crate::bytes::changed_messages;
use crate::scene::{Acting, Summaries, small_window, words};
use crate::stage::{Counting, Stage, TestTime, calls, echo, says};
use crate::valid::assert_valid_everywhere;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Feature {
    Attachment,
    Reminder,
    InlineBlock,
    ToolCall,
    Approval,
    ClientTool,
    Compaction,
    Fork,
    RetryByKey,
    ModelChange,
    Restart,
}

const ALL: [Feature; 11] = [
    Feature::Attachment,
    Feature::Reminder,
    Feature::InlineBlock,
    Feature::ToolCall,
    Feature::Approval,
    Feature::ClientTool,
    Feature::Compaction,
    Feature::Fork,
    Feature::RetryByKey,
    Feature::ModelChange,
    Feature::Restart,
];

impl Feature {
    /// Whether it is something that a turn can have, beside others.
    fn is_of_turn(self) -> bool {
        !matches!(self, Feature::Compaction | Feature::Fork | Feature::Restart)
    }

    /// The tool that the model calls for it.
    fn tool(self) -> Option<&'static str> {
        match self {
            Feature::ToolCall => Some("free"),
            Feature::Approval => Some("risky"),
            Feature::ClientTool => Some("there"),
            _ => None,
        }
    }
}

/// A thread, and everything that is checked about it.
struct Play {
    stage: Stage,
    thread: Thread,
    agent: Agent,
    prompt: Prompt,
    model: Acting,
    /// How often the contributor ran.
    ran: Arc<AtomicUsize>,
    model_name: Option<String>,
    said: Vec<String>,
    /// How many requests were checked.
    n_seen: usize,
    last: Option<Arc<Request>>,
    /// Whether something may have changed earlier bytes since the last request, for a reason that is named.
    may_change: bool,
    name: String,
}

/// Calls the tools that the user's last words name, if that was not done yet.
fn act(request: &Request, number: usize) -> Step {
    let last = request.messages.iter().rev().find(|it| it.role == Role::User);
    let is_last = request.messages.last().is_some_and(|it| it.role == Role::User);
    let asked = last.map(|it| texts(it).join(" ")).unwrap_or_default();
    let tools = ["free", "risky", "there"].into_iter().filter(|it| asked.contains(&format!("use {it}")));
    let named: Vec<_> = tools.map(|it| (format!("c{number}-{it}"), it)).collect();
    let answer = match (is_last, named.as_slice()) {
        (true, [(a, x)]) => calls([(a.as_str(), *x, json!({"n": number}))]),
        (true, [(a, x), (b, y)]) => calls([(a.as_str(), *x, json!({})), (b.as_str(), *y, json!({}))]),
        _ => says(&format!("Answer {number}.\n{}", words(&format!("number {number}"), 400))),
    };
    Step::Answer(answer)
}

fn texts(message: &Message) -> Vec<&str> {
    let text = |it: &'_ Part| matches!(it, Part::Text { .. });
    let parts = message.content.iter().filter(|it| text(it));
    parts.filter_map(|it| if let Part::Text { text, .. } = it { Some(text.as_str()) } else { None }).collect()
}

fn agent(model: &Acting) -> Agent {
    let builder = Agent::builder(model.clone(), Arc::new(TestTime), Counting::default());
    let tools = builder.tool(echo("free")).tool(echo("risky").needs_approval());
    tools.catalogue(small_window(200_000)).summarizer(Summaries::faithful()).build().unwrap()
}

impl Play {
    async fn new(name: String) -> Self {
        let stage = Stage::new().await;
        let ran = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&ran);
        let page = Text::of(move |_: &Value| {
            counted.fetch_add(1, Ordering::Relaxed);
            "The page is open.".to_owned()
        });
        let prompt = Prompt::builder("p")
            .model("test/model")
            .system("Be brief.")
            .include(Context::text("page", page))
            .user(Text::template("{{ input.message }}").unwrap())
            .build()
            .unwrap();
        let model = Acting::new(&stage.thread, act);
        let (agent, thread) = (agent(&model), stage.thread.clone());
        let (said, last, model_name) = (Vec::new(), None, None);
        Self {
            stage,
            thread,
            agent,
            prompt,
            model,
            ran,
            model_name,
            said,
            n_seen: 0,
            last,
            may_change: false,
            name,
        }
    }

    /// Runs a turn with these features to its end.
    async fn turn(&mut self, features: &[Feature]) {
        let tools: Vec<_> =
            features.iter().filter_map(|it| it.tool()).map(|it| format!("use {it}")).collect();
        let text = format!("Words {} {}", self.said.len(), tools.join(" ")).trim().to_owned();
        self.said.push(text.clone());
        let has = |it: Feature| features.contains(&it);
        let mut content = vec![Part::text(text.as_str())];
        if has(Feature::Attachment) {
            let source = MediaSource::Url("https://a.example/map.png".to_owned());
            content.push(Part::Image(Image { source, media_type: None }));
        }
        if has(Feature::ModelChange) {
            self.model_name = Some("test/m".to_owned());
        }
        let request = RunRequest {
            user: Some(Message::parts(Role::User, content)),
            reminders: if has(Feature::Reminder) { vec!["Mind the gap.".to_owned()] } else { Vec::new() },
            blocks: match has(Feature::InlineBlock) {
                true => vec![InlineBlock { name: "page-state".into(), body: "7".into(), order: 0 }],
                false => Vec::new(),
            },
            key: has(Feature::RetryByKey).then(|| format!("k{}", self.said.len())),
            spec: RunSpec {
                input: json!({"message": text}),
                model: self.model_name.clone(),
                client_tools: vec![ToolDefinition::new("there", "Runs at the client.")],
                ..RunSpec::default()
            },
            ..RunRequest::default()
        };
        let outcome = self.agent.run(&self.prompt, &self.thread, request.clone()).outcome().await.unwrap();
        let waited = outcome.status == TurnStatus::Suspended;
        let outcome = self.finished(outcome).await;
        assert_eq!(outcome.status, TurnStatus::Completed, "{}", self.name);
        self.check(waited);
        if has(Feature::RetryByKey) {
            let again = self.agent.run(&self.prompt, &self.thread, request).outcome().await.unwrap();
            assert_eq!((again.turn, again.text()), (outcome.turn, outcome.text()), "{}", self.name);
            assert_eq!(self.model.calls().len(), self.n_seen, "{}: the model was called again", self.name);
        }
    }

    /// Decides and answers what a turn waits for.
    async fn finished(&self, mut outcome: Outcome) -> Outcome {
        while outcome.status == TurnStatus::Suspended {
            let run = match outcome.approvals.first() {
                Some(it) => {
                    let (approval, token) = (it.id.clone(), it.token.clone());
                    let decision = Decision { approval, token, verdict: Verdict::Approve };
                    self.agent.decide(&self.prompt, &self.thread, decision, CancellationToken::new())
                }
                None => {
                    let ids = outcome.client_calls.iter().map(|it| it.id.clone());
                    let results = ids.map(|it| (it, ToolOutput::Text("done".to_owned()))).collect();
                    let request = AnswerRequest { results, ..AnswerRequest::default() };
                    self.agent.answer(&self.prompt, &self.thread, request)
                }
            };
            outcome = run.outcome().await.unwrap();
        }
        outcome
    }

    /// Does something to the thread.
    async fn act(&mut self, feature: Feature) {
        match feature {
            Feature::Compaction => {
                let spec = RunSpec { input: json!({"message": ""}), ..RunSpec::default() };
                let request = CompactRequest { spec, ..CompactRequest::default() };
                let report = self.agent.compact(&self.prompt, &self.thread, request).await.unwrap();
                assert!(report.archive.is_some(), "{}: nothing was summarised: {report:?}", self.name);
                self.may_change = true;
                // What is asked for a summary is no request of the conversation.
                self.n_seen = self.model.calls().len();
                self.ran.store(0, Ordering::Relaxed);
            }
            Feature::Fork => self.thread = self.thread.fork(None, None).await.unwrap(),
            Feature::Restart => {
                let is_main = self.thread.id() == self.stage.thread.id();
                if is_main {
                    self.thread = self.stage.elsewhere().await;
                }
                self.agent = agent(&self.model);
            }
            of_turn => self.turn(&[of_turn]).await,
        }
    }

    /// Checks every request since the last time.
    fn check(&mut self, waited: bool) {
        let requests: Vec<_> = self.model.requests().split_off(self.n_seen);
        self.n_seen += requests.len();
        let ran = self.ran.swap(0, Ordering::Relaxed);
        // A turn that waited is looked at once more before it goes on.
        let most = if waited { 2 * requests.len() } else { requests.len() };
        assert!(
            (requests.len()..=most).contains(&ran),
            "{}: {ran} runs of the contributor for {} calls",
            self.name,
            requests.len()
        );
        for request in requests {
            self.check_words(&request);
            assert_valid_everywhere(&request);
            if let Some(before) = self.last.as_ref().filter(|_| !self.may_change) {
                let changed = changed_messages(before, &request);
                assert_eq!(changed, None, "{}: earlier bytes changed", self.name);
            }
            self.may_change = false;
            self.last = Some(request);
        }
    }

    fn check_words(&self, request: &Request) {
        for (idx, words) in self.said.iter().enumerate() {
            let said = request.messages.iter().filter(|it| it.role == Role::User).flat_map(|it| texts(it));
            let n_said = said.filter(|it| it == words).count();
            let is_current = idx + 1 == self.said.len();
            assert!(n_said == 1 || (n_said == 0 && !is_current), "{}: `{words}` {n_said} times", self.name);
        }
    }
}

#[tokio::test]
async fn every_feature_goes_with_every_other_one_after_the_other() {
    for first in ALL {
        for second in ALL {
            let mut play = Play::new(format!("{first:?}, then {second:?}")).await;
            play.turn(&[]).await;
            play.turn(&[]).await;
            play.act(first).await;
            play.turn(&[]).await;
            play.act(second).await;
            play.turn(&[]).await;
        }
    }
}

#[tokio::test]
async fn every_feature_of_a_turn_goes_with_every_other_in_one_turn() {
    let of_turn: Vec<Feature> = ALL.into_iter().filter(|it| it.is_of_turn()).collect();
    for first in &of_turn {
        for second in of_turn.iter().filter(|it| *it != first) {
            let mut play = Play::new(format!("{first:?} and {second:?}")).await;
            play.turn(&[]).await;
            play.turn(&[*first, *second]).await;
            play.turn(&[]).await;
        }
    }
}
