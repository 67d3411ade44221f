//! A store on which processes live and die, one after the other, and what is seen of a run at the end.

use std::collections::BTreeMap;
use std::sync::Arc;

use contexture_agent::CancellationToken;
use contexture_flow::{Flow, QuestionKind, RunError, RunId, RunInfo, RunList, RunStart, RunStatus, Wait};
use contexture_history::{Body, Change, Item, TurnNo, TurnStatus};
use contexture_session::conformance::Layered;
use contexture_session::{Documents, SessionId, SessionKey, Store, Tenant, Time};
use serde_json::{Value, json};

use crate::fuse::{Fuse, Last};
use crate::scene::{LEASE, Scene, flow};

/// What can be seen of a run from outside, once it is as far as it gets.
#[derive(Debug, PartialEq)]
pub(crate) struct Seen {
    pub(crate) status: RunStatus,
    outputs: BTreeMap<String, Value>,
    pub(crate) error: Option<String>,
    /// What the threads say, by label; the main one has none.
    pub(crate) threads: BTreeMap<String, Vec<String>>,
    /// What tools did, in all processes.
    pub(crate) calls: Vec<Value>,
}

/// A store, and what is the same for all processes on it.
pub(crate) struct World<S> {
    pub(crate) store: Arc<S>,
    pub(crate) time: Arc<dyn Time>,
    pub(crate) flow: Flow,
    /// Whose run it is: others may be in the same store.
    pub(crate) tenant: Tenant,
}

impl<S: Store + Documents> World<S> {
    /// Starts a process that has the life of a fuse.
    pub(crate) fn process(&self, fuse: &Fuse) -> Scene {
        let store = Arc::new(Layered { store: Arc::clone(&self.store), interference: fuse.clone() });
        let scene = Scene::mortal(store.clone(), store, Arc::clone(&self.time), fuse.clone());
        let sessions = scene.sessions.of_tenant(self.tenant.clone());
        let runtime = scene.runtime.of_tenant(self.tenant.clone());
        Scene { sessions, runtime, ..scene }
    }

    /// What a process does that is told to run the flow: it begins the run unless somebody has, and answers for everybody.
    pub(crate) async fn lives(&self, scene: &Scene) -> Result<RunInfo, RunError> {
        let session = Some(SessionId::parse("s").unwrap());
        let start = RunStart { session, input: json!({}), key: Some("once".to_owned()), user: None };
        let run = scene.runtime.start(&self.flow, start).await?;
        loop {
            let info = scene.runtime.drive(&run, CancellationToken::new()).await?;
            let waits: Vec<&Wait> = info.waits.iter().filter(|it| said(it).is_some()).collect();
            if waits.is_empty() {
                return Ok(info);
            }
            for wait in waits {
                scene.runtime.answer(&run, &wait.id, said(wait).unwrap()).await?;
            }
        }
    }

    /// Lets processes live and die, one after the other; the last one lives.
    pub(crate) async fn history(&self, fuses: &[Fuse]) -> Seen {
        let mut calls = Vec::new();
        let mut is_taken_over = false;
        for fuse in fuses.iter().chain([&Fuse::default()]) {
            let scene = self.process(fuse);
            if is_taken_over {
                self.time.sleep(LEASE).await;
                self.check_due(&scene).await;
            }
            is_taken_over = true;
            let info = tokio::select! {
                info = self.lives(&scene) => Some(info.unwrap()),
                () = fuse.blown() => None,
            };
            calls.extend(scene.calls.lock().unwrap().drain(..));
            if let Some(info) = info {
                return self.seen(&scene, info, calls).await;
            }
        }
        panic!("the last process lives");
    }

    pub(crate) async fn seen(&self, scene: &Scene, info: RunInfo, calls: Vec<Value>) -> Seen {
        let session = SessionKey { tenant: self.tenant.clone(), session: info.session.clone() };
        let mut threads = BTreeMap::new();
        for thread in self.store.threads(session).await.unwrap() {
            let says = scene.says(thread.thread.as_str()).await;
            check_ends(&scene.thread(thread.thread.as_str()).await.all(None).await.unwrap());
            threads.insert(thread.label.unwrap_or_default(), says);
        }
        let error = info.error.map(|it| it.code);
        Seen { status: info.status, outputs: info.outputs, error, threads, calls }
    }

    /// A run that goes on and has no driver is listed as such.
    async fn check_due(&self, scene: &Scene) {
        let due = scene.runtime.due(None, 1000).await.unwrap().into_iter();
        let due: Vec<RunId> = due.filter(|it| it.0 == self.tenant).map(|it| it.1).collect();
        let list = RunList { max: 10, ..RunList::default() };
        for info in scene.runtime.list(&list).await.unwrap().runs {
            assert!(info.status != RunStatus::Running || due.contains(&info.run), "{info:?}");
        }
    }
}

/// A turn ends once, however often its process or the store was lost.
fn check_ends(items: &[Item]) {
    let mut ends: BTreeMap<TurnNo, Vec<&Body>> = BTreeMap::new();
    for item in items {
        if let Body::Change(Change::TurnEnded { status, .. }) = &item.body
            && *status != TurnStatus::Suspended
        {
            ends.entry(item.turn).or_default().push(&item.body);
        }
    }
    assert!(ends.values().all(|it| it.len() == 1), "{ends:?}");
}

/// What everybody answers, if they answer at all.
fn said(wait: &Wait) -> Option<Value> {
    match (wait.asked.kind, wait.asked.message.as_str()) {
        (QuestionKind::Approval, _) => Some(json!({"approve": true})),
        (QuestionKind::Input, "") if wait.id.ends_with(".3") => None,
        (QuestionKind::Input, "") => Some(json!(format!("This is {}.", wait.id))),
        (QuestionKind::Input, message) => Some(json!(message)),
    }
}

pub(crate) fn once(k: u64, last: Last) -> Vec<Fuse> {
    vec![Fuse::at(k, last)]
}

/// The second process dies as well, a few steps after it took over.
pub(crate) fn twice(k: u64, last: Last) -> Vec<Fuse> {
    vec![Fuse::at(k, last), Fuse::at(1 + k % 7, last)]
}

pub(crate) fn is_same(seen: &Seen, undisturbed: &Seen) -> bool {
    let of = |it: &Seen| (it.status, it.outputs.clone(), it.error.clone(), it.threads.clone());
    of(seen) == of(undisturbed)
}

/// A model that looks something up, somebody who wants to pay, and a payment that waits for approval.
pub(crate) fn payment() -> Flow {
    flow(json!({
        "nodes": {
            "ask": {"type": "user_input", "message": "!tool pay {\"eur\": 7}"},
            "look": {"type": "llm_request", "prompt": "chat", "repeat": true, "with": {"user": "!tool look {}"}},
            "pay": {"type": "llm_request", "prompt": "chat", "repeat": true},
            "tools": {"type": "tools", "names": ["look"]},
            "purse": {"type": "tools", "names": ["pay"]},
        },
        "edges": [
            "start -> look", "tools.tools -> look.tools", "look -> ask",
            "ask.value -> pay.user", "purse.tools -> pay.tools",
        ],
        "outputs": {"text": "pay.text"},
    }))
}
