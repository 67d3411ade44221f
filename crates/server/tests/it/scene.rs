//! A server with a model that says what it was told to.

use std::sync::Arc;
use std::time::Duration;

use contexture::{SystemNames, SystemTime, session_ports};
use contexture_message::Answer;
use contexture_model::{Scripted, Step};
use contexture_project::{InMemory, Project, ProjectError};
use contexture_server::{AgentMaker, Parts, Server};
use contexture_session::{
    Documents, MemoryStore, SessionConfig, SessionId, SessionKey, Sessions, SourceIndex, Store, Tenant, Time,
};
use reqwest::{Client, RequestBuilder, Response};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

/// The files of the project that tests work with.
pub(crate) const FILES: [(&str, &str); 5] = [
    ("contexture.toml", "[server]\nshutdown_grace_seconds = 1\n"),
    ("prompts/chat.md", "---\nmodel: openai/gpt-5-mini\n---\nYou are helpful.\n"),
    (
        "prompts/greet.md",
        "---\nmodel: openai/gpt-5-mini\ninput:\n  name: string\n---\nGreet people.\n\n# User\n\nI am {{ name }}.\n",
    ),
    ("flows/talk.yaml", include_str!("files/talk.yaml")),
    ("flows/once.yaml", include_str!("files/once.yaml")),
];

/// A server that runs.
pub(crate) struct Scene {
    pub(crate) url: String,
    pub(crate) client: Client,
    pub(crate) server: Arc<Server>,
    tasks: Vec<JoinHandle<()>>,
}

impl Drop for Scene {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

/// What several instances share.
#[derive(Clone)]
pub(crate) struct Ground {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) documents: Arc<dyn Documents>,
    pub(crate) sources: Arc<dyn SourceIndex>,
}

impl Ground {
    pub(crate) fn memory() -> Self {
        Self::of(MemoryStore::new(Arc::new(SystemTime)))
    }

    /// Returns what is in a store. Knowledge bases are kept in memory.
    pub(crate) fn of(store: impl Store + Documents) -> Self {
        let store = Arc::new(store);
        let sources = Arc::new(MemoryStore::new(Arc::new(SystemTime)));
        Self { store: store.clone(), documents: store, sources }
    }

    /// Starts an instance whose model goes through the steps.
    pub(crate) async fn instance(&self, steps: Vec<Step>) -> Scene {
        self.instance_with(steps, &[]).await
    }

    pub(crate) async fn instance_with(&self, steps: Vec<Step>, overrides: &[(&str, &str)]) -> Scene {
        let overrides = overrides.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        let files = Arc::new(InMemory::new(FILES));
        let project = Project::load(files, |_| Ok::<_, ProjectError>(overrides.collect())).unwrap();
        let model = Scripted::new(steps);
        self.instance_of(project, Arc::new(move |_| Ok(contexture::agent(model.clone())))).await
    }

    /// Starts an instance of a project.
    pub(crate) async fn instance_of(&self, project: Project, agent: AgentMaker) -> Scene {
        self.instance_at(project, agent, Arc::new(SystemTime)).await
    }

    /// Starts an instance of a project, with a clock of its own.
    pub(crate) async fn instance_at(
        &self,
        project: Project,
        agent: AgentMaker,
        time: Arc<dyn Time>,
    ) -> Scene {
        let config = SessionConfig {
            history_window: usize::try_from(project.config().history_window.turns).unwrap(),
            lease: Duration::from_secs(project.config().server.lease_seconds),
            ..SessionConfig::default()
        };
        let server = Server::new(Parts {
            project,
            agent,
            sessions: Sessions::new(self.store.clone(), session_ports(None), config),
            documents: self.documents.clone(),
            sources: self.sources.clone(),
            time,
            names: Arc::new(SystemNames),
        });
        let server = Arc::new(server.unwrap());
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let router = server.router();
        let behind = server.clone();
        let tasks = vec![
            tokio::spawn(async move { axum::serve(listener, router).await.unwrap() }),
            tokio::spawn(async move { behind.background().await }),
        ];
        Scene { url, client: contexture_model::http_client(Vec::new(), None).unwrap(), server, tasks }
    }
}

/// Starts a server whose model gives these answers.
pub(crate) async fn answering(texts: &[&str]) -> Scene {
    Ground::memory().instance(texts.iter().map(|it| Step::Answer(Answer::text(*it))).collect()).await
}

impl Scene {
    pub(crate) fn post(&self, path: &str, body: Value) -> RequestBuilder {
        self.client.post(format!("{}{path}", self.url)).json(&body)
    }

    pub(crate) fn get(&self, path: &str) -> RequestBuilder {
        self.client.get(format!("{}{path}", self.url))
    }

    /// Makes a session of that name.
    pub(crate) async fn session(&self, id: &str) {
        let answer = self.post("/v1/sessions", json!({"id": id})).send().await.unwrap();
        assert_eq!(answer.status(), 201);
    }

    /// Runs a turn and returns its document.
    pub(crate) async fn turn(&self, session: &str, user: &str) -> Value {
        let path = format!("/v1/sessions/{session}/turns");
        json_of(self.post(&path, json!({"user": user})).send().await.unwrap()).await.1
    }
}

/// Returns the status and the document of an answer.
pub(crate) async fn json_of(answer: Response) -> (u16, Value) {
    let status = answer.status().as_u16();
    let text = answer.text().await.unwrap();
    (status, serde_json::from_str(&text).unwrap_or(Value::String(text)))
}

/// One frame of a stream of events.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Frame {
    pub(crate) id: Option<String>,
    pub(crate) event: String,
    pub(crate) data: Value,
}

/// Reads frames from an answer until there are so many, or the stream ends.
pub(crate) async fn frames(answer: Response, most: usize) -> Vec<Frame> {
    Listener::new(answer).hear(|it| it.len() >= most).await
}

/// A client that listens to a stream of events.
pub(crate) struct Listener {
    answer: Response,
    text: String,
}

impl Listener {
    pub(crate) fn new(answer: Response) -> Self {
        assert_eq!(answer.headers()["content-type"], "text/event-stream");
        Self { answer, text: String::new() }
    }

    /// Returns the next frames up to the first that is enough, or all up to the end of the stream.
    pub(crate) async fn hear(&mut self, is_enough: impl Fn(&[Frame]) -> bool) -> Vec<Frame> {
        let mut frames = Vec::new();
        while !is_enough(&frames) {
            if let Some(at) = self.text.find("\n\n") {
                let frame: String = self.text.drain(..at + 2).collect();
                frames.extend(frame_of(&frame));
                continue;
            }
            let chunk = tokio::time::timeout(Duration::from_secs(60), self.answer.chunk()).await;
            let Some(chunk) = chunk.expect("something is told").unwrap() else { break };
            self.text.push_str(std::str::from_utf8(&chunk).unwrap());
        }
        frames
    }

    /// Returns the next frames up to one whose data contains a text.
    pub(crate) async fn hear_of(&mut self, text: &str) -> Vec<Frame> {
        self.hear(|it| it.last().is_some_and(|it| it.data.to_string().contains(text))).await
    }
}

fn frame_of(text: &str) -> Option<Frame> {
    let field = |name: &str| text.lines().find_map(|it| it.strip_prefix(&format!("{name}: ")));
    let data = serde_json::from_str(field("data")?).unwrap();
    let id = field("id").map(str::to_owned);
    Some(Frame { id, event: field("event").unwrap_or_default().to_owned(), data })
}

/// Returns what the frames say, one line each. Every frame of the log has an id.
pub(crate) fn told(frames: &[Frame]) -> String {
    let line = |it: &Frame| {
        assert!(it.id.is_some(), "{it:?}");
        let text = it.data["text"].as_str().or(it.data["status"].as_str()).unwrap_or_default();
        format!("{} {text}", it.event).trim_end().to_owned()
    };
    frames.iter().map(line).collect::<Vec<_>>().join("\n")
}

/// Checks that a follower that continues behind any of the events is told exactly the rest.
pub(crate) async fn resumes(scene: &Scene, path: &str, all: &[Frame]) {
    for (idx, frame) in all.iter().enumerate().take(all.len().saturating_sub(1)) {
        let id = frame.id.as_deref().unwrap();
        let get = scene.get(path).header("accept", "text/event-stream").header("last-event-id", id);
        let rest = frames(get.send().await.unwrap(), all.len() - idx - 1).await;
        assert_eq!(rest, all[idx + 1..], "behind {id}");
    }
}

/// Waits until the text of an answer that grows in a session is saved that far.
pub(crate) async fn saved(ground: &Ground, session: &str, text: &str) {
    let session = SessionKey { tenant: Tenant::default(), session: SessionId::parse(session).unwrap() };
    let is_saved = async || {
        let saved = ground.store.saved(session.clone()).await.unwrap();
        saved.iter().any(|(_, it)| it.text.ends_with(text))
    };
    for _ in 0..1000 {
        if is_saved().await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("`{text}` is never saved");
}
