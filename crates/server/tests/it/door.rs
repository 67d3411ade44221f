//! A server behind its own listener, as `contexture serve` runs it, and clients that are not always friendly.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use contexture::{SystemNames, SystemSecrets, SystemTime, session_ports};
use contexture_model::{Scripted, Step};
use contexture_project::{InMemory, Project, ProjectError};
use contexture_server::{Keys, ListenError, Listener, NewKey, Parts, Server};
use contexture_session::{SessionConfig, Sessions, Tenant, Time};
use reqwest::{Client, Method, RequestBuilder};
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::scene::{FILES, Ground, json_of};

/// A server that listens.
pub(crate) struct Door {
    pub(crate) url: String,
    pub(crate) client: Client,
    stop: Option<oneshot::Sender<()>>,
    pub(crate) task: JoinHandle<()>,
}

impl Drop for Door {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn server(ground: &Ground, model: Scripted, overrides: &[(&str, &str)]) -> Server {
    let listen = [("server.listen", "127.0.0.1:0")];
    let overrides = listen.iter().chain(overrides);
    let overrides = overrides.map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
    let files = Arc::new(InMemory::new(FILES));
    let parts = Parts {
        project: Project::load(files, |_| Ok::<_, ProjectError>(overrides.collect())).unwrap(),
        agent: Arc::new(move |_| Ok(contexture::agent(model.clone()))),
        sessions: Sessions::new(ground.store.clone(), session_ports(None), SessionConfig::default()),
        documents: ground.documents.clone(),
        sources: ground.sources.clone(),
        time: Arc::new(SystemTime),
        names: Arc::new(SystemNames),
    };
    Server::new(parts).unwrap()
}

/// Says why a server can't listen.
pub(crate) async fn refusal(ground: &Ground, overrides: &[(&str, &str)]) -> ListenError {
    let server = server(ground, Scripted::default(), overrides);
    Listener::bind(&server, Path::new("/none")).await.expect_err("it is refused")
}

impl Door {
    pub(crate) async fn open(ground: &Ground, steps: Vec<Step>, overrides: &[(&str, &str)]) -> Self {
        Self::with_model(ground, Scripted::new(steps), overrides).await
    }

    /// Starts a server with this model.
    pub(crate) async fn with_model(ground: &Ground, model: Scripted, overrides: &[(&str, &str)]) -> Self {
        let server = server(ground, model, overrides);
        let listener = Listener::bind(&server, Path::new("/none")).await.unwrap();
        let url = listener.url();
        let (stop, stopped) = oneshot::channel();
        let task = tokio::spawn(async move {
            let stop = async { drop(stopped.await) };
            listener.serve(&server, stop).await;
        });
        let client = contexture_model::http_client(Vec::new(), None).unwrap();
        Self { url, client, stop: Some(stop), task }
    }

    /// Tells the server to stop, and goes on.
    pub(crate) fn stop(&mut self) {
        let _ = self.stop.take().map(|it| it.send(()));
    }

    pub(crate) fn ask(&self, method: &str, path: &str) -> RequestBuilder {
        let method = Method::from_bytes(method.as_bytes()).unwrap();
        self.client.request(method, format!("{}{path}", self.url))
    }

    /// Asks and returns the status and the code of a problem (or nothing).
    pub(crate) async fn code(&self, request: RequestBuilder) -> String {
        let (status, document) = json_of(request.send().await.unwrap()).await;
        format!("{status} {}", document["code"].as_str().unwrap_or("-"))
    }

    /// Sends bytes as they are and returns what comes back until the server hangs up.
    pub(crate) async fn raw(&self, bytes: &[u8]) -> String {
        let mut stream = self.connect().await;
        stream.write_all(bytes).await.unwrap();
        rest(&mut stream).await
    }

    pub(crate) async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.url.trim_start_matches("http://")).await.unwrap()
    }
}

/// Reads until the server hangs up.
pub(crate) async fn rest(stream: &mut TcpStream) -> String {
    let mut answer = Vec::new();
    let read = tokio::time::timeout(Duration::from_secs(60), stream.read_to_end(&mut answer)).await;
    // A reset is a way to hang up.
    let _ = read.expect("the server hangs up");
    String::from_utf8_lossy(&answer).into_owned()
}

/// Makes a key and returns its id and the key itself.
pub(crate) async fn key(ground: &Ground, new: NewKey) -> (String, String) {
    let keys = Keys::new(ground.store.clone(), ground.documents.clone());
    let (key, token) = keys.create(new, &SystemSecrets, "test", SystemTime.now()).await.unwrap();
    (key.id, token.reveal().to_owned())
}

pub(crate) fn of_tenant(name: &str) -> NewKey {
    NewKey { tenant: Tenant::parse(name).unwrap(), ..NewKey::default() }
}

/// Returns the document of an answer.
pub(crate) async fn document(request: RequestBuilder) -> Value {
    json_of(request.send().await.unwrap()).await.1
}
