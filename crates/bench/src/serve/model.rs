//! The model behind the server: it streams forty pieces and remembers how long that took.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use contexture::message::{Answer, Delta};
use contexture::wire::Dialect;
use contexture_mockmodel::{Clerk, Received, Reply};
use serde_json::Value;

/// How many pieces an answer has.
pub(super) const N_PIECES: usize = 40;

/// How long answers took, by what was asked. Who asked takes it away, so that nothing stays.
#[derive(Clone, Debug, Default)]
pub(super) struct Times(Arc<Mutex<HashMap<String, Duration>>>);

impl Times {
    /// Takes what a model call took; its end may be noted a moment after the client has heard all of it.
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

/// Answers what was asked, so that a piece in the wrong stream is seen.
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

impl Clerk for Echo {
    fn reply(&self, request: &Received) -> Reply {
        let pieces = pieces(&asked(request));
        let whole = Answer::text(pieces.concat());
        let deltas: Vec<Delta> =
            pieces.into_iter().map(Delta::Text).chain([Delta::Done(Box::new(whole))]).collect();
        match request.body["stream"] == Value::Bool(true) {
            true => Reply::deltas(Dialect::Openai, &deltas).event_by_event().every(self.pause),
            false => Reply::status(400).text("only streams are given"),
        }
    }

    fn sent(&self, request: &Received, took: Duration) {
        self.times.set(asked(request), took);
    }
}
