//! The scheduler, on random graphs and in random order: compared with a second, simpler account of what it must do.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use contexture_agent::CancellationToken;
use contexture_compose::BoxFuture;
use contexture_flow::{RunError, RunEvent, RunId, RunInfo, RunStatus, Runtime};
use contexture_session::MemoryStore;
use contexture_testkit::{TokioTime, timeless};
use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::fuse::Fuse;
use crate::net::{Gate, Net, nets};
use crate::reference::{Reference, streams};
use crate::scene::{LEASE, Scene};

/// How often the `user_input` of a loop is answered.
const ROUNDS: u32 = 3;

/// What the test decides while a run goes on.
#[derive(Clone, Debug)]
struct Play {
    /// Which node ends next, over and over.
    picks: Vec<u16>,
    /// After how many ends each process goes, and how.
    deaths: Vec<(u16, Death)>,
    /// From where the run is followed.
    after: u64,
}

/// How a process goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Death {
    /// It is gone as soon as a node may end, and hears nothing of it.
    AtOnce,
    /// It is gone when all is quiet.
    InPeace,
    /// It is told to leave the run to others.
    Told,
}

fn plays(max_deaths: usize) -> impl Strategy<Value = Play> {
    let death = prop_oneof![Just(Death::AtOnce), Just(Death::InPeace), Just(Death::Told)];
    let deaths = vec((0..12_u16, death), 0..=max_deaths);
    (vec(any::<u16>(), 1..24), deaths, 0..20_u64).prop_map(|(picks, deaths, after)| Play {
        picks,
        deaths,
        after,
    })
}

/// What became of a run.
struct Played {
    info: RunInfo,
    log: Vec<(u64, RunEvent)>,
    /// How it stood before the test cancelled it, if it did.
    is_cancelled: bool,
}

/// What the test does while a process drives a run.
struct Hand<'a> {
    scene: &'a Scene,
    run: &'a RunId,
    gate: &'a Gate,
    picks: &'a mut dyn Iterator<Item = usize>,
}

impl Hand<'_> {
    /// Lets nodes end, one at a time, and answers them, until the process dies.
    async fn play(&mut self, death: Option<(u16, Death)>) {
        let (mut ends, mut idle) = (0, 0);
        loop {
            // The clock stands while anybody has something to do, so by then all is quiet.
            tokio::time::sleep(Duration::from_millis(1)).await;
            if death.is_some_and(|(after, how)| after <= ends && how != Death::AtOnce) {
                return;
            }
            let pick = self.picks.next().unwrap();
            let has_answered = pick.is_multiple_of(3) && answer(self.scene, self.run, pick).await;
            idle = if self.gate.open(pick) || has_answered { 0 } else { idle + 1 };
            assert!(idle < 10_000, "nothing happens any more");
            ends += u16::from(idle == 0);
            if death == Some((ends, Death::AtOnce)) {
                return;
            }
        }
    }
}

/// Answers one of the things that a run waits for with its own id. A loop ends some time.
async fn answer(scene: &Scene, run: &RunId, pick: usize) -> bool {
    let mut waits = scene.runtime.info(run).await.unwrap().waits;
    waits.retain(|it| it.node != "ask" || it.id <= format!("ask.{ROUNDS}"));
    if waits.is_empty() {
        return false;
    }
    let wait = &waits[pick % waits.len()].id;
    scene.runtime.answer(run, wait, json!(wait)).await.unwrap();
    true
}

fn driven(
    scene: &Scene,
    run: &RunId,
    stop: &CancellationToken,
) -> BoxFuture<'static, Result<RunInfo, RunError>> {
    let (runtime, run, stop) = (scene.runtime.clone(), run.clone(), stop.clone());
    Box::pin(async move { runtime.drive(&run, stop).await })
}

/// Follows a run after a number to its end.
async fn followed(runtime: Runtime, run: RunId, mut after: u64) -> Result<Vec<(u64, RunEvent)>, RunError> {
    let mut heard = Vec::new();
    loop {
        let end = runtime.last_number(&run).await?;
        while let page = runtime.events(&run, after, 3).await?
            && let Some((number, _)) = page.last()
        {
            after = *number;
            heard.extend(page);
        }
        match heard.last() {
            Some((_, RunEvent::RunEnd { .. })) => return Ok(heard),
            _ => runtime.grown(&run, end).await?,
        }
    }
}

/// Plays a net to its end. Whoever dies is followed by another process on the same store.
async fn played(net: &Net, play: &Play) -> Played {
    let clock = TokioTime::new();
    let store = Arc::new(MemoryStore::new(Arc::new(clock)));
    let scene = || Scene::mortal(store.clone(), store.clone(), Arc::new(clock), Fuse::default());
    let mut picks = play.picks.iter().map(|it| usize::from(*it)).cycle();
    let mut deaths = play.deaths.iter().copied();
    let watcher = scene();
    let run = watcher.start(&net.flow(&Gate::default()), "s", json!({"seed": "seed"})).await;
    let followed = tokio::spawn(followed(watcher.runtime.clone(), run.clone(), play.after));
    let mut stopped = Vec::new();
    let info = loop {
        let (scene, gate) = (scene(), Gate::default());
        scene.add(net.flow(&gate));
        let death = deaths.next();
        let mut hand = Hand { scene: &watcher, run: &run, gate: &gate, picks: &mut picks };
        let stop = CancellationToken::new();
        let mut drive = driven(&scene, &run, &stop);
        let info = tokio::select! {
            info = &mut drive => Some(info.unwrap()),
            () = hand.play(death) => None,
        };
        let (most, most_writing) = gate.most();
        assert!(most <= net.max_concurrency as usize && most_writing <= 1, "{most} {most_writing}");
        match info {
            Some(info) if info.status.is_over() => break info,
            Some(info) if !answer(&watcher, &run, info.waits.len()).await => break info,
            Some(_) => {}
            None if death.is_some_and(|it| it.1 == Death::Told) => {
                stop.cancel();
                assert_eq!(drive.await.unwrap().status, RunStatus::Running);
            }
            None => {
                stopped.push((drive, gate));
                tokio::time::sleep(LEASE).await;
            }
        }
        let due = watcher.runtime.due(None, 10).await.unwrap();
        assert!(due.iter().any(|(_, it)| *it == run), "the run needs a driver");
    };
    let is_cancelled = info.status == RunStatus::Waiting;
    let log = if is_cancelled { Some(watcher.runtime.events(&run, 0, 100_000).await.unwrap()) } else { None };
    if is_cancelled {
        watcher.runtime.cancel(&run).await.unwrap();
        watcher.add(net.flow(&Gate::default()));
        assert_eq!(watcher.drive(&run).await.status, RunStatus::Cancelled);
    }
    for (drive, gate) in stopped {
        // It was only stopped, not dead: now it goes on, and finds out.
        while gate.open(0) {}
        assert!(matches!(drive.await, Err(RunError::Driven { .. })));
    }
    let whole = watcher.runtime.events(&run, 0, 100_000).await.unwrap();
    let behind: Vec<_> = whole.iter().filter(|it| it.0 > play.after).cloned().collect();
    // Whoever follows from behind the end waits for ever.
    if !behind.is_empty() {
        assert_eq!(followed.await.unwrap().unwrap(), behind);
    }
    Reference::read(net, &whole);
    assert_eq!(watcher.runtime.due(None, 10).await.unwrap(), []);
    Played { info, log: log.unwrap_or(whole), is_cancelled }
}

/// Lists what nodes began with and what they gave, firing by firing.
fn firings(log: &[(u64, RunEvent)]) -> BTreeMap<String, Vec<(Value, Value)>> {
    let mut firings: BTreeMap<String, Vec<(Value, Value)>> = BTreeMap::new();
    for (_, event) in log {
        match event {
            RunEvent::NodeStart { node, inputs, .. } => {
                let inputs: BTreeMap<_, _> = inputs.iter().map(|(name, it)| (name, it.to_json())).collect();
                firings.entry(node.to_string()).or_default().push((json!(inputs), Value::Null));
            }
            RunEvent::NodeEnd { node, outputs, .. } => {
                let outputs: BTreeMap<_, _> = outputs.iter().map(|(name, it)| (name, it.to_json())).collect();
                firings.get_mut(&**node).unwrap().last_mut().unwrap().1 = json!(outputs);
            }
            _ => {}
        }
    }
    firings
}

/// The run ends as it must: whoever got something in vain is named.
fn check_end(net: &Net, played: &Played) {
    let reference = Reference::read(net, &played.log);
    let starved = reference.starved();
    match (&played.info.error, played.is_cancelled) {
        (_, true) => {}
        (None, _) => {
            assert_eq!((played.info.status, starved), (RunStatus::Completed, vec![]));
        }
        (Some(error), _) => {
            assert_eq!((played.info.status, error.code.as_str()), (RunStatus::Failed, "flow_stalled"));
            let node = played.info.node.as_deref().unwrap();
            assert!(starved.contains(&node), "{node}: {starved:?}");
            assert!(error.message.contains(&format!("`{node}`")), "{error}");
        }
    }
}

fn check_streams(net: &Net, played: &Played) {
    if net.is_loop || !net.is_deterministic() {
        return;
    }
    let mut began: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    for (node, each) in firings(&played.log) {
        began.insert(node, each.into_iter().map(|(inputs, _)| inputs).collect());
    }
    began.remove("start");
    let expected = streams(net, "seed").into_iter();
    let expected: BTreeMap<String, Vec<Value>> =
        expected.map(|(node, each)| (node, each.iter().map(|it| json!(it)).collect())).collect();
    assert_eq!(began, expected);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn every_node_runs_when_its_inputs_are_there(net in nets(), play in plays(0)) {
        let played = timeless(played(&net, &play));
        check_end(&net, &played);
        check_streams(&net, &played);
    }

    #[test]
    fn neither_order_nor_deaths_change_what_nodes_get(net in nets(), one in plays(0), two in plays(6)) {
        let (one, two) = (timeless(played(&net, &one)), timeless(played(&net, &two)));
        check_end(&net, &two);
        check_streams(&net, &two);
        if net.is_deterministic() {
            prop_assert_eq!(firings(&one.log), firings(&two.log));
            prop_assert_eq!(one.info.status, two.info.status);
            prop_assert_eq!(one.info.outputs, two.info.outputs);
            prop_assert_eq!(one.info.error, two.info.error);
        }
    }
}
