//! Tests of the client, against a real HTTP server that follows a script, and against a real model.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod dialects;
mod encryption;
mod local;
mod pieces;
mod retries;
mod secrets;
mod traces;
mod trouble;
mod ways;

use std::sync::Arc;
use std::time::Duration;

use contexture_message::{Answer, Delta, Message, Part, Request};
use contexture_mockmodel::{MockModel, Reply};
use contexture_model::{Client, ClientConfig, Model, ModelCall, ModelError, ModelProvider, Retries};
use contexture_wire::Dialect;
use futures::StreamExt;

/// What came of a call.
#[derive(Debug, PartialEq)]
struct Heard {
    /// The pieces before the end.
    deltas: Vec<Delta>,
    end: Result<Answer, ModelError>,
}

impl Heard {
    fn answer(&self) -> &Answer {
        self.end.as_ref().unwrap()
    }

    fn error(&self) -> &ModelError {
        self.end.as_ref().unwrap_err()
    }

    /// The text that came in pieces.
    fn text(&self) -> String {
        let texts = self.deltas.iter().filter_map(|it| match it {
            Delta::Text(text) => Some(text.as_str()),
            _ => None,
        });
        texts.collect()
    }
}

/// Waits that a test can wait for.
fn config() -> ClientConfig {
    let retries =
        Retries { base: Duration::from_millis(2), longest: Duration::from_millis(10), ..Retries::default() };
    ClientConfig { retries, ..ClientConfig::default() }
}

/// Returns a client of one provider, `mock`.
fn client_with(provider: ModelProvider, config: ClientConfig) -> Client {
    let providers = [("mock".to_owned(), provider)].into();
    Client::new(ClientConfig { providers, ..config }).unwrap()
}

fn provider(dialect: Dialect, server: &MockModel) -> ModelProvider {
    ModelProvider::new(dialect).at(format!("{}/v1", server.url())).with_key("sk-secret-key")
}

fn call(text: &str) -> ModelCall {
    let request = Request {
        model: Some("mock/model-1".to_owned()),
        messages: vec![Arc::new(Message::user(text))],
        ..Request::default()
    };
    ModelCall { request: Arc::new(request), ..ModelCall::default() }
}

/// Listens until the end. The only caller of the API for most tests.
async fn hear(client: &Client, call: ModelCall) -> Heard {
    let mut pieces: Vec<_> = client.stream(call).collect().await;
    let end = match pieces.pop() {
        Some(Ok(Delta::Done(answer))) => Ok(*answer),
        Some(Err(err)) => Err(err),
        other => panic!("the stream ended with {other:?}"),
    };
    Heard { deltas: pieces.into_iter().map(Result::unwrap).flat_map(by_character).collect(), end }
}

/// Cuts text at every character: how much of it arrives in one piece is a matter of time.
fn by_character(piece: Delta) -> Vec<Delta> {
    let cut = |text: &str, make: fn(String) -> Delta| text.chars().map(|it| make(it.to_string())).collect();
    match piece {
        Delta::Text(text) if !text.is_empty() => cut(&text, Delta::Text),
        Delta::Thinking(text) if !text.is_empty() => cut(&text, Delta::Thinking),
        other => vec![other],
    }
}

/// Asks a server that follows a script.
async fn asked(dialect: Dialect, server: &MockModel) -> Heard {
    hear(&client_with(provider(dialect, server), config()), call("hello")).await
}

/// Asks a server that gives these replies, and returns how often it was asked, too.
async fn answered(dialect: Dialect, replies: impl IntoIterator<Item = Reply>) -> (Heard, usize) {
    answered_by(dialect, replies, config()).await
}

async fn answered_by(
    dialect: Dialect,
    replies: impl IntoIterator<Item = Reply>,
    config: ClientConfig,
) -> (Heard, usize) {
    let server = MockModel::start(replies).await;
    let heard = hear(&client_with(provider(dialect, &server), config), call("hello")).await;
    (heard, server.received().len())
}

/// An answer in a dialect, which arrives in three pieces of text.
fn good(dialect: Dialect) -> Reply {
    let pieces = ["The ", "answer ", "is 42."];
    let mut deltas: Vec<Delta> = pieces.iter().map(|it| Delta::Text((*it).to_owned())).collect();
    deltas.push(Delta::Done(Box::new(Answer::text("The answer is 42."))));
    Reply::deltas(dialect, &deltas)
}

fn parts(heard: &Heard) -> &[Part] {
    &heard.answer().message.content
}
