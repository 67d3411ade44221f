//! One session of the load: its turns, one after another, and a client that follows its events.
//!
//! Nothing else runs on the session, so the streams of its turns contain all of its events: numbers from 1 without a
//! gap or a repeat. The client that follows must receive the same events, even though it reconnects now and then.

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
        let mut after = 0;
        for turn in 1..=n_turns {
            let asked = format!("{} {turn}", self.session);
            let began = Instant::now();
            let heard = self.turn(&asked, &mut after, seen).await?;
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
    async fn turn(&self, asked: &str, after: &mut u64, seen: &SeenEvents) -> Result<String, LoadError> {
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
            check_next(&self.session, after, &frame)?;
            if frame.event == "text.delta" {
                let data: Value = serde_json::from_str(&frame.data)?;
                text.push_str(data["text"].as_str().unwrap_or_default());
            }
            seen.by_turn(&frame)?;
            last = frame.data;
        }
        let end: Value = serde_json::from_str(&last).unwrap_or_default();
        match end["type"] == "turn.end" && end["status"] == "completed" {
            true => Ok(text),
            false => Err(format!("{asked}: the turn ends with {last}").into()),
        }
    }

    /// Follows the events of the session until `n_turns` turns have ended, reconnecting now and then.
    pub(super) async fn follow(&self, n_turns: usize, seen: &SeenEvents) -> Result<(), LoadError> {
        let (mut after, mut n_ended) = (0, 0);
        // Different places in each session, the same in each run.
        let mut hold = 23 + hash(&self.session) % 200;
        while n_ended < n_turns {
            self.tally.request();
            let url = format!("{}/v1/sessions/{}/events", self.url, self.session);
            let request = self.http.get(url).header("last-event-id", after.to_string());
            let mut frames = Frames::new(checked(request.send().await?, StatusCode::OK).await?);
            for _ in 0..hold {
                let next = tokio::time::timeout(Duration::from_secs(60), frames.next()).await;
                let frame = next.map_err(|_| format!("{}: no event arrives", self.session))??;
                let frame = frame.ok_or_else(|| format!("{}: the event stream ended", self.session))?;
                check_next(&self.session, &mut after, &frame)?;
                seen.by_session(&frame)?;
                n_ended += usize::from(frame.event == "turn.end");
                if n_ended == n_turns {
                    break;
                }
            }
            hold = 23 + (hold * 7) % 200;
        }
        Ok(())
    }
}

fn check_next(session: &str, after: &mut u64, frame: &Frame) -> Result<(), LoadError> {
    let expected = *after + 1;
    *after = frame.id;
    match frame.id == expected {
        true => Ok(()),
        false => Err(format!("{session}: event {} comes where {expected} should", frame.id).into()),
    }
}

async fn checked(answer: Response, expected: StatusCode) -> Result<Response, LoadError> {
    let status = answer.status();
    if status == expected {
        return Ok(answer);
    }
    Err(format!("{status}: {}", answer.text().await.unwrap_or_default()).into())
}

/// The events that only one of two clients has received so far: both must receive the same.
#[derive(Debug, Default)]
pub(super) struct SeenEvents(Option<Mutex<BTreeMap<u64, (Side, u64)>>>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Turn,
    Session,
}

impl SeenEvents {
    /// Compares the events if the session is followed.
    pub(super) fn new(is_followed: bool) -> Self {
        Self(is_followed.then(Mutex::default))
    }

    fn by_turn(&self, frame: &Frame) -> Result<(), LoadError> {
        self.add(frame, Side::Turn)
    }

    fn by_session(&self, frame: &Frame) -> Result<(), LoadError> {
        self.add(frame, Side::Session)
    }

    fn add(&self, frame: &Frame, side: Side) -> Result<(), LoadError> {
        let Some(open) = &self.0 else { return Ok(()) };
        let digest = hash(&(&frame.event, &frame.data));
        let mut open = open.lock().unwrap_or_else(PoisonError::into_inner);
        match open.remove(&frame.id) {
            None => drop(open.insert(frame.id, (side, digest))),
            Some((other, same)) if other != side && same == digest => {}
            Some(_) => {
                return Err(format!("event {} differs between the turn and the session", frame.id).into());
            }
        }
        Ok(())
    }

    /// Whether both clients have received the same events.
    pub(super) fn is_even(&self) -> bool {
        let open = self.0.as_ref().map(|it| it.lock().unwrap_or_else(PoisonError::into_inner));
        open.is_none_or(|it| it.is_empty())
    }
}

fn hash(value: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}
