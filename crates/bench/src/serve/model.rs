//! The mock model: it streams forty pieces and records how long that took.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use contexture::message::{Answer, Delta};
use contexture::wire::{Dialect, StreamEncoder, Target};
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
    times: Times,
    /// How long it waits between pieces.
    pause: Duration,
    /// The stream of an answer, cut where its pieces belong. It is encoded once: model and server share the processors.
    between: Vec<String>,
}

/// The place of a piece in an encoded stream.
const PIECE: &str = "%%";

impl Echo {
    pub(super) fn new(times: Times, pause: Duration) -> Self {
        let whole = Answer::text(PIECE.repeat(N_PIECES));
        let pieces = (0..N_PIECES).map(|_| Delta::Text(PIECE.to_owned()));
        let deltas: Vec<Delta> = pieces.chain([Delta::Done(Box::new(whole))]).collect();
        let target = Target { stream: true, ..Target::new(Dialect::Openai, "mock", "mock-1") };
        let mut encoder = StreamEncoder::new(&target);
        let stream: String = deltas.iter().flat_map(|it| encoder.push(it)).map(|it| it.to_sse()).collect();
        Self { times, pause, between: stream.split(PIECE).map(str::to_owned).collect() }
    }

    /// Returns the stream of an answer.
    fn stream(&self, asked: &str) -> String {
        let pieces = pieces(asked).into_iter().map(|it| serde_json::to_string(&it).unwrap_or_default());
        let mut stream = String::new();
        for (before, piece) in self.between.iter().zip(pieces.chain([String::new()])) {
            stream += before;
            stream += piece.get(1..piece.len().saturating_sub(1)).unwrap_or_default();
        }
        stream
    }
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
        match request.body["stream"] == Value::Bool(true) {
            true => Reply::events(self.stream(&asked(request))).event_by_event().every(self.pause),
            false => Reply::status(400).text("only streaming is supported"),
        }
    }

    fn sent(&self, request: &Received, took: Duration) {
        self.times.set(asked(request), took);
    }
}
