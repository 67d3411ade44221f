//! Somebody who has flows run: a chat that goes on and on, or one digest after the other.
//!
//! A run is started with a key and a wait is answered by its id, both again and again until it is known what came of it, on
//! whichever instance. Everything that happens is listened to.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::caller::Caller;
use crate::cluster::Places;
use crate::ears::Ears;
use crate::user::answer_to;

/// How long something may take that nothing disturbs any more: a few leases, and a machine so busy that its database takes
/// a minute to stop.
pub(crate) const LAST_PATIENCE: Duration = Duration::from_secs(180);

/// Asks and answers for ever.
pub(crate) const CHAT: &str = "
nodes:
  ask: {type: user_input}
  answer: {type: llm_request, prompt: chat}
edges:
  - start -> ask
  - ask.value -> answer.user
  - answer -> ask
outputs: {text: answer.text}
";

/// Asks twice at the same time, in threads of their own, and says in the main one what came of it.
pub(crate) const DIGEST: &str = "
inputs: {topic: string}
nodes:
  fan: {type: parallel, branches: [left, right]}
  left_thread: {type: new_thread, label: left}
  right_thread: {type: new_thread, label: right}
  left: {type: llm_request, prompt: chat}
  right: {type: llm_request, prompt: chat}
  both: {type: join, inputs: {left: string, right: string}}
  text: {type: transform, inputs: {both: object}, template: '{{ both.left }} / {{ both.right }}'}
  end: {type: manual_input, text: '{{ data }}'}
edges:
  - start.topic -> fan.value
  - start -> left_thread
  - start -> right_thread
  - fan.left -> left.user
  - fan.right -> right.user
  - left_thread.thread -> left.thread
  - right_thread.thread -> right.thread
  - left.text -> both.left
  - right.text -> both.right
  - both.value -> text.both
  - text.value -> end.data
outputs: {text: end.text}
";

/// Returns what a digest comes to.
pub(crate) fn digest_of(topic: &str) -> String {
    format!("{0} / {0}", answer_to(topic))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Chat,
    Digest,
}

pub(crate) struct Runner {
    pub(crate) kind: Kind,
    pub(crate) session: String,
    pub(crate) caller: Arc<Caller>,
    pub(crate) runs: Mutex<Vec<Arc<Run>>>,
}

/// A run, and what is known of it.
pub(crate) struct Run {
    pub(crate) id: String,
    /// What was said to it: each of it is on record. Of a digest, its topic.
    pub(crate) said: Mutex<Vec<String>>,
    pub(crate) ears: Ears,
}

impl Runner {
    pub(crate) fn new(idx: usize, seed: u64, places: Places) -> Self {
        let caller = Caller::new(seed ^ (idx as u64 + 1).wrapping_mul(0x0fed_cba9_8765_4321), places);
        let kind = if idx.is_multiple_of(2) { Kind::Chat } else { Kind::Digest };
        Self { kind, session: format!("r{idx}"), caller: Arc::new(caller), runs: Mutex::default() }
    }

    pub(crate) fn runs(&self) -> Vec<Arc<Run>> {
        self.runs.lock().unwrap().clone()
    }

    /// Returns how much came of it.
    pub(crate) fn n_said(&self) -> usize {
        self.runs().iter().map(|it| it.said.lock().unwrap().len()).sum()
    }

    pub(crate) async fn work_until(&self, deadline: Instant) {
        while Instant::now() < deadline {
            self.step(deadline + LAST_PATIENCE).await;
            if !self.caller.troubles().is_empty() {
                return;
            }
        }
    }

    /// Does one thing more when all is well again.
    pub(crate) async fn last_step(&self) {
        self.step(Instant::now() + LAST_PATIENCE).await;
    }

    async fn step(&self, give_up: Instant) {
        match self.kind {
            Kind::Chat => self.say_something(give_up).await,
            Kind::Digest => self.digest(give_up).await,
        };
    }

    /// Says the next thing in the chat, and waits until the run asks for more.
    async fn say_something(&self, give_up: Instant) -> Option<()> {
        let first = self.runs().first().cloned();
        let run = match first {
            Some(run) => run,
            None => self.start("chat", &json!({}), give_up).await?,
        };
        let n_said = run.said.lock().unwrap().len() + 1;
        let (wait, text) = (format!("ask.{n_said}"), format!("{}-{n_said}", self.session));
        self.waits(&run, &wait, give_up).await?;
        self.answer(&run, &wait, &text, give_up).await?;
        run.said.lock().unwrap().push(text);
        self.waits(&run, &format!("ask.{}", n_said + 1), give_up).await
    }

    /// Has a digest made.
    async fn digest(&self, give_up: Instant) -> Option<()> {
        let topic = format!("{}-{}", self.session, self.runs().len() + 1);
        let run = self.start("digest", &json!({"topic": topic}), give_up).await?;
        let what = format!("{} is completed", run.id);
        let view = self.caller.until(give_up, &what, || self.at(&run, "completed")).await?;
        if view["outputs"]["text"] != digest_of(&topic) {
            self.caller.trouble(format!("{}: another end: {view}", run.id));
        }
        run.said.lock().unwrap().push(topic);
        Some(())
    }

    async fn start(&self, flow: &str, input: &Value, give_up: Instant) -> Option<Arc<Run>> {
        let (path, key) = (format!("/flows/{flow}/runs"), format!("{}-{}", self.session, self.runs().len()));
        let body = json!({"session": self.session, "input": input, "wait": self.caller.below(3) == 0});
        let started = || async {
            match self.caller.post(&path, Some(&key), &body).await? {
                (201, view) => view["run"].as_str().map(str::to_owned),
                (status, said) => {
                    self.caller.trouble(format!("{key}: {status} {said}"));
                    None
                }
            }
        };
        let id = self.caller.until(give_up, &format!("{key} starts"), started).await?;
        if let Some(again) = started().await.filter(|it| *it != id) {
            self.caller.trouble(format!("{key} has started {id} and {again}"));
        }
        let ears = Ears::open(&self.caller, &id);
        let run = Arc::new(Run { id, said: Mutex::default(), ears });
        self.runs.lock().unwrap().push(Arc::clone(&run));
        Some(run)
    }

    /// Returns a run as it is, if it has come to a status.
    async fn at(&self, run: &Run, status: &str) -> Option<Value> {
        let (code, view) = self.caller.get(&format!("/runs/{}", run.id)).await?;
        let is_lost = view["status"] == "failed" || view["status"] == "cancelled";
        if code != 200 || is_lost {
            self.caller.trouble(format!("{}: {code} {view}", run.id));
        }
        (view["status"] == status).then_some(view)
    }

    /// Waits until a run waits for one thing, and this is it.
    async fn waits(&self, run: &Run, wait: &str, give_up: Instant) -> Option<()> {
        let what = format!("{} waits for {wait}", run.id);
        let view = self.caller.until(give_up, &what, || self.at(run, "waiting")).await?;
        let ids: Vec<&Value> = view["waits"].as_array().into_iter().flatten().map(|it| &it["id"]).collect();
        if ids != [wait] {
            self.caller.trouble(format!("{} waits for {ids:?}, not for {wait}", run.id));
            return None;
        }
        Some(())
    }

    /// Answers a wait until it is known that it is. Nobody else answers: who is told that somebody did was heard before.
    async fn answer(&self, run: &Run, wait: &str, text: &str, give_up: Instant) -> Option<()> {
        let path = format!("/runs/{}/waits/{wait}", run.id);
        let body = json!({"value": text});
        let answered = || async {
            match self.caller.post(&path, None, &body).await? {
                (202, _) => Some(()),
                (409, said) if said["code"] == "wait_answered" => Some(()),
                (status, said) => {
                    self.caller.trouble(format!("{path}: {status} {said}"));
                    None
                }
            }
        };
        self.caller.until(give_up, &path, answered).await?;
        if self.caller.below(3) == 0 {
            let another = json!({"value": format!("{text}-once-more")});
            match self.caller.post(&path, None, &another).await {
                Some((409, said)) if said["code"] == "wait_answered" => {}
                None => {}
                Some((status, said)) => self.caller.trouble(format!("{path} twice: {status} {said}")),
            }
        }
        Some(())
    }
}
