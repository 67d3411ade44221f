//! Follows a run: whatever breaks the connection, it goes on behind the event that was heard last, on any instance.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::Value;
use tokio::task::JoinHandle;

use crate::caller::Caller;

/// Events with their numbers, in the order in which they came.
pub(crate) type Events = Vec<(u64, Value)>;

/// What was heard of a run.
#[derive(Default)]
struct Heard {
    /// The id of the last event, of whatever kind.
    last: Option<String>,
    /// The run's own events, without those of its turns.
    own: Events,
}

/// How long a connection may be silent: longer than instances are.
const SILENCE: Duration = Duration::from_secs(20);

pub(crate) struct Ears {
    heard: Arc<Mutex<Heard>>,
    task: JoinHandle<()>,
}

impl Ears {
    pub(crate) fn open(caller: &Arc<Caller>, run: &str) -> Self {
        let heard: Arc<Mutex<Heard>> = Arc::default();
        let (caller, run, events) = (Arc::clone(caller), run.to_owned(), Arc::clone(&heard));
        let task = tokio::spawn(async move {
            while !follow(&caller, &run, &events).await {
                caller.pause().await;
            }
        });
        Self { heard, task }
    }

    /// Returns what was heard, as soon as it has come to an event, or nothing more is to be expected.
    pub(crate) async fn upto(&self, last: u64, give_up: Instant) -> Events {
        loop {
            let heard = self.heard.lock().unwrap().own.clone();
            if heard.last().is_some_and(|it| it.0 >= last) || Instant::now() >= give_up {
                return heard;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

impl Drop for Ears {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Hears one connection to its end. Says whether the run is over and all was heard.
async fn follow(caller: &Caller, run: &str, heard: &Mutex<Heard>) -> bool {
    let after = heard.lock().unwrap().last.clone().unwrap_or_else(|| "0".to_owned());
    let request = caller.to_get(&format!("/runs/{run}/events")).await.header("accept", "text/event-stream");
    let request = request.header("last-event-id", &after);
    let Ok(Ok(mut answer)) = tokio::time::timeout(SILENCE, request.send()).await else { return false };
    match answer.status().as_u16() {
        200 => {}
        204 => return true,
        429 | 500.. => return false,
        status => {
            caller.trouble(format!("{run}: {status} where events behind {after} should be"));
            return false;
        }
    }
    // Some hang up by themselves, and take it up elsewhere.
    let mut patience = 5 + caller.below(60);
    let mut text = Vec::new();
    while let Ok(Ok(Some(chunk))) = tokio::time::timeout(SILENCE, answer.chunk()).await {
        text.extend_from_slice(&chunk);
        while let Some(end) = text.windows(2).position(|it| it == b"\n\n") {
            let frame: Vec<u8> = text.drain(..end + 2).collect();
            heard.lock().unwrap().take(&frame);
            patience = patience.saturating_sub(1);
        }
        if patience == 0 {
            return false;
        }
    }
    false
}

impl Heard {
    /// Takes in a frame; what is no event is a sign of life.
    fn take(&mut self, frame: &[u8]) -> Option<()> {
        let text = std::str::from_utf8(frame).ok()?;
        let field = |name: &str| text.lines().find_map(|line| line.strip_prefix(name));
        let id = field("id: ")?;
        self.last = Some(id.to_owned());
        let event: Value = serde_json::from_str(field("data: ")?).ok()?;
        if event["type"] != "node.event" {
            self.own.push((number_in(id)?, event));
        }
        Some(())
    }
}

/// Returns the number with which an id begins: that of the newest item that was told whole.
pub(crate) fn number_in(id: &str) -> Option<u64> {
    id.split(['+', '~']).next()?.parse().ok()
}
