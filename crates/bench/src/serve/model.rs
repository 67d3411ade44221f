//! The mock model: it streams forty pieces and records how long that took.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use contexture::message::{Answer, Delta};
use contexture::wire::Dialect;
use contexture_mockmodel::{Received, Reply, Responder};
use serde_json::Value;

/// How many pieces an answer has.
pub(super) const N_PIECES: usize = 40;

/// The duration of each answer, by the question. Reading an entry removes it.
#[derive(Clone, Debug, Default)]
pub(super) struct Times(Arc<Mutex<HashMap<String, Duration>>>);

impl Times {
    /// Removes and returns the duration of a model call; it may be recorded shortly after the client has the answer.
    pub(super) async fn take(&self, asked: &str) -> Option<Duration> {
        for _ in 0..500 {
            let took = self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(asked);
            if took.is_some() {
                return took;
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        None
    }

    fn set(&self, asked: String, took: Duration) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(asked, took);
    }
}

/// Repeats the question, so that a piece in the wrong stream is detected.
#[derive(Debug)]
pub(super) struct Echo {
    pub(super) times: Times,
    /// How long it waits between pieces.
    pub(super) pause: Duration,
}

/// Returns the pieces that the model answers with.
pub(super) fn pieces(asked: &str) -> Vec<String> {
    let words = (1..=N_PIECES).map(|n| format!("{asked} word {n}, "));
    words.collect()
}

fn asked(request: &Received) -> String {
    let last = request.body["messages"].as_array().and_then(|it| it.last());
    last.and_then(|it| it["content"].as_str()).unwrap_or_default().to_owned()
}

impl Responder for Echo {
    fn reply(&self, request: &Received) -> Reply {
        let pieces = pieces(&asked(request));
        let whole = Answer::text(pieces.concat());
        let deltas: Vec<Delta> =
            pieces.into_iter().map(Delta::Text).chain([Delta::Done(Box::new(whole))]).collect();
        match request.body["stream"] == Value::Bool(true) {
            true => Reply::deltas(Dialect::Openai, &deltas).event_by_event().every(self.pause),
            false => Reply::status(400).text("only streaming is supported"),
        }
    }

    fn sent(&self, request: &Received, took: Duration) {
        self.times.set(asked(request), took);
    }
}
