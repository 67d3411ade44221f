//! A project, the model behind it, and instances of the server that are paused, stopped and starved.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use contexture_message::{Answer, Delta, Part, ToolCall};
use contexture_mockmodel::{MockModel, Received, Reply, Responder};
use contexture_wire::Dialect;
use serde_json::{Value, json};
use tempfile::TempDir;

/// How long the tool takes.
pub(crate) const TOOL: Duration = Duration::from_secs(4);

/// Calls the tool if it is told to, tells a long story in pieces if it is told to, and agrees with all else.
struct Model(Arc<AtomicUsize>);

impl Responder for Model {
    fn reply(&self, request: &Received) -> Reply {
        self.0.fetch_add(1, Ordering::Relaxed);
        let last = request.body["messages"].as_array().and_then(|it| it.last()).cloned().unwrap_or_default();
        let said = last["content"].to_string();
        match last["role"].as_str() {
            Some("user") if said.contains("tool") => {
                let call = ToolCall { id: "c1".to_owned(), name: "slow".to_owned(), arguments: json!({}) };
                Reply::answer(Dialect::Openai, &Answer::parts(vec![Part::ToolCall(call)]))
            }
            Some("user") if said.contains("story") => {
                let words: Vec<String> = (0..300).map(|n| format!("word{n} ")).collect();
                let done = Delta::Done(Box::new(Answer::text(words.concat())));
                let deltas: Vec<Delta> = words.into_iter().map(Delta::Text).chain([done]).collect();
                Reply::deltas(Dialect::Openai, &deltas).event_by_event().every(Duration::from_millis(100))
            }
            _ => Reply::answer(Dialect::Openai, &Answer::text("Very well.")),
        }
    }
}

struct ToolDefinition(Arc<AtomicUsize>);

impl Responder for ToolDefinition {
    fn reply(&self, _: &Received) -> Reply {
        self.0.fetch_add(1, Ordering::Relaxed);
        Reply::json(200, &json!({"done": true})).after(TOOL)
    }
}

/// A project with a model and a slow tool.
pub(crate) struct Project {
    pub(crate) folder: TempDir,
    /// How often the model was called.
    pub(crate) n_model: Arc<AtomicUsize>,
    /// How often the tool was called.
    pub(crate) n_tool: Arc<AtomicUsize>,
    _servers: [MockModel; 2],
}

impl Project {
    pub(crate) async fn new(store: &str) -> Self {
        let (n_model, n_tool) = (Arc::<AtomicUsize>::default(), Arc::<AtomicUsize>::default());
        let model = MockModel::with_responder(Model(Arc::clone(&n_model))).await;
        let tool = MockModel::with_responder(ToolDefinition(Arc::clone(&n_tool))).await;
        let folder = TempDir::new().unwrap();
        let config = format!(
            "[model]\ndefault = \"mock/m-1\"\n[providers.mock]\ndialect = \"openai\"\nbase_url = \"{}/v1\"\n\
             [models.\"mock/m-1\"]\ncontext_window = 200000\n\
             [server]\nlease_seconds = 2\nreload_seconds = 0\nshutdown_grace_seconds = 1\n[store]\nurl = \"{store}\"\n",
            model.url()
        );
        let prompt = format!(
            "---\ntools:\n  - name: slow\n    description: Takes its time.\n    parameters: {{type: object}}\n    \
             http: {{url: \"{}/slow\"}}\n---\nYou do as you are told.\n",
            tool.url()
        );
        std::fs::write(folder.path().join("contexture.toml"), config).unwrap();
        std::fs::create_dir(folder.path().join("prompts")).unwrap();
        std::fs::write(folder.path().join("prompts/chat.md"), prompt).unwrap();
        Self { folder, n_model, n_tool, _servers: [model, tool] }
    }

    pub(crate) fn start(&self) -> Instance {
        self.start_with("")
    }

    /// Starts an instance, in a shell that does something first.
    pub(crate) fn start_with(&self, first: &str) -> Instance {
        let program = env!("CARGO_BIN_EXE_contexture");
        let script = format!("{first}\nexec {program} serve . --listen 127.0.0.1:0 --json --log warn");
        let log = std::fs::OpenOptions::new().create(true).append(true).open(self.path("log")).unwrap();
        let mut command = Command::new("sh");
        command.args(["-c", &script]).current_dir(self.folder.path());
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let said: Value = serde_json::from_str(&line).unwrap_or_default();
        let log = || std::fs::read_to_string(self.path("log")).unwrap_or_default();
        let url = said["listening"].as_str().unwrap_or_else(|| panic!("it listens: {}", log())).to_owned();
        let http = contexture_model::http_client(Vec::new(), None).unwrap();
        Instance { child, url, http }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        let folder: &Path = self.folder.path();
        folder.join(name)
    }
}

/// Waits until something was called that counts its calls.
pub(crate) async fn called(calls: &AtomicUsize) {
    until("a call", async || calls.load(Ordering::Relaxed) > 0).await;
}

/// An instance of the server. It is killed when it is dropped.
pub(crate) struct Instance {
    child: Child,
    url: String,
    http: reqwest::Client,
}

impl Drop for Instance {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Instance {
    pub(crate) fn signal(&self, name: &str) {
        let sent = Command::new("kill").args([name, &self.child.id().to_string()]).status().unwrap();
        assert!(sent.success(), "{name} was not sent");
    }

    /// Waits until it has ended.
    pub(crate) async fn ended(&mut self, within: Duration) -> ExitStatus {
        let since = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(since.elapsed() < within, "it runs still after {within:?}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Sends a request; the status and the document of the answer.
    pub(crate) async fn post(&self, path: &str, body: Value) -> (u16, Value) {
        answer(
            self.http
                .post(format!("{}{path}", self.url))
                .header("content-type", "application/json")
                .body(body.to_string()),
        )
        .await
    }

    pub(crate) async fn get(&self, path: &str) -> (u16, Value) {
        answer(self.http.get(format!("{}{path}", self.url))).await
    }

    pub(crate) async fn turn(&self, user: &str) -> (u16, Value) {
        self.post("/v1/sessions/s/turns", json!({ "user": user })).await
    }

    /// Runs a turn and returns everything that its stream of events says.
    pub(crate) async fn turn_as_events(&self, user: &str) -> String {
        let request = self.http.post(format!("{}/v1/sessions/s/turns", self.url));
        let request = request
            .header("accept", "text/event-stream")
            .header("content-type", "application/json")
            .body(json!({ "user": user }).to_string());
        let mut answer = request.send().await.unwrap();
        let mut text = String::new();
        while let Ok(Some(chunk)) = answer.chunk().await {
            text.push_str(&String::from_utf8_lossy(&chunk));
        }
        text
    }

    /// Returns the items of the session, each as its turn and kind.
    pub(crate) async fn log(&self) -> Vec<String> {
        let (_, document) = self.get("/v1/sessions/s/items?view=all&limit=1000").await;
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let line = |it: &Value| {
            let status = text(&it["body"]["change"]["turn_ended"]["status"]);
            format!("{} {} {status}", text(&it["turn"]), text(&it["kind"])).trim_end().to_owned()
        };
        document["items"].as_array().into_iter().flatten().map(line).collect()
    }

    pub(crate) async fn readiness(&self) -> u16 {
        self.get("/readyz").await.0
    }
}

async fn answer(request: reqwest::RequestBuilder) -> (u16, Value) {
    let answer = tokio::time::timeout(Duration::from_secs(60), request.send()).await.unwrap().unwrap();
    let status = answer.status().as_u16();
    (status, serde_json::from_str(&answer.text().await.unwrap()).unwrap_or_default())
}

/// Waits until something is so.
pub(crate) async fn until(what: &str, is_so: impl AsyncFn() -> bool) {
    let since = Instant::now();
    while !is_so().await {
        assert!(since.elapsed() < Duration::from_secs(60), "{what} does not come");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}
