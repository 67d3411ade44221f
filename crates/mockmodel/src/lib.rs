//! A model provider for tests: a real HTTP server on loopback that follows a script.
//!
//! Each request gets the next [`Reply`] of the script: an answer in one of the dialects, or recorded bytes, in pieces
//! of any size and with delays between them; or a failure: an error status, a cut connection, silence. Requests are
//! recorded for the test. Under load, a [`Responder`] decides instead of a script, and requests are not recorded.
//!
//! [`cache`] is independent: it simulates the prompt caches of OpenAI and Anthropic.
//!
//! For development only; no shipped crate depends on it. A broken fixture is a broken test, so everything here panics
//! instead of returning errors. The server writes HTTP by hand: a library would not let it cut a chunk in two.
#![allow(clippy::expect_used, clippy::unwrap_used, reason = "a test that cannot continue fails")]

pub mod cache;
mod reply;
mod serve;

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::Value;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;

pub use reply::Reply;

/// A running server; it stops when dropped.
#[derive(Debug)]
pub struct MockModel {
    url: String,
    shared: Arc<Shared>,
    task: JoinHandle<()>,
}

/// A request that the server received.
#[derive(Clone, Debug)]
pub struct Received {
    /// The method.
    pub method: String,
    /// The path with its query; through a proxy, the whole address.
    pub path: String,
    /// The headers by their names in lower case.
    pub headers: BTreeMap<String, String>,
    /// The body; `null` if it is not JSON.
    pub body: Value,
    /// The body as it came.
    pub text: String,
}

/// Answers requests where a script can't: many concurrent clients, or a long run.
pub trait Responder: Send + Sync + 'static {
    /// Returns the reply to a request.
    fn reply(&self, request: &Received) -> Reply;

    /// Called when a reply was sent, or the client disconnected, with the time since the request was read.
    fn sent(&self, request: &Received, took: Duration) {
        let _ = (request, took);
    }
}

pub(crate) struct Shared {
    state: Mutex<State>,
    responder: Option<Box<dyn Responder>>,
    /// How many clients disconnected before their reply was complete.
    gone: watch::Sender<usize>,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared").field("state", &self.state).finish_non_exhaustive()
    }
}

#[derive(Debug, Default)]
struct State {
    script: VecDeque<Reply>,
    received: Vec<Received>,
    n_connections: usize,
}

impl MockModel {
    /// Starts a server that gives these replies in order; a request after the last one gets status 410.
    pub async fn start(replies: impl IntoIterator<Item = Reply>) -> Self {
        let state = State { script: replies.into_iter().collect(), ..State::default() };
        Self::serve(state, None).await
    }

    /// Starts a server whose replies come from a responder. Requests are not recorded.
    pub async fn with_responder(responder: impl Responder) -> Self {
        Self::serve(State::default(), Some(Box::new(responder))).await
    }

    async fn serve(state: State, responder: Option<Box<dyn Responder>>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("loopback has free ports");
        let url = format!("http://{}", listener.local_addr().expect("a bound socket has an address"));
        let shared = Arc::new(Shared { state: Mutex::new(state), responder, gone: watch::channel(0).0 });
        let task = tokio::spawn(serve::serve(listener, Arc::clone(&shared)));
        Self { url, shared, task }
    }

    /// Returns the address, such as `http://127.0.0.1:4711`, without a path.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Adds a reply at the end of the script.
    pub fn then(&self, reply: Reply) {
        self.shared.state().script.push_back(reply);
    }

    /// Returns what was asked so far.
    pub fn received(&self) -> Vec<Received> {
        self.shared.state().received.clone()
    }

    /// Returns how many connections were made so far.
    pub fn n_connections(&self) -> usize {
        self.shared.state().n_connections
    }

    /// Waits until a client has gone away while it was answered.
    pub async fn client_gone(&self) {
        let mut gone = self.shared.gone.subscribe();
        gone.wait_for(|it| *it > 0).await.expect("the server lives as long as we do");
    }
}

impl Drop for MockModel {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn connected(&self) {
        self.state().n_connections += 1;
    }

    /// Notes a request and returns what it gets.
    pub(crate) fn received(&self, request: &Received) -> Reply {
        if let Some(responder) = &self.responder {
            return responder.reply(request);
        }
        let mut state = self.state();
        state.received.push(request.clone());
        state.script.pop_front().unwrap_or_else(|| Reply::status(410).text("the script is over"))
    }

    pub(crate) fn sent(&self, request: &Received, took: Duration) {
        if let Some(responder) = &self.responder {
            responder.sent(request, took);
        }
    }

    pub(crate) fn client_gone(&self) {
        self.gone.send_modify(|it| *it += 1);
    }
}
