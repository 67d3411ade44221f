//! One session of the load: its turns, one after another, and a client that follows its events.
//!
//! The client that follows must assemble the same turns from its events as the one that runs them, even though it
//! reconnects now and then, often in the middle of an answer.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use reqwest::{Client, Response, StatusCode};
use serde_json::{Value, json};

use super::frames::{Frame, Frames};
use super::model::{Times, pieces};
use super::tally::Tally;

/// An error of the load.
pub(super) type LoadError = Box<dyn std::error::Error + Send + Sync>;

/// A client that uses one session.
#[derive(Clone, Debug)]
pub(super) struct User {
    pub(super) http: Client,
    pub(super) url: String,
    pub(super) session: String,
    pub(super) times: Times,
    pub(super) tally: Arc<Tally>,
}

impl User {
    /// Runs the turns of the session.
    pub(super) async fn talk(&self, n_turns: usize, seen: &SeenEvents) -> Result<(), LoadError> {
        for turn in 1..=n_turns {
            let asked = format!("{} {turn}", self.session);
            let began = Instant::now();
            let heard = self.turn(&asked, seen, began).await?;
            let took = began.elapsed();
            if heard != pieces(&asked).concat() {
                return Err(format!("{asked}: the text is not whole").into());
            }
            let of_model = self.times.take(&asked).await.ok_or("the model was not asked")?;
            self.tally.turn(took, took.saturating_sub(of_model));
        }
        Ok(())
    }

    pub(super) async fn begin(&self) -> Result<(), LoadError> {
        self.tally.request();
        let url = format!("{}/v1/sessions", self.url);
        let answer = self
            .http
            .post(url)
            .header("content-type", "application/json")
            .body(json!({"id": self.session}).to_string())
            .send()
            .await?;
        checked(answer, StatusCode::CREATED).await.map(drop)
    }

    /// Runs a turn and returns the text that was streamed.
    async fn turn(&self, asked: &str, seen: &SeenEvents, began: Instant) -> Result<String, LoadError> {
        self.tally.request();
        let url = format!("{}/v1/sessions/{}/turns", self.url, self.session);
        let request = self.http.post(url).header("accept", "text/event-stream");
        let answer = request
            .header("content-type", "application/json")
            .body(json!({"user": asked}).to_string())
            .send()
            .await?;
        let mut frames = Frames::new(checked(answer, StatusCode::OK).await?);
        let mut text = String::new();
        let mut last = String::new();
        while let Some(frame) = frames.next().await? {
            if frame.event == "text.delta" {
                if text.is_empty() {
                    self.tally.first_delta(began.elapsed());
                }
                let data: Value = serde_json::from_str(&frame.data)?;
                text.push_str(data["text"].as_str().unwrap_or_default());
            }
            seen.add(&frame, Side::Turn)?;
            last = frame.data;
        }
        let end: Value = serde_json::from_str(&last).unwrap_or_default();
        match end["type"] == "turn.end" && end["status"] == "completed" {
            true => Ok(text),
            false => Err(format!("{asked}: the turn ends with {last}").into()),
        }
    }

    /// Asks without a session, again and again: the same way to the model, and nothing is kept.
    pub(super) async fn ask_unkept(&self, n_requests: usize) -> Result<(), LoadError> {
        for request in 1..=n_requests {
            self.unkept(&format!("{} unkept {request}", self.session)).await?;
        }
        Ok(())
    }

    async fn unkept(&self, asked: &str) -> Result<(), LoadError> {
        let url = format!("{}/v1/chat/completions", self.url);
        let request = json!({
            "model": "chat", "stream": true, "messages": [{"role": "user", "content": asked}],
        });
        let began = Instant::now();
        let request =
            self.http.post(url).header("content-type", "application/json").body(request.to_string());
        let mut answer = checked(request.send().await?, StatusCode::OK).await?;
        let (mut text, mut is_heard) = (String::new(), false);
        while let Some(chunk) = answer.chunk().await? {
            text += std::str::from_utf8(&chunk)?;
            if !is_heard && text.contains(r#""content":"s"#) {
                is_heard = true;
                self.tally.first_unkept_delta(began.elapsed());
            }
        }
        self.times.take(asked).await.ok_or("the model was not asked")?;
        match is_heard && text.trim_end().ends_with("[DONE]") {
            true => Ok(()),
            false => Err(format!("{asked}: the answer is not whole").into()),
        }
    }

    /// Follows the events of the session until `n_turns` turns have ended, reconnecting now and then.
    pub(super) async fn follow(&self, n_turns: usize, seen: &SeenEvents) -> Result<(), LoadError> {
        let (mut after, mut n_ended) = (String::new(), 0);
        // Different places in each session, the same in each run.
        let mut hold = 23 + hash(&self.session) % 200;
        while n_ended < n_turns {
            self.tally.request();
            let url = format!("{}/v1/sessions/{}/events", self.url, self.session);
            let request = self.http.get(url).header("last-event-id", &after);
            let mut frames = Frames::new(checked(request.send().await?, StatusCode::OK).await?);
            for _ in 0..hold {
                let next = tokio::time::timeout(Duration::from_secs(60), frames.next()).await;
                let frame = next.map_err(|_| format!("{}: no event arrives", self.session))??;
                let frame = frame.ok_or_else(|| format!("{}: the event stream ended", self.session))?;
                seen.add(&frame, Side::Session)?;
                n_ended += usize::from(frame.event == "turn.end");
                after = frame.id;
                if n_ended == n_turns {
                    break;
                }
            }
            hold = 23 + (hold * 7) % 200;
        }
        Ok(())
    }
}

async fn checked(answer: Response, expected: StatusCode) -> Result<Response, LoadError> {
    let status = answer.status();
    if status == expected {
        return Ok(answer);
    }
    Err(format!("{status}: {}", answer.text().await.unwrap_or_default()).into())
}

/// What two clients have assembled of the turns of a session: both must assemble the same.
#[derive(Debug, Default)]
pub(super) struct SeenEvents(Option<Mutex<[Assembled; 2]>>);

#[derive(Clone, Copy, Debug)]
enum Side {
    Turn,
    Session,
}

/// The text of the turn that is being told, and the hashes of those that are over.
#[derive(Debug, Default)]
struct Assembled {
    text: String,
    turns: BTreeMap<String, u64>,
}

impl SeenEvents {
    /// Compares the events if the session is followed.
    pub(super) fn new(is_followed: bool) -> Self {
        Self(is_followed.then(Mutex::default))
    }

    fn add(&self, frame: &Frame, side: Side) -> Result<(), LoadError> {
        let Some(sides) = &self.0 else { return Ok(()) };
        let data: Value = serde_json::from_str(&frame.data)?;
        let mut sides = sides.lock().unwrap_or_else(PoisonError::into_inner);
        let seen = &mut sides[side as usize];
        match frame.event.as_str() {
            "text.delta" => seen.text.push_str(data["text"].as_str().unwrap_or_default()),
            "attempt.discarded" => seen.text.clear(),
            "turn.end" => {
                let turn = data["turn"].as_str().unwrap_or_default().to_owned();
                let whole = hash(&std::mem::take(&mut seen.text));
                if seen.turns.insert(turn.clone(), whole).is_some() {
                    return Err(format!("{turn} ends twice").into());
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Whether both clients have assembled the same turns.
    pub(super) fn is_even(&self) -> bool {
        let sides = self.0.as_ref().map(|it| it.lock().unwrap_or_else(PoisonError::into_inner));
        sides.is_none_or(|it| it[0].turns == it[1].turns)
    }
}

fn hash(value: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}
