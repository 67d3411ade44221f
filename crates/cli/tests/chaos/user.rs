//! A user: turns one after the other, each sent again with its key until it is known what became of it.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::cluster::Places;
use crate::dice::Dice;
use crate::runner::LAST_PATIENCE;

/// How long a request may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// Returns what the model says to something.
pub(crate) fn answer_to(asked: &str) -> String {
    format!("you have said {asked} and here are some more words to stream until the end")
}

pub(crate) struct User {
    pub(crate) session: String,
    pub(crate) http: reqwest::Client,
    places: Places,
    state: Mutex<State>,
}

struct State {
    dice: Dice,
    /// What was acknowledged: what was said, and the turn.
    acknowledged: BTreeMap<String, String>,
    /// Messages that were appended without a turn, and acknowledged.
    notes: Vec<String>,
    n_said: usize,
    n_kept: usize,
    troubles: Vec<String>,
}

/// What came of sending a request once.
enum Sent {
    /// It is done: its turn.
    Done(String),
    /// The turn was lost: it must be asked anew.
    Lost,
    /// Nobody knows: the same must be sent again.
    Unknown,
}

impl User {
    pub(crate) fn new(idx: usize, seed: u64, places: Places) -> Self {
        let dice = Dice::new(seed ^ (idx as u64 + 1).wrapping_mul(0x1234_5678_9abc_def1));
        let state = State {
            dice,
            acknowledged: BTreeMap::new(),
            notes: Vec::new(),
            n_said: 0,
            n_kept: 0,
            troubles: Vec::new(),
        };
        let http = contexture_model::http_client(Vec::new(), None).unwrap();
        Self { session: format!("s{idx}"), http, places, state: Mutex::new(state) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    pub(crate) fn n_acknowledged(&self) -> usize {
        self.state().acknowledged.len()
    }

    pub(crate) fn acknowledged(&self) -> BTreeMap<String, String> {
        self.state().acknowledged.clone()
    }

    pub(crate) fn notes(&self) -> Vec<String> {
        self.state().notes.clone()
    }

    pub(crate) fn n_kept(&self) -> usize {
        self.state().n_kept
    }

    pub(crate) fn set_n_kept(&self, n_kept: usize) {
        self.state().n_kept = n_kept;
    }

    pub(crate) fn troubles(&self) -> Vec<String> {
        self.state().troubles.clone()
    }

    /// Returns an address on some instance.
    pub(crate) async fn url(&self, path: &str) -> String {
        loop {
            let place = self.places.any(&mut self.state().dice);
            if let Some(place) = place {
                return format!("{place}/v1/sessions{path}");
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    pub(crate) async fn begin(&self) {
        let body = json!({"id": self.session}).to_string();
        let answer = self
            .http
            .post(self.url("").await)
            .header("content-type", "application/json")
            .body(body)
            .send()
            .await
            .unwrap();
        assert_eq!(answer.status().as_u16(), 201);
    }

    pub(crate) async fn talk_until(&self, deadline: Instant) {
        while Instant::now() < deadline {
            let give_up = deadline + LAST_PATIENCE;
            self.turn(give_up).await;
            if self.state().dice.below(3) == 0 {
                self.note().await;
            }
        }
    }

    /// Runs a turn when all is well again.
    pub(crate) async fn last_turn(&self) {
        self.turn(Instant::now() + LAST_PATIENCE).await;
    }

    /// Appends a message without a turn, once: one whose outcome is not known may be there or not.
    async fn note(&self) {
        let text = {
            let mut state = self.state();
            state.n_said += 1;
            format!("{}-note-{}", self.session, state.n_said)
        };
        let url =
            self.url("").await.replace("/v1/sessions", &format!("/v1/threads/{}/messages", self.session));
        let body = json!({"messages": [{"role": "user", "content": text}]}).to_string();
        let answer = self.http.post(url).header("content-type", "application/json").body(body).send();
        let answer = tokio::time::timeout(PATIENCE, answer).await;
        if answer.is_ok_and(|it| it.is_ok_and(|it| it.status().is_success())) {
            self.state().notes.push(text);
        }
    }

    /// Says something until it is answered.
    async fn turn(&self, give_up: Instant) {
        loop {
            let text = {
                let mut state = self.state();
                state.n_said += 1;
                format!("{}-{}", self.session, state.n_said)
            };
            match self.said(&text, give_up).await {
                Some(Sent::Done(turn)) => {
                    self.state().acknowledged.insert(text, turn);
                    return;
                }
                Some(_) => {}
                None => {
                    self.state().troubles.push(format!("{text}: the thread is stuck"));
                    return;
                }
            }
        }
    }

    /// Sends the same until it is known what became of it.
    async fn said(&self, text: &str, give_up: Instant) -> Option<Sent> {
        while Instant::now() < give_up {
            match tokio::time::timeout(PATIENCE, self.send(text)).await {
                Ok(Sent::Unknown) => {}
                Ok(sent) => return Some(sent),
                Err(_) => {}
            }
            let pause = 20 + self.state().dice.below(200);
            tokio::time::sleep(Duration::from_millis(pause)).await;
        }
        None
    }

    async fn send(&self, text: &str) -> Sent {
        let as_events = self.state().dice.below(2) == 0;
        let url = self.url(&format!("/{}/turns", self.session)).await;
        let accept = if as_events { "text/event-stream" } else { "application/json" };
        let request = self.http.post(url).header("idempotency-key", text).header("accept", accept);
        let Ok(answer) = request
            .header("content-type", "application/json")
            .body(json!({"user": text}).to_string())
            .send()
            .await
        else {
            return Sent::Unknown;
        };
        let status = answer.status().as_u16();
        let Ok(body) = answer.text().await else { return Sent::Unknown };
        match status {
            200 if as_events => self.of_events(text, &body),
            200 => self.of_result(text, &serde_json::from_str(&body).unwrap_or_default()),
            409 | 429 | 500.. => Sent::Unknown,
            _ => {
                self.state().troubles.push(format!("{text}: {status} {body}"));
                Sent::Unknown
            }
        }
    }

    fn of_result(&self, text: &str, result: &Value) -> Sent {
        match result["status"].as_str() {
            Some("completed") => {
                if result["text"] != answer_to(text).as_str() {
                    self.state().troubles.push(format!("{text}: another answer: {result}"));
                }
                Sent::Done(result["turn"].as_str().unwrap_or_default().to_owned())
            }
            Some(_) => Sent::Lost,
            None => Sent::Unknown,
        }
    }

    /// A stream that breaks off says nothing.
    fn of_events(&self, text: &str, body: &str) -> Sent {
        let data = body.lines().filter_map(|it| it.strip_prefix("data: "));
        let events: Vec<Value> = data.filter_map(|it| serde_json::from_str(it).ok()).collect();
        let Some(end) = events.last().filter(|it| it["type"] == "turn.end") else { return Sent::Unknown };
        let said: String = events.iter().filter_map(|it| it["text"].as_str()).collect();
        match end["status"].as_str() {
            Some("completed") if said == answer_to(text) => {
                Sent::Done(end["turn"].as_str().unwrap_or_default().to_owned())
            }
            Some("completed") => {
                self.state().troubles.push(format!("{text}: the stream says `{said}`"));
                Sent::Unknown
            }
            // What the log says counts, and the key finds it.
            _ => Sent::Unknown,
        }
    }
}
