//! Somebody who calls: any instance that is up, and again until it is known what came of it.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::cluster::Places;
use crate::dice::Dice;

/// How long a request may take.
const PATIENCE: Duration = Duration::from_secs(30);

pub(crate) struct Caller {
    http: reqwest::Client,
    places: Places,
    dice: Mutex<Dice>,
    troubles: Mutex<Vec<String>>,
}

/// What an instance said: a status and a document. Nothing, if nobody knows what became of the request.
pub(crate) type Said = Option<(u16, Value)>;

impl Caller {
    pub(crate) fn new(seed: u64, places: Places) -> Self {
        let http = contexture_model::http_client(Vec::new(), None).unwrap();
        Self { http, places, dice: Mutex::new(Dice::new(seed)), troubles: Mutex::default() }
    }

    pub(crate) fn below(&self, end: u64) -> u64 {
        self.dice.lock().unwrap().below(end)
    }

    /// Takes note of something that must not be.
    pub(crate) fn trouble(&self, what: String) {
        self.troubles.lock().unwrap().push(what);
    }

    pub(crate) fn troubles(&self) -> Vec<String> {
        self.troubles.lock().unwrap().clone()
    }

    /// Waits for a moment.
    pub(crate) async fn pause(&self) {
        let pause = 20 + self.below(200);
        tokio::time::sleep(Duration::from_millis(pause)).await;
    }

    async fn url(&self, path: &str) -> String {
        loop {
            let place = self.places.any(&mut self.dice.lock().unwrap());
            if let Some(place) = place {
                return format!("{place}/v1{path}");
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Returns a request to some instance.
    pub(crate) async fn to_get(&self, path: &str) -> reqwest::RequestBuilder {
        self.http.get(self.url(path).await)
    }

    pub(crate) async fn get(&self, path: &str) -> Said {
        said(self.to_get(path).await).await
    }

    pub(crate) async fn post(&self, path: &str, key: Option<&str>, body: &Value) -> Said {
        let request = self
            .http
            .post(self.url(path).await)
            .header("content-type", "application/json")
            .body(body.to_string());
        said(key.into_iter().fold(request, |it, key| it.header("idempotency-key", key))).await
    }

    /// Does the same until something comes of it.
    pub(crate) async fn until<T, F: Future<Output = Option<T>>>(
        &self,
        give_up: Instant,
        what: &str,
        does: impl Fn() -> F,
    ) -> Option<T> {
        loop {
            if let Some(done) = does().await {
                return Some(done);
            }
            if Instant::now() >= give_up {
                self.trouble(format!("nothing came of this: {what}"));
                return None;
            }
            self.pause().await;
        }
    }

    /// Reads a document, when all is well.
    pub(crate) async fn document(&self, path: &str) -> Value {
        let give_up = Instant::now() + PATIENCE;
        let read = || async { self.get(path).await.filter(|it| it.0 == 200).map(|it| it.1) };
        self.until(give_up, path, read).await.unwrap_or_default()
    }
}

/// Sends a request. What says that it should be sent again is as good as no answer.
async fn said(request: reqwest::RequestBuilder) -> Said {
    let said = async {
        let answer = request.send().await.ok()?;
        let status = answer.status().as_u16();
        let text = answer.text().await.ok()?;
        let is_final = status < 500 && status != 429;
        is_final.then(|| (status, serde_json::from_str(&text).unwrap_or_default()))
    };
    tokio::time::timeout(PATIENCE, said).await.ok().flatten()
}
