//! One stage for all tests: a base in memory that ranks as told, a scripted model, and a thread.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use contexture_agent::{Agent, AgentBuilder, Secrets};
use contexture_capabilities::KnowledgeBase;
use contexture_compose::BoxFuture;
use contexture_history::Timestamp;
use contexture_knowledge::retrieve::{HitDocument, Passage, ReadRange, ReadTarget};
use contexture_knowledge::{Hit, Query, RetrieveError, Retrieved, Retriever};
use contexture_message::{Answer, Encoding, Part, Tokens, ToolCall};
use contexture_model::{Scripted, Step};
use contexture_session::conformance::SystemTime;
use contexture_session::{
    MemoryStore, Names, Ports, SessionConfig, SessionId, SessionStart, Sessions, Store, Thread, Time,
};
use contexture_wire::{Catalogue, ModelFacts};
use serde_json::Value;

/// A base whose hits are given, best first, with falling scores from 0.9. It counts its searches.
#[derive(Clone, Default)]
pub(crate) struct Given {
    pub(crate) name: String,
    pub(crate) texts: Vec<String>,
    pub(crate) fails: bool,
    /// Whether searches find nothing; texts can be read all the same.
    pub(crate) finds_nothing: bool,
    pub(crate) searches: Arc<AtomicUsize>,
    pub(crate) queries: Arc<Mutex<Vec<String>>>,
}

impl Given {
    pub(crate) fn new(name: &str, texts: &[&str]) -> Self {
        let texts = texts.iter().map(|it| (*it).to_owned()).collect();
        Self { name: name.to_owned(), texts, ..Self::default() }
    }

    pub(crate) fn base(&self) -> KnowledgeBase {
        KnowledgeBase::new(Arc::new(self.clone()))
    }

    pub(crate) fn searches(&self) -> usize {
        self.searches.load(Ordering::Relaxed)
    }

    pub(crate) fn queries(&self) -> Vec<String> {
        self.queries.lock().unwrap().clone()
    }

    fn hits(&self) -> Vec<Hit> {
        let hit = |(idx, text): (usize, &String)| Hit {
            base: self.name.clone(),
            chunk: (idx + 1).to_string(),
            text: text.clone(),
            score: 0.9 - 0.1 * idx as f64,
            shares: Default::default(),
            document: HitDocument { origin: Some(format!("{}.md", idx + 1)), ..HitDocument::default() },
        };
        self.texts.iter().enumerate().map(hit).collect()
    }
}

impl Retriever for Given {
    fn base(&self) -> &str {
        &self.name
    }

    fn retrieve(&self, query: Query) -> BoxFuture<'_, Result<Retrieved, RetrieveError>> {
        self.searches.fetch_add(1, Ordering::Relaxed);
        self.queries.lock().unwrap().push(query.text);
        let mut hits = self.hits();
        hits.truncate(if self.finds_nothing { 0 } else { query.top_k });
        let unreachable =
            || RetrieveError::Unreachable { base: self.name.clone(), detail: "no route".into() };
        let result = if self.fails { Err(unreachable()) } else { Ok(Retrieved { hits, notes: Vec::new() }) };
        Box::pin(std::future::ready(result))
    }

    fn read(&self, what: ReadTarget, _: ReadRange) -> BoxFuture<'_, Result<Passage, RetrieveError>> {
        let wanted = |it: &Hit| match &what {
            ReadTarget::Chunk(id) => it.chunk == *id,
            ReadTarget::Document(id) => it.document.origin.as_ref() == Some(id),
        };
        let hits: Vec<Hit> = self.hits().into_iter().filter(wanted).collect();
        Box::pin(std::future::ready(Ok(Passage { hits, next: Some(77) })))
    }
}

#[derive(Debug)]
pub(crate) struct TestNames;

impl Names for TestNames {
    fn next(&self) -> String {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        format!("n{}", NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

struct Secret;

impl Secrets for Secret {
    fn next(&self) -> String {
        "secret".to_owned()
    }
}

/// The system's time, which sleeps with tokio.
#[derive(Debug)]
pub(crate) struct TestTime;

impl Time for TestTime {
    fn now(&self) -> Timestamp {
        SystemTime.now()
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        Box::pin(tokio::time::sleep(duration))
    }
}

pub(crate) struct Stage {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) thread: Thread,
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
}

fn sessions(store: &Arc<dyn Store>) -> Sessions {
    let ports = Ports {
        time: Arc::new(TestTime),
        names: Arc::new(TestNames),
        counter: Arc::new(Encoding::O200kBase),
    };
    Sessions::new(Arc::clone(store), ports, SessionConfig::default())
}

pub(crate) fn agent(model: &Scripted) -> AgentBuilder {
    let facts = ModelFacts { context_window: Some(Tokens(200_000)), ..ModelFacts::default() };
    let known = Catalogue::standard().with_models([("test/m".to_owned(), facts)].into());
    Agent::builder(model.clone(), Arc::new(TestTime), Secret).catalogue(known)
}

pub(crate) fn script(answers: impl IntoIterator<Item = Answer>) -> Scripted {
    Scripted::new(answers.into_iter().map(Step::Answer))
}

pub(crate) fn says(text: &str) -> Answer {
    Answer::text(text)
}

pub(crate) fn calls(name: &str, arguments: Value) -> Answer {
    Answer::parts(vec![Part::ToolCall(ToolCall { id: "c1".into(), name: name.into(), arguments })])
}
