//! Runs that are over are forgotten, with everything that belongs to them, and others are not.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use contexture_agent::CancellationToken;
use contexture_compose::BoxFuture;
use contexture_flow::{Flow, ForgetReport, RunError, RunId, RunList, RunStart, RunStatus};
use contexture_history::Timestamp;
use contexture_session::conformance::SystemTime;
use contexture_session::{Documents, LogKind, LogList, MemoryStore, SessionId, Store, Time};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::fuse::Fuse;
use crate::scene::{Scene, flow, log_of};

const HOUR: i64 = 3_600_000;

/// A clock that shows what it is told.
#[derive(Clone, Debug)]
pub(crate) struct Dial(Arc<AtomicI64>);

impl Dial {
    fn new() -> Self {
        Self(Arc::new(AtomicI64::new(1_700_000_000_000)))
    }

    pub(crate) fn pass(&self, hours: i64) {
        self.0.fetch_add(hours * HOUR, Ordering::Relaxed);
    }

    fn pass_minutes(&self, minutes: i64) {
        self.0.fetch_add(minutes * HOUR / 60, Ordering::Relaxed);
    }

    fn hours_ago(&self, hours: i64) -> Timestamp {
        Timestamp(self.now().0 - hours * HOUR)
    }
}

impl Time for Dial {
    fn now(&self) -> Timestamp {
        Timestamp(self.0.load(Ordering::Relaxed))
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        Box::pin(tokio::time::sleep(duration))
    }
}

/// Processes on one store, and what the store holds.
pub(crate) struct Place {
    pub(crate) dial: Dial,
    store: Arc<dyn Store>,
    documents: Arc<dyn Documents>,
    pub(crate) scene: Scene,
}

impl Place {
    pub(crate) fn on<S: Store + Documents>(store: S) -> Self {
        let (dial, store) = (Dial::new(), Arc::new(store));
        let scene = scene(&dial, store.clone(), store.clone());
        Self { dial, store: store.clone(), documents: store, scene }
    }

    pub(crate) fn memory() -> Self {
        Self::on(MemoryStore::new(Arc::new(SystemTime)))
    }

    /// Another process, which has loaded other flows.
    pub(crate) fn another(&self) -> Scene {
        scene(&self.dial, Arc::clone(&self.store), Arc::clone(&self.documents))
    }

    pub(crate) async fn forget(&self, hours: i64) -> ForgetReport {
        self.scene.runtime.forget(self.dial.hours_ago(hours)).await.unwrap()
    }

    async fn start(&self, flow: &Flow, session: &str, key: &str) -> RunId {
        let session = Some(SessionId::parse(session).unwrap());
        let start = RunStart { session, input: json!({}), key: Some(key.to_owned()), user: None };
        self.scene.runtime.start(flow, start).await.unwrap()
    }

    /// Starts a run of [`ask`] and brings it to its end.
    async fn over(&self, flow: &Flow, session: &str, key: &str) -> RunId {
        let run = self.start(flow, session, key).await;
        let info = self.scene.drive(&run).await;
        assert_eq!(self.scene.say(&info, "x").await.status, RunStatus::Completed);
        run
    }

    /// Says how many runs, definitions and cached values there are.
    pub(crate) async fn holds(&self) -> String {
        let list = LogList { kind: LogKind::Run, tenant: None, session: None, after: None, max: 1000 };
        let mut held = vec![("run", self.store.logs(list).await.unwrap().len())];
        for kind in ["definition", "cache"] {
            let of = format!("flow.{kind}");
            held.push((kind, self.documents.list(of, None, 1000).await.unwrap().len()));
        }
        let some = held.iter().filter(|it| it.1 > 0).map(|(what, n)| format!("{what} {n}"));
        some.collect::<Vec<_>>().join(", ")
    }
}

fn scene(dial: &Dial, store: Arc<dyn Store>, documents: Arc<dyn Documents>) -> Scene {
    Scene::mortal(store, documents, Arc::new(dial.clone()), Fuse::default())
}

pub(crate) fn ask() -> Value {
    json!({"id": "ask", "nodes": {"ask": {"type": "user_input"}}, "edges": ["start -> ask"]})
}

/// All of it, on any store.
pub(crate) async fn runs_are_forgotten(place: Place) {
    let flow = place.scene.flow(ask());
    let old = place.over(&flow, "a", "old").await;
    let waits = place.start(&flow, "a", "waits").await;
    place.scene.drive(&waits).await;
    let due = place.start(&flow, "b", "due").await;
    let stopped = place.start(&flow, "c", "stopped").await;
    place.scene.runtime.cancel(&stopped).await.unwrap();
    assert_eq!(place.scene.drive(&stopped).await.status, RunStatus::Cancelled);
    place.dial.pass(5);
    let young = place.over(&flow, "a", "young").await;

    assert_eq!(place.forget(6).await, ForgetReport::default());
    assert_eq!(place.forget(5).await, ForgetReport::default(), "what is as old as that stays");
    let forgotten = place.forget(4).await;
    assert_eq!(forgotten, ForgetReport { runs: 2, ..ForgetReport::default() });
    assert_eq!(place.holds().await, "run 3, definition 1");
    for run in [&old, &stopped] {
        let read = place.store.head(log_of(run)).await.unwrap();
        assert_eq!(read, None);
        let shown = place.scene.runtime.info(run).await;
        assert!(matches!(shown, Err(RunError::NotFound { .. })), "{shown:?}");
        let driven = place.scene.runtime.drive(run, CancellationToken::new()).await;
        assert!(matches!(driven, Err(RunError::NotFound { .. })), "{driven:?}");
        let told = place.scene.runtime.cancel(run).await;
        assert!(matches!(told, Err(RunError::NotFound { .. })), "{told:?}");
    }
    let list = place.scene.runtime.list(&RunList { max: 10, ..RunList::default() }).await.unwrap();
    let listed: BTreeSet<RunId> = list.runs.into_iter().map(|it| it.run).collect();
    assert_eq!(listed, BTreeSet::from([waits.clone(), due.clone(), young.clone()]));

    // The session is as it was, and those that stayed go on.
    let info = place.scene.runtime.info(&waits).await.unwrap();
    assert_eq!(place.scene.say(&info, "x").await.status, RunStatus::Completed);
    assert_eq!(place.scene.drive(&due).await.status, RunStatus::Waiting);
    // A key whose run is there gives it, and one whose run was forgotten another one.
    assert_eq!(place.start(&flow, "a", "young").await, young);
    let again = place.start(&flow, "a", "old").await;
    assert_ne!(again, old);
    assert_eq!(place.start(&flow, "a", "old").await, again);
}

#[tokio::test]
async fn runs_are_forgotten_in_memory() {
    runs_are_forgotten(Place::memory()).await;
}

#[tokio::test]
async fn a_start_key_goes_with_its_session() {
    let place = Place::memory();
    let flow = place.scene.flow(ask());
    let run = place.start(&flow, "a", "k").await;
    assert!(place.scene.sessions.delete(run.session()).await.unwrap());
    assert_eq!(place.holds().await, "definition 1");
    assert!(!place.scene.sessions.delete(run.session()).await.unwrap());
    let again = place.start(&flow, "a", "k").await;
    assert_ne!(again, run);
    assert_eq!(place.start(&flow, "b", "k").await, again);
}

#[tokio::test]
async fn a_start_key_whose_session_is_gone_counts_for_nothing() {
    let place = Place::memory();
    let flow = place.scene.flow(ask());
    let (one, two) = (place.start(&flow, "a", "one").await, place.start(&flow, "b", "two").await);
    for run in [&one, &two] {
        place.scene.sessions.delete(run.session()).await.unwrap();
    }
    // Of many who come with it at once one begins a run.
    let starts = (0..8).map(|_| place.start(&flow, "c", "one"));
    let runs: BTreeSet<RunId> = futures::future::join_all(starts).await.into_iter().collect();
    assert_eq!(runs.len(), 1, "{runs:?}");
    assert!(!runs.contains(&one));
    assert_eq!(place.holds().await, "run 1, definition 1");
}

#[tokio::test]
async fn a_version_of_a_flow_stays_as_long_as_a_run_needs_it() {
    let place = Place::memory();
    let flow = place.scene.flow(ask());
    let waits = place.start(&flow, "a", "k").await;
    let info = place.scene.drive(&waits).await;
    for _ in 0..3 {
        place.dial.pass(100);
        assert_eq!(place.forget(50).await.definitions, 0);
    }
    // The file is gone: what was kept is all there is.
    let other = place.another();
    let info = other.say(&info, "x").await;
    assert_eq!(info.status, RunStatus::Completed, "{:?}", info.error);
    place.dial.pass(40);
    assert_eq!(place.forget(50).await, ForgetReport::default(), "it was needed not so long ago");
    place.dial.pass(100);
    assert_eq!(place.forget(50).await, ForgetReport { runs: 1, definitions: 1, ..ForgetReport::default() });
    assert_eq!(place.holds().await, "");
    // Who begins a run after long writes it down again.
    let again = place.start(&flow, "a", "k").await;
    assert_eq!(place.another().drive(&again).await.status, RunStatus::Waiting);
}

#[tokio::test]
async fn a_version_of_a_flow_that_was_just_used_is_not_forgotten() {
    let place = Place::memory();
    let flow = place.scene.flow(ask());
    place.over(&flow, "a", "k").await;
    place.dial.pass(1);
    let forgotten = place.forget(0).await;
    assert_eq!(forgotten, ForgetReport { runs: 1, ..ForgetReport::default() });
    assert_eq!(place.holds().await, "definition 1");
}

/// A flow that says whether its only node remembers something.
fn cached(id: &str, config: Value) -> Flow {
    let mut cache = json!({"type": "cache", "with": {"key": "k"}});
    cache.as_object_mut().unwrap().extend(config.as_object().unwrap().clone());
    flow(json!({
        "id": id,
        "nodes": {"cache": cache, "make": {"type": "transform", "template": "made"}},
        "edges": ["start -> cache", "make.value -> cache.value"],
        "outputs": {"hit": "cache.hit"},
    }))
}

#[tokio::test]
async fn what_a_node_remembers_stays_as_long_as_it_is_used() {
    let place = Place::memory();
    let used = place.scene.add(cached("used", json!({"scope": "tenant"})));
    let left = place.scene.add(cached("left", json!({"scope": "tenant"})));
    let short = place.scene.add(cached("short", json!({"scope": "tenant", "ttl_seconds": 36000})));
    let hit = async |flow: &Flow| place.scene.run(flow, "s", json!({})).await.outputs["hit"].clone();
    for flow in [&used, &left, &short] {
        assert_eq!(hit(flow).await, false);
    }
    for _ in 0..3 {
        place.dial.pass(4);
        assert_eq!(hit(&used).await, true);
        assert_eq!(place.forget(14).await.cached, 0);
    }
    assert_eq!(hit(&short).await, false, "its time is over, however often it was used");
    place.dial.pass(4);
    assert_eq!(place.forget(14).await.cached, 1);
    assert_eq!([hit(&used).await, hit(&left).await], [json!(true), json!(false)]);
}

#[tokio::test]
async fn what_a_node_has_just_used_is_not_forgotten() {
    let place = Place::memory();
    let used = place.scene.add(cached("used", json!({"scope": "tenant"})));
    let hit = async || place.scene.run(&used, "s", json!({})).await.outputs["hit"].clone();
    assert_eq!(hit().await, false);
    // Each use is young enough, and what was written for an earlier one is not.
    for _ in 0..6 {
        place.dial.pass_minutes(40);
        assert_eq!(hit().await, true);
        place.dial.pass_minutes(5);
        let before = Timestamp(place.dial.now().0 - HOUR / 4);
        assert_eq!(place.scene.runtime.forget(before).await.unwrap().cached, 0);
    }
    place.dial.pass(3);
    assert_eq!(place.forget(1).await.cached, 1);
}

#[tokio::test]
async fn what_has_a_time_to_live_stays_until_then() {
    let place = Place::memory();
    let long = place.scene.add(cached("long", json!({"scope": "tenant", "ttl_seconds": 10 * 3600})));
    let hit = async |flow: &Flow| place.scene.run(flow, "s", json!({})).await.outputs["hit"].clone();
    assert_eq!(hit(&long).await, false);
    place.dial.pass(9);
    assert_eq!(place.forget(1).await.cached, 0);
    assert_eq!(hit(&long).await, true);
    // Who wants it younger than it is makes it anew.
    let younger = place.scene.add(cached("long", json!({"scope": "tenant", "ttl_seconds": 1800})));
    assert_eq!(hit(&younger).await, false);
    assert_eq!(hit(&younger).await, true);
    place.dial.pass(1);
    assert_eq!(hit(&long).await, false);
    place.dial.pass(20);
    assert_eq!(place.forget(1).await.cached, 1);
}

#[tokio::test]
async fn several_may_forget_at_once() {
    let place = Place::memory();
    let flow = place.scene.flow(ask());
    for n in 0..20 {
        place.over(&flow, &format!("s{}", n % 3), &format!("k{n}")).await;
    }
    place.dial.pass(5);
    let others = [place.another(), place.another(), place.another()];
    let before = place.dial.hours_ago(3);
    let forgetting = others.iter().map(|it| it.runtime.forget(before));
    let forgotten = futures::future::try_join_all(forgetting).await.unwrap();
    assert_eq!(forgotten.iter().map(|it| it.runs).sum::<u64>(), 20);
    assert_eq!(place.holds().await, "");
}

/// What may happen to runs. Sessions and keys are few.
#[derive(Clone, Debug)]
enum Act {
    Start { session: usize, key: usize },
    Answer { which: usize },
    Cancel { which: usize },
    Pass { hours: i64 },
    Forget { hours: i64 },
    Delete { session: usize },
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let act = prop_oneof![
        4 => (0..3_usize, 0..4_usize).prop_map(|(session, key)| Act::Start { session, key }),
        3 => (0..9_usize).prop_map(|which| Act::Answer { which }),
        1 => (0..9_usize).prop_map(|which| Act::Cancel { which }),
        3 => (1..9_i64).prop_map(|hours| Act::Pass { hours }),
        3 => (0..12_i64).prop_map(|hours| Act::Forget { hours }),
        1 => (0..3_usize).prop_map(|session| Act::Delete { session }),
    ];
    proptest::collection::vec(act, 1..30)
}

/// A run as a test remembers it.
#[derive(Clone, Debug)]
struct Known {
    key: usize,
    over: Option<i64>,
}

async fn play(acts: Vec<Act>) {
    let place = Place::memory();
    let flow = place.scene.flow(ask());
    let mut known: BTreeMap<RunId, Known> = BTreeMap::new();
    for act in acts {
        let now = place.dial.now().0;
        let pick = |known: &BTreeMap<RunId, Known>, which: usize| {
            let going: Vec<RunId> =
                known.iter().filter(|it| it.1.over.is_none()).map(|it| it.0.clone()).collect();
            (!going.is_empty()).then(|| going[which % going.len()].clone())
        };
        match act {
            Act::Start { session, key } => {
                let run = place.start(&flow, &format!("s{session}"), &format!("k{key}")).await;
                match known.iter().find(|it| it.1.key == key) {
                    Some((first, _)) => assert_eq!(run, *first, "the same key gives the first run"),
                    None => {
                        assert!(!known.contains_key(&run));
                        known.insert(run.clone(), Known { key, over: None });
                        assert_eq!(place.scene.drive(&run).await.status, RunStatus::Waiting);
                    }
                }
            }
            Act::Answer { which } => {
                let Some(run) = pick(&known, which) else { continue };
                let info = place.scene.runtime.info(&run).await.unwrap();
                assert_eq!(place.scene.say(&info, "x").await.status, RunStatus::Completed);
                known.get_mut(&run).unwrap().over = Some(now);
            }
            Act::Cancel { which } => {
                let Some(run) = pick(&known, which) else { continue };
                place.scene.runtime.cancel(&run).await.unwrap();
                assert_eq!(place.scene.drive(&run).await.status, RunStatus::Cancelled);
                known.get_mut(&run).unwrap().over = Some(now);
            }
            Act::Pass { hours } => place.dial.pass(hours),
            Act::Forget { hours } => {
                let n_before = known.len();
                known.retain(|_, it| it.over.is_none_or(|over| over >= now - hours * HOUR));
                assert_eq!(place.forget(hours).await.runs, (n_before - known.len()) as u64);
            }
            Act::Delete { session } => {
                let id = SessionId::parse(format!("s{session}")).unwrap();
                place.scene.sessions.delete(&id).await.unwrap();
                known.retain(|run, _| *run.session() != id);
            }
        }
        let list = place.scene.runtime.list(&RunList { max: 100, ..RunList::default() }).await.unwrap();
        let listed: Vec<RunId> = list.runs.into_iter().map(|it| it.run).collect();
        assert_eq!(listed, known.keys().cloned().collect::<Vec<_>>());
    }
    // Those that wait can go on with nothing but what is on record.
    let other = place.another();
    for run in known.iter().filter(|it| it.1.over.is_none()).map(|it| it.0) {
        let info = other.runtime.info(run).await.unwrap();
        assert_eq!(other.say(&info, "x").await.status, RunStatus::Completed);
    }
    place.dial.pass(1000);
    place.forget(1).await;
    place.dial.pass(1000);
    place.forget(1).await;
    assert_eq!(place.holds().await, "");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn nothing_is_forgotten_that_is_needed_and_nothing_else_stays(acts in acts()) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(play(acts));
    }
}
