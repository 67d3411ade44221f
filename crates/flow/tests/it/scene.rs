//! What tests of flows work with: a store, a model that parrots, a runtime.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use contexture_agent::{Agent, AgentConfig, CancellationToken, Secrets, Tool};
use contexture_compose::{BoxFuture, Prompt, Scope};
use contexture_flow::{
    CompileInputs, EventContext, Flow, FlowDefinition, Library, NodeError, RunEvent, RunId, RunInfo,
    RunStart, Runtime, RuntimeConfig, RuntimeParts, lower,
};
use contexture_history::{Application, Body, Cost, Item, Seq, TurnNo, Visibility};
use contexture_message::{
    Answer, Encoding, Message, Part, Request, Role, Thinking, Tokens, ToolCall, ToolDefinition,
};
use contexture_model::{Deltas, Model, ModelCall, ModelError, ModelErrorKind};
use contexture_session::conformance::{SystemTime, TestNames};
use contexture_session::{
    Append, Documents, Guard, LogState, MemoryStore, Ports, SessionConfig, SessionId, Sessions, Store,
    Tenant, Thread, ThreadId, ThreadKey, Time,
};
use contexture_testkit::TokioTime;
use futures::{StreamExt, stream};
use serde_json::{Value, json};

use crate::fuse::Fuse;

/// A model whose answer depends on what it is asked, and on nothing else: it says the last words of the user again.
///
/// `!tool NAME {…}` calls a tool, `!fail` fails, `!hang` gets no answer, `!think` thinks aloud first. If an answer of a certain form is expected, `intent` is the first of the choices that
/// stands in the text; `!bare WORDS` says these, without the form.
#[derive(Clone, Debug, Default)]
pub(crate) struct Parrot {
    pub(crate) requests: Arc<Mutex<Vec<Arc<Request>>>>,
    /// How often `!flaky` fails.
    pub(crate) failures: Arc<Mutex<u32>>,
    /// The life of the process that asks.
    pub(crate) fuse: Fuse,
}

impl Model for Parrot {
    fn stream(&self, call: ModelCall) -> Deltas {
        let parrot = self.clone();
        stream::once(async move {
            parrot.requests.lock().unwrap().push(Arc::clone(&call.request));
            parrot.fuse.step("model", async {}).await;
            if call.request.messages.last().is_some_and(|it| text_of(it).contains("!hang")) {
                std::future::pending::<()>().await;
            }
            stream::iter(match parrot.answer(&call.request) {
                Ok(answer) => answer.deltas().into_iter().map(Ok).collect::<Vec<_>>(),
                Err(err) => vec![Err(err)],
            })
        })
        .flatten()
        .boxed()
    }
}

impl Parrot {
    fn answer(&self, request: &Request) -> Result<Answer, ModelError> {
        let last = request.messages.last().unwrap();
        let results = last.content.iter().any(|it| matches!(it, Part::ToolResult(_)));
        let text = request
            .messages
            .iter()
            .rev()
            .find(|it| it.role == Role::User)
            .map(|it| text_of(it))
            .unwrap_or_default();
        if let Some(output) = &request.output {
            // Whatever it is told about the form, it says this.
            let said = request.messages.iter().map(|it| text_of(it));
            if let Some((_, bare)) = said
                .into_iter()
                .find(|it| it.contains("!bare "))
                .as_deref()
                .and_then(|it| it.split_once("!bare "))
            {
                return Ok(Answer::text(bare));
            }
            let names = output["properties"]["intent"]["enum"].as_array().unwrap();
            let name = names.iter().find(|it| text.contains(it.as_str().unwrap()));
            let name = name.cloned().unwrap_or(json!("otherwise"));
            return Ok(Answer::text(json!({"intent": name}).to_string()));
        }
        if text.contains("!fail") {
            return Err(ModelError::new(ModelErrorKind::Invalid, "asked to fail"));
        }
        let mut failures = self.failures.lock().unwrap();
        if text.contains("!flaky") && *failures > 0 {
            *failures -= 1;
            return Err(ModelError::new(ModelErrorKind::Invalid, "flaky"));
        }
        match text.split_once("!tool ").filter(|_| !results) {
            Some((_, call)) => {
                let (name, arguments) = call.split_once(' ').unwrap_or((call, "{}"));
                let arguments = serde_json::from_str(arguments).unwrap();
                let call = ToolCall {
                    id: format!("call-{}", request.messages.len()),
                    name: name.to_owned(),
                    arguments,
                };
                Ok(Answer::parts(vec![Part::ToolCall(call)]))
            }
            None if text.contains("!think") => {
                let thought = |text: &str| {
                    let (signature, provider, redacted) = (None, None, false);
                    Part::Thinking(Thinking { text: text.to_owned(), signature, provider, redacted })
                };
                let said = Part::text(format!("re: {text}"));
                Ok(Answer::parts(vec![thought("First this."), thought("Then that."), said]))
            }
            None => Ok(Answer::text(format!("re: {text}"))),
        }
    }
}

pub(crate) fn text_of(message: &Message) -> String {
    let texts = message.content.iter().filter_map(|it| match it {
        Part::Text { text, .. } => Some(text.to_string()),
        _ => None,
    });
    texts.collect::<Vec<_>>().join("\n")
}

#[derive(Debug)]
struct Fixed;

impl Secrets for Fixed {
    fn next(&self) -> String {
        "secret".to_owned()
    }
}

/// What runs take from the application.
#[derive(Debug)]
pub(crate) struct Shop {
    pub(crate) agent: Agent,
    pub(crate) prompts: BTreeMap<String, Prompt>,
    pub(crate) flows: Mutex<BTreeMap<String, Flow>>,
    /// Which nodes have worked, and for how long.
    pub(crate) worked: Mutex<Vec<(&'static str, Duration)>>,
    /// What was told, with its number if it is on record.
    pub(crate) told: Mutex<Vec<(Option<u64>, RunEvent)>>,
    /// What the blackboard `plan` holds.
    pub(crate) board: Mutex<Value>,
}

impl Library for Shop {
    fn agent(&self) -> Agent {
        self.agent.clone()
    }

    fn prompt(&self, id: &str) -> Result<Prompt, String> {
        self.prompts.get(id).cloned().ok_or_else(|| format!("there is no prompt `{id}`"))
    }

    fn flow(&self, id: &str) -> Option<Flow> {
        self.flows.lock().unwrap().get(id).cloned()
    }

    fn blackboard(&self, id: String, scope: Scope) -> BoxFuture<'_, Result<Value, NodeError>> {
        let found = match id == "plan" && scope.session.is_some() {
            true => Ok(self.board.lock().unwrap().clone()),
            false => Err(NodeError::new("not_found", format!("there is no blackboard `{id}`"))),
        };
        Box::pin(std::future::ready(found))
    }

    fn on_event(&self, about: EventContext<'_>, event: &RunEvent) {
        self.told.lock().unwrap().push((about.number, event.clone()));
    }

    fn on_worked(&self, kind: &'static str, took: Duration) {
        self.worked.lock().unwrap().push((kind, took));
    }
}

/// A store and everything on top of it. Another scene on the same store is another process.
#[derive(Clone)]
pub(crate) struct Scene {
    pub(crate) sessions: Sessions,
    pub(crate) runtime: Runtime,
    pub(crate) library: Arc<Shop>,
    pub(crate) parrot: Parrot,
    /// What tools did.
    pub(crate) calls: Arc<Mutex<Vec<Value>>>,
}

/// The lease of drivers and writers in tests: a process that is gone is missed soon.
pub(crate) const LEASE: Duration = Duration::from_millis(200);

impl Scene {
    /// A process whose clock is Tokio's, so that a test can stop it.
    pub(crate) fn new() -> Self {
        let clock = Arc::new(TokioTime::new());
        let store = Arc::new(MemoryStore::new(clock.clone()));
        Self::mortal(store.clone(), store, clock, Fuse::default())
    }

    pub(crate) fn on(store: Arc<dyn Store>, documents: Arc<dyn Documents>) -> Self {
        Self::mortal(store, documents, Arc::new(SystemTime), Fuse::default())
    }

    /// A process with a clock and a life of its own.
    pub(crate) fn mortal(
        store: Arc<dyn Store>,
        documents: Arc<dyn Documents>,
        time: Arc<dyn Time>,
        fuse: Fuse,
    ) -> Self {
        let parrot = Parrot { fuse, ..Parrot::default() };
        let calls = Arc::new(Mutex::new(Vec::new()));
        let agent = agent(parrot.clone(), Arc::clone(&calls), Arc::clone(&time));
        let prompts = ["chat", "expert"].map(|it| (it.to_owned(), prompt(it)));
        let library = Arc::new(Shop {
            agent,
            prompts: prompts.into(),
            flows: Mutex::default(),
            worked: Mutex::default(),
            told: Mutex::default(),
            board: Mutex::new(json!({})),
        });
        let ports = Ports {
            time: Arc::clone(&time),
            names: Arc::new(TestNames),
            counter: Arc::new(Encoding::O200kBase),
        };
        let sessions =
            Sessions::new(store, ports, SessionConfig { lease: LEASE, ..SessionConfig::default() });
        let runtime = Runtime::new(RuntimeParts {
            sessions: sessions.clone(),
            documents,
            time,
            names: Arc::new(TestNames),
            library: Arc::clone(&library) as Arc<dyn Library>,
            config: RuntimeConfig { lease: LEASE, grace: Duration::from_secs(60) },
        });
        Self { sessions, runtime, library, parrot, calls }
    }

    /// Makes a flow known.
    pub(crate) fn add(&self, flow: Flow) -> Flow {
        self.library.flows.lock().unwrap().insert(flow.id().to_owned(), flow.clone());
        flow
    }

    /// Makes a flow of a document known.
    pub(crate) fn flow(&self, document: Value) -> Flow {
        self.add(flow(document))
    }

    pub(crate) async fn start(&self, flow: &Flow, session: &str, input: Value) -> RunId {
        let session = Some(SessionId::parse(session).unwrap());
        self.runtime.start(flow, RunStart { session, input, key: None, user: None }).await.unwrap()
    }

    pub(crate) async fn drive(&self, run: &RunId) -> RunInfo {
        self.runtime.drive(run, CancellationToken::new()).await.unwrap()
    }

    pub(crate) async fn run(&self, flow: &Flow, session: &str, input: Value) -> RunInfo {
        let run = self.start(flow, session, input).await;
        self.drive(&run).await
    }

    /// Answers the only thing that a run waits for, and drives it on.
    pub(crate) async fn say(&self, info: &RunInfo, value: impl Into<Value>) -> RunInfo {
        assert_eq!(info.waits.len(), 1, "{info:?}");
        self.runtime.answer(&info.run, &info.waits[0].id, value.into()).await.unwrap();
        self.drive(&info.run).await
    }

    pub(crate) async fn thread(&self, id: &str) -> Thread {
        self.sessions.open_thread(&ThreadId::parse(id).unwrap()).await.unwrap()
    }

    /// Returns what a thread's model reads, a line a message.
    pub(crate) async fn says(&self, thread: &str) -> Vec<String> {
        let thread = self.sessions.open_thread(&ThreadId::parse(thread).unwrap()).await.unwrap();
        let messages = thread.get().turns().iter().flat_map(|it| it.messages().to_vec()).collect::<Vec<_>>();
        messages.iter().map(|it| said(it)).collect()
    }

    /// Returns what happened in a run.
    pub(crate) async fn events(&self, run: &RunId) -> Vec<RunEvent> {
        self.runtime.events(run, 0, 10_000).await.unwrap().into_iter().map(|(_, it)| it).collect()
    }

    /// Returns what happened in a run, a line an event.
    pub(crate) async fn log(&self, run: &RunId) -> Vec<String> {
        let line = |event: RunEvent| match event {
            RunEvent::NodeStart { node, firing, .. } => format!("start {node} {firing}"),
            RunEvent::NodeEnd { node, firing, error: None, .. } => format!("end {node} {firing}"),
            RunEvent::NodeEnd { node, error: Some(error), .. } => format!("end {node}: {}", error.code),
            RunEvent::NodeWait { wait, .. } => format!("wait {}", wait.id),
            RunEvent::NodeAnswer { wait, value, .. } => format!("answer {wait} {value}"),
            RunEvent::NodeRetry { node, attempt, .. } => format!("retry {node} {attempt}"),
            RunEvent::NodePull { node, ports, .. } => format!("pull {node} {}", ports.join(" ")),
            RunEvent::NodeRepeat { node, .. } => format!("repeat {node}"),
            RunEvent::NodeResume { node, .. } => format!("resume {node}"),
            RunEvent::RunEnd { status, .. } => format!("over {}", status.as_str()),
            other => other.name().to_owned(),
        };
        let events = self.events(run).await;
        events.into_iter().filter(|it| !matches!(it, RunEvent::NodeTurn { .. })).map(line).collect()
    }
}

fn said(message: &Message) -> String {
    let parts = message.content.iter().map(|it| match it {
        Part::Text { text, .. } => text.to_string(),
        Part::ToolCall(call) => format!("<call {} {}>", call.name, call.arguments),
        Part::ToolResult(result) => format!("<result {}>", serde_json::to_string(&result.output).unwrap()),
        other => format!("{other:?}"),
    });
    format!("{:?}: {}", message.role, parts.collect::<Vec<_>>().join(" ")).to_lowercase()
}

fn prompt(id: &str) -> Prompt {
    Prompt::builder(id).model("test/model").system(format!("You are the {id}.")).build().unwrap()
}

fn agent(parrot: Parrot, calls: Arc<Mutex<Vec<Value>>>, time: Arc<dyn Time>) -> Agent {
    let tool = |name: &str| {
        let (calls, fuse) = (Arc::clone(&calls), parrot.fuse.clone());
        Tool::new(ToolDefinition::new(name, "Does something."), move |invocation| {
            let (calls, fuse) = (Arc::clone(&calls), fuse.clone());
            async move {
                fuse.step("before tool", async {}).await;
                calls.lock().unwrap().push(json!([invocation.call.name, invocation.call.arguments]));
                fuse.step("behind tool", async {}).await;
                Ok(json!({"did": invocation.call.name}))
            }
        })
        .unwrap()
    };
    let (look, pay) = (tool("look"), tool("pay").needs_approval());
    Agent::builder(parrot, time, Fixed)
        .config(AgentConfig { model: Some("test/model".to_owned()), ..AgentConfig::default() })
        .executor(look)
        .executor(pay)
        .build()
        .unwrap()
}

/// Makes a flow of a document.
pub(crate) fn flow(document: Value) -> Flow {
    let id = document["id"].as_str().unwrap_or("flow").to_owned();
    lower(&FlowDefinition::read(&id, &document).unwrap(), &CompileInputs::default()).unwrap()
}

/// Returns the key of a run's log.
pub(crate) fn log_of(run: &RunId) -> ThreadKey {
    ThreadKey { tenant: Tenant::default(), thread: run.session().run(run.name()) }
}

/// Changes what is stored of a run.
pub(crate) async fn rewrite(store: &dyn Store, run: &RunId, how: impl FnOnce(String) -> String) {
    add(store, run, "note", Value::Null, how).await;
}

/// Appends an item of any kind to a run's log, and changes what is stored of the run.
pub(crate) async fn add(
    store: &dyn Store,
    run: &RunId,
    kind: &str,
    value: Value,
    how: impl FnOnce(String) -> String,
) {
    let head = store.head(log_of(run)).await.unwrap().unwrap();
    let (end, at) = (Seq(head.info.items), head.info.updated);
    let body = Body::Application(Application { kind: kind.to_owned(), value });
    let cost = Cost { counter: "".into(), tokens: Tokens(0) };
    let (seq, turn, visibility) = (end.plus(1), TurnNo(0), Visibility::NONE);
    let items = vec![Item { seq, turn, visibility, cost, author: None, at, body }];
    let json = how(head.state);
    let state = Some(LogState { end: seq, updated: at, needs_writer: true, json, ..LogState::default() });
    let (expected, nonce, keys) = (Some(end), String::new(), Vec::new());
    let append = Append { expected, nonce, items, state, guard: Guard::Any, keys, lazy: false };
    store.append(log_of(run), append).await.unwrap();
}
