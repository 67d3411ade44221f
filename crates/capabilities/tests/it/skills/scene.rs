//! A thread whose skills can be edited, on a clock that the test moves.

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use contexture_agent::{
    Agent, AgentBuilder, CompactRequest, Outcome, RunRequest, Secrets, Summarized, Summarizer, SummaryCall,
};
use contexture_capabilities::{Skills, skills};
use contexture_compose::ports::{FixedSkill, FixedSkills, SkillSource, SkillSummary, SkillVersion};
use contexture_compose::{BoxError, BoxFuture, Prompt, PromptBuilder};
use contexture_history::Timestamp;
use contexture_message::{Answer, Encoding, Message, Part, Request, Tokens, ToolCall, ToolOutput};
use contexture_model::{Scripted, Step};
use contexture_session::{
    MemoryStore, Names, Ports, SessionConfig, SessionId, SessionStart, Sessions, Store, Thread, Time,
};
use contexture_wire::{Catalogue, ModelFacts};
use serde_json::{Value, json};

/// A clock that stands still until the test moves it.
#[derive(Debug, Default)]
pub(crate) struct Clock(AtomicI64);

impl Time for Clock {
    fn now(&self) -> Timestamp {
        Timestamp(self.0.load(Ordering::Relaxed))
    }

    fn sleep(&self, _: Duration) -> BoxFuture<'static, ()> {
        Box::pin(std::future::pending())
    }
}

#[derive(Debug, Default)]
struct Counted(AtomicI64);

impl Names for Counted {
    fn next(&self) -> String {
        // No two writers of one test may have the same name.
        static NEXT: AtomicI64 = AtomicI64::new(0);
        format!("n{}", NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

impl Secrets for Counted {
    fn next(&self) -> String {
        format!("secret-{}", self.0.fetch_add(1, Ordering::Relaxed))
    }
}

/// Says the same about everything.
struct Brief;

impl Summarizer for Brief {
    fn summarize(&self, _: SummaryCall) -> BoxFuture<'static, Result<Summarized, BoxError>> {
        let text = "They talked.".to_owned();
        Box::pin(std::future::ready(Ok(Summarized { text, ..Summarized::default() })))
    }
}

/// Skills that the test edits while threads use them.
#[derive(Clone, Default)]
pub(crate) struct Edited(pub(crate) Arc<Mutex<FixedSkills>>);

impl Edited {
    pub(crate) fn new(skills: impl IntoIterator<Item = FixedSkill>) -> Self {
        Self(Arc::new(Mutex::new(FixedSkills(skills.into_iter().collect()))))
    }

    pub(crate) fn edit(&self, name: &str, instructions: &str) {
        let mut skills = self.0.lock().unwrap();
        let skill = skills.0.iter_mut().find(|it| it.version.name == name).unwrap();
        skill.version =
            SkillVersion { files: skill.version.files.clone(), ..SkillVersion::new(name, instructions) };
    }

    fn now(&self) -> FixedSkills {
        self.0.lock().unwrap().clone()
    }
}

impl SkillSource for Edited {
    fn list(&self) -> Vec<SkillSummary> {
        self.now().list()
    }

    fn load<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<Option<SkillVersion>, BoxError>> {
        Box::pin(async move { self.now().load(name).await })
    }

    fn read<'a>(
        &'a self,
        skill: &'a str,
        file: &'a str,
    ) -> BoxFuture<'a, Result<Option<Arc<str>>, BoxError>> {
        Box::pin(async move { self.now().read(skill, file).await })
    }
}

/// A thread and what it is run with.
pub(crate) struct Scene {
    pub(crate) skills: Edited,
    pub(crate) prompt: Prompt,
    pub(crate) clock: Arc<Clock>,
    store: Arc<dyn Store>,
    pub(crate) thread: Thread,
}

/// The models of the tests, with their windows.
const MODELS: [(&str, u32); 3] = [("test/m", 200_000), ("test/n", 200_000), ("test/small", 6_000)];

impl Scene {
    pub(crate) async fn new(skills: Edited) -> Self {
        Self::with(skills, |skills| Prompt::builder("p").system("Be brief.").include(skills)).await
    }

    pub(crate) async fn with(edited: Edited, prompt: impl Fn(Skills) -> PromptBuilder) -> Self {
        let clock = Arc::new(Clock::default());
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new(Arc::clone(&clock) as Arc<dyn Time>));
        let start = SessionStart { id: Some(SessionId::parse("s").unwrap()), label: None };
        let session = sessions(&store, &clock).create(start).await.unwrap();
        let prompt = prompt(skills(Arc::new(edited.clone()))).model("test/m").build().unwrap();
        Self { skills: edited, prompt, clock, thread: session.main().clone(), store }
    }

    /// Continues as another process would.
    pub(crate) async fn restart(&mut self) {
        let id = SessionId::parse("s").unwrap();
        self.thread = sessions(&self.store, &self.clock).open(&id).await.unwrap().main().clone();
    }

    pub(crate) fn wait(&self, seconds: i64) {
        self.clock.0.fetch_add(seconds * 1_000, Ordering::Relaxed);
    }

    pub(crate) fn agent(&self, model: &Scripted) -> AgentBuilder {
        let facts = |window| ModelFacts { context_window: Some(Tokens(window)), ..ModelFacts::default() };
        let known = MODELS.map(|(name, window)| (name.to_owned(), facts(window))).into();
        Agent::builder(model.clone(), Arc::clone(&self.clock) as Arc<dyn Time>, Counted::default())
            .catalogue(Catalogue::standard().with_models(known))
            .skills(Arc::new(self.skills.clone()))
            .summarizer(Brief)
    }

    /// Runs a turn and returns the requests that were sent, and its outcome.
    pub(crate) async fn run(
        &self,
        request: RunRequest,
        answers: Vec<Answer>,
    ) -> (Vec<Arc<Request>>, Outcome) {
        let model = Scripted::new(answers.into_iter().map(Step::Answer));
        let agent = self.agent(&model).build().unwrap();
        let outcome = agent.run(&self.prompt, &self.thread, request).outcome().await.unwrap();
        (model.requests(), outcome)
    }

    /// Runs a turn in which the model calls one tool, and returns the result and the last request.
    pub(crate) async fn call(&self, tool: &str, arguments: Value) -> (String, Arc<Request>) {
        let answers = vec![calls([("c1", tool, arguments)]), Answer::text("Done.")];
        let (requests, _) = self.run(said("Go on."), answers).await;
        let last = requests.last().unwrap();
        (results(last).pop().unwrap(), Arc::clone(last))
    }

    pub(crate) async fn load(&self, name: &str) -> (String, Arc<Request>) {
        self.call("LoadSkill", json!({"name": name})).await
    }

    pub(crate) async fn unload(&self, name: &str) -> (String, Arc<Request>) {
        self.call("UnloadSkill", json!({"name": name})).await
    }

    pub(crate) async fn say(&self, text: &str) -> Arc<Request> {
        let (requests, _) = self.run(said(text), vec![Answer::text("Fine.")]).await;
        Arc::clone(&requests[0])
    }

    /// Compacts the thread, and returns whether anything was archived.
    pub(crate) async fn compact(&self) -> bool {
        let agent = self.agent(&Scripted::new([])).build().unwrap();
        agent.compact(&self.prompt, &self.thread, CompactRequest::default()).await.unwrap().archive.is_some()
    }
}

/// Says something, at some length: what is too short is not worth a summary.
pub(crate) fn said(text: &str) -> RunRequest {
    RunRequest::user(format!("{text} {}", "Please. ".repeat(60)))
}

fn sessions(store: &Arc<dyn Store>, clock: &Arc<Clock>) -> Sessions {
    let time = Arc::clone(clock) as Arc<dyn Time>;
    let ports = Ports { time, names: Arc::new(Counted::default()), counter: Arc::new(Encoding::O200kBase) };
    Sessions::new(Arc::clone(store), ports, SessionConfig::default())
}

pub(crate) fn calls<const N: usize>(calls: [(&str, &str, Value); N]) -> Answer {
    let part = |(id, name, arguments): (&str, &str, Value)| {
        Part::ToolCall(ToolCall { id: id.to_owned(), name: name.to_owned(), arguments })
    };
    Answer::parts(calls.into_iter().map(part).collect())
}

/// Returns the texts of the tool results of a request.
pub(crate) fn results(request: &Arc<Request>) -> Vec<String> {
    let parts = request.messages.iter().flat_map(|it| &it.content);
    let results = parts.filter_map(|it| match it {
        Part::ToolResult(it) => Some(match &it.output {
            ToolOutput::Text(text) => text.clone(),
            other => serde_json::to_string(other).unwrap(),
        }),
        _ => None,
    });
    results.collect()
}

/// Returns everything of a request that a model reads, tools aside.
pub(crate) fn everything(request: &Arc<Request>) -> String {
    let texts = request.messages.iter().map(|it| it.joined_text()).chain(results(request));
    texts.collect::<Vec<_>>().join("\n")
}

pub(crate) fn system(request: &Arc<Request>) -> String {
    request.messages.first().map(|it: &Arc<Message>| it.joined_text()).unwrap_or_default()
}
