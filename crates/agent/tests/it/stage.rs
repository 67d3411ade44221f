//! One stage for all tests: a scripted model, a thread in memory, and everything that happened as text.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use contexture_agent::{Agent, AgentBuilder, AgentError, Event, Outcome, Run, RunRequest, Secrets, Tool};
use contexture_compose::{BoxFuture, Prompt};
use contexture_history::{Body, Item, Timestamp};
use contexture_message::{Answer, Encoding, Part, Tokens, ToolCall, ToolOutput, Usage};
use contexture_model::{Scripted, Step};
use contexture_session::{
    MemoryStore, Names, Ports, SessionConfig, SessionId, SessionStart, Sessions, Store, Thread, Time,
};
use contexture_wire::{Catalogue, ModelFacts};
use futures::StreamExt;
use serde_json::{Value, json};

/// Tokio's time, which tests can stop; all parts of a test run on one thread and agree about it.
#[derive(Debug)]
pub(crate) struct TestTime;

impl Time for TestTime {
    fn now(&self) -> Timestamp {
        thread_local!(static START: tokio::time::Instant = tokio::time::Instant::now());
        let since = START.with(|start| tokio::time::Instant::now().saturating_duration_since(*start));
        Timestamp(i64::try_from(since.as_millis()).unwrap())
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        Box::pin(tokio::time::sleep(duration))
    }
}

/// Names that no two writers of one test process share.
#[derive(Debug)]
struct TestNames;

impl Names for TestNames {
    fn next(&self) -> String {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        format!("n{}", NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

/// Secrets that a test can foretell.
#[derive(Debug, Default)]
pub(crate) struct Counting(AtomicU64);

impl Secrets for Counting {
    fn next(&self) -> String {
        format!("secret-{}", self.0.fetch_add(1, Ordering::Relaxed))
    }
}

/// A thread on a store of its own.
pub(crate) struct Stage {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) thread: Thread,
}

pub(crate) fn ports() -> Ports {
    Ports { time: Arc::new(TestTime), names: Arc::new(TestNames), counter: Arc::new(Encoding::O200kBase) }
}

impl Stage {
    pub(crate) async fn new() -> Self {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new(Arc::new(TestTime)));
        let start = SessionStart { id: Some(SessionId::parse("s").unwrap()), label: None };
        let session = sessions(&store).create(start).await.unwrap();
        Self { thread: session.main().clone(), store }
    }

    /// Returns the same thread as another process would see it.
    pub(crate) async fn elsewhere(&self) -> Thread {
        let id = SessionId::parse("s").unwrap();
        sessions(&self.store).open(&id).await.unwrap().main().clone()
    }

    /// Returns the whole log as text.
    pub(crate) async fn log(&self) -> String {
        let items = self.thread.all(None).await.unwrap();
        items.iter().filter(|it| !is_beside(it)).map(shown).collect::<Vec<_>>().join("\n")
    }
}

/// Whether an item is in the log for the sake of events only; [`told`](crate::told) looks at those.
pub(crate) fn is_beside(item: &Item) -> bool {
    let Body::Application(it) = &item.body else { return false };
    ["contexture.event", "contexture.beside"].contains(&it.kind.as_str())
}

pub(crate) fn sessions(store: &Arc<dyn Store>) -> Sessions {
    Sessions::new(Arc::clone(store), ports(), SessionConfig::default())
}

/// Starts the making of an agent with a scripted model.
pub(crate) fn agent(model: &Scripted) -> AgentBuilder {
    let facts = ModelFacts { context_window: Some(Tokens(200_000)), ..ModelFacts::default() };
    let names = ["test/model", "test/m", "test/of-unknown-price"].map(str::to_owned);
    let known = Catalogue::standard().with_models(names.map(|it| (it, facts)).into());
    Agent::builder(model.clone(), Arc::new(TestTime), Counting::default()).catalogue(known)
}

/// A prompt with a model and nothing else to say.
pub(crate) fn prompt() -> Prompt {
    Prompt::builder("p").model("test/model").system("Be brief.").build().unwrap()
}

/// Says hi.
pub(crate) fn hi() -> RunRequest {
    RunRequest::user("hi")
}

/// A script of answers.
pub(crate) fn script(answers: impl IntoIterator<Item = Answer>) -> Scripted {
    Scripted::new(answers.into_iter().map(Step::Answer))
}

/// An answer of text.
pub(crate) fn says(text: &str) -> Answer {
    let usage = Usage { input_tokens: 10, output_tokens: 2, cache_read_tokens: Some(0), ..Usage::default() };
    Answer { usage, ..Answer::text(text) }
}

/// An answer that calls tools: `("id", "name", arguments)`.
pub(crate) fn calls<const N: usize>(calls: [(&str, &str, Value); N]) -> Answer {
    let parts = calls.into_iter().map(|(id, name, arguments)| {
        Part::ToolCall(ToolCall { id: id.to_owned(), name: name.to_owned(), arguments })
    });
    let usage = Usage { input_tokens: 10, output_tokens: 2, cache_read_tokens: Some(0), ..Usage::default() };
    Answer { usage, ..Answer::parts(parts.collect()) }
}

/// A tool that gives back its arguments.
pub(crate) fn echo(name: &str) -> Tool {
    let tool = contexture_message::ToolDefinition::new(name, "Gives back what it gets.");
    Tool::new(tool, |it| async move { Ok(it.call.arguments) }).unwrap()
}

/// Runs to the end and returns all events as text, and the outcome.
pub(crate) async fn told(mut run: Run) -> (String, Result<Outcome, AgentError>) {
    let mut events = Vec::new();
    while let Some(event) = run.next().await {
        events.push(event);
    }
    (events.iter().map(event_text).collect::<Vec<_>>().join("\n"), run.outcome().await)
}

/// An event on one line: its type, and everything else as JSON.
pub(crate) fn event_text(event: &Event) -> String {
    let mut value = json!(event);
    let name = value.as_object_mut().unwrap().shift_remove("type").unwrap();
    format!("{} {value}", name.as_str().unwrap())
}

fn shown(item: &Item) -> String {
    let turn = item.turn;
    match &item.body {
        Body::Message(message) => {
            let parts = message.content.iter().map(part_text).collect::<Vec<_>>().join(" ");
            format!("{turn} {}: {parts}", message.role.as_str())
        }
        Body::Change(change) => format!("{turn} {}", serde_json::to_string(change).unwrap()),
        Body::Application(it) if it.kind == "contexture.tool_output" => format!("{turn} {} …", it.kind),
        Body::Application(it) => format!("{turn} {} {}", it.kind, it.value),
        other => format!("{turn} {}", other.kind()),
    }
}

fn part_text(part: &Part) -> String {
    match part {
        Part::Text { text, .. } => text.clone(),
        Part::ToolCall(call) => format!("{}={}({})", call.id, call.name, call.arguments),
        Part::ToolResult(result) => format!("{}->{}", result.call_id, output_text(&result.output)),
        other => serde_json::to_string(other).unwrap(),
    }
}

pub(crate) fn output_text(output: &ToolOutput) -> String {
    serde_json::to_string(output).unwrap()
}
