//! Turns that did not come to their end, and go on.

use std::sync::Arc;
use std::time::Duration;

use contexture_history::{Body, Seq, TurnStatus};
use contexture_message::Message;
use contexture_session::{
    Begun, MemoryStore, Policy, Ports, RunningTurn, SessionConfig, SessionError, SessionId, SessionStart,
    Sessions, State, Store, Thread, TurnConfig, export, import,
};
use futures::executor::block_on;
use proptest::{collection, prop_assert_eq, proptest};

use crate::threads::{Counting, Ticking, words};

/// Several processes on one store.
pub(crate) struct Processes {
    store: Arc<dyn Store>,
    time: Arc<Ticking>,
    pub(crate) id: SessionId,
    config: SessionConfig,
}

impl Processes {
    pub(crate) fn new(config: SessionConfig) -> Self {
        let time = Arc::new(Ticking::default());
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new(time.clone()));
        let it = Self { store, time, id: SessionId::parse("s").unwrap(), config };
        block_on(it.start("first").create(SessionStart { id: Some(it.id.clone()), label: None })).unwrap();
        it
    }

    /// Starts one more process.
    pub(crate) fn start(&self, name: &str) -> Sessions {
        let names = Arc::new(Counting::named(name));
        let ports = Ports { time: self.time.clone(), names, counter: Arc::new(words) };
        Sessions::new(Arc::clone(&self.store), ports, self.config.clone())
    }

    pub(crate) fn main(&self, name: &str) -> Thread {
        block_on(self.start(name).open(&self.id)).unwrap().main().clone()
    }

    /// Lets every lease end.
    pub(crate) fn wait(&self) {
        self.time.pass(self.config.lease * 2);
    }
}

fn keyed(resume: bool) -> TurnConfig {
    let items = vec![Message::user("question").into()];
    TurnConfig { key: Some("k".to_owned()), resume, items, policy: Policy::Reject, ..TurnConfig::default() }
}

fn begin(thread: &Thread, resume: bool) -> Result<Begun, SessionError> {
    block_on(thread.begin(keyed(resume)))
}

fn running(thread: &Thread) -> RunningTurn {
    match begin(thread, true).unwrap() {
        Begun::Running(turn) | Begun::Resumed(turn) => turn,
        other @ Begun::Replayed(_) => panic!("{other:?}"),
    }
}

fn ended(end: impl Future<Output = Result<Seq, SessionError>>) {
    block_on(end).unwrap();
}

/// Says what comes of asking for the turn again.
fn again(thread: &Thread, resume: bool) -> String {
    match begin(thread, resume) {
        Ok(Begun::Running(turn)) => format!("{} runs", turn.turn()),
        Ok(Begun::Resumed(turn)) => format!("{} goes on", turn.turn()),
        Ok(Begun::Replayed(outcome)) => format!("{} {}", outcome.turn, outcome.status.as_str()),
        Err(err) => format!("{}: {err}", err.code()),
    }
}

pub(crate) fn said(thread: &Thread) -> Vec<String> {
    let turns = block_on(thread.history(None)).unwrap();
    let messages = turns.iter().flat_map(|it| it.messages().iter());
    messages.filter_map(|it| it.as_text()).map(str::to_owned).collect()
}

#[test]
fn a_turn_can_be_resumed_after_each_bad_end_and_no_other() {
    type End = fn(RunningTurn);
    let ends: [(End, &str, &str); 5] = [
        (drop, "t1 goes on", "t1 interrupted"),
        (|turn| ended(turn.fail("broke", vec![])), "t1 goes on", "t1 failed"),
        (|turn| ended(turn.interrupt("stop", vec![])), "t1 goes on", "t1 interrupted"),
        (|turn| ended(turn.suspend("wait", vec![])), "t1 suspended", "t1 suspended"),
        (|turn| ended(turn.complete(vec![])), "t1 completed", "t1 completed"),
    ];
    for (end, going_on, replayed) in ends {
        for (resume, expected) in [(true, going_on), (false, replayed)] {
            let processes = Processes::new(SessionConfig::default());
            let main = processes.main("a");
            end(running(&main));
            assert_eq!(again(&main, resume), expected);
            assert_eq!(said(&main), ["question"]);
        }
    }
}

#[test]
fn resuming_waits_for_a_live_writer_and_not_for_a_lost_one() {
    let processes = Processes::new(SessionConfig::default());
    let (here, there) = (processes.main("a"), processes.main("b"));
    let mut first = running(&here);
    assert_eq!(again(&there, true), "turn_in_progress: a turn is running on thread `s`");
    processes.wait();
    let mut second = running(&there);
    let late = block_on(first.append(vec![Message::assistant("late").into()]));
    assert_eq!(late.unwrap_err().code(), "lease_lost");
    block_on(second.append(vec![Message::assistant("answer").into()])).unwrap();
    block_on(second.complete(vec![])).unwrap();
    drop(first);
    assert_eq!(again(&here, true), "t1 completed");
    block_on(here.refresh()).unwrap();
    assert_eq!((said(&here), said(&there)), (said(&there), vec!["question".to_owned(), "answer".to_owned()]));
}

#[test]
fn a_superseded_turn_is_not_resumed() {
    type Leave = fn(&Thread);
    let leave: [Leave; 2] = [
        |thread| drop(block_on(thread.add_message(Message::user("next"))).unwrap()),
        |thread| drop(block_on(thread.reset_history()).unwrap()),
    ];
    for leave in leave {
        let processes = Processes::new(SessionConfig::default());
        let main = processes.main("a");
        drop(running(&main));
        leave(&main);
        assert_eq!(again(&main, true), "turn_superseded: thread `s` has moved past turn t1");
        assert_eq!(again(&main, false), "t1 interrupted");
    }
}

#[test]
fn what_is_said_between_stays_between() {
    let processes = Processes::new(SessionConfig::default());
    let main = processes.main("a");
    block_on(running(&main).fail("broke", vec![])).unwrap();
    block_on(main.add_message(Message::assistant("sorry"))).unwrap();
    block_on(main.set_provider_model("p", "m")).unwrap();
    block_on(running(&main).complete(vec![Message::assistant("answer").into()])).unwrap();
    assert_eq!(said(&main), ["question", "sorry", "answer"]);
    let outcome = block_on(main.outcome("k")).unwrap().unwrap();
    assert_eq!((outcome.status, outcome.reason), (TurnStatus::Completed, None));
}

/// Runs a turn of `total` answers that is cut off by each of `cuts`: how many answers later, and how it ends.
fn run(processes: &Processes, total: usize, cuts: &[(usize, u8)]) {
    let mut cuts = cuts.iter();
    let mut name = 0;
    let mut main = processes.main("p0");
    loop {
        let mut turn = running(&main);
        let done = said(&main).iter().filter(|it| it.starts_with('a')).count();
        let (stop, end) = match cuts.next() {
            Some((more, end)) if done + more < total => (done + more, Some(end % 5)),
            _ => (total, None),
        };
        for n in done..stop {
            block_on(turn.append(vec![Message::assistant(format!("a{n}")).into()])).unwrap();
        }
        match end {
            None => return ended(turn.complete(vec![])),
            Some(0) => drop(turn),
            Some(1) => ended(turn.fail("broke", vec![])),
            Some(2) => ended(turn.interrupt("stop", vec![])),
            Some(_) => {
                // The process dies; the next one finds the turn as it was left, or closes it first.
                drop(turn);
                processes.wait();
                name += 1;
                main = processes.main(&format!("p{name}"));
                if end == Some(3) {
                    block_on(main.close_lost()).unwrap();
                }
            }
        }
    }
}

pub(crate) fn exported(sessions: &Sessions, id: &SessionId) -> String {
    let mut lines = Vec::new();
    let write = |line: &str| {
        lines.push(line.to_owned());
        Ok::<(), SessionError>(())
    };
    block_on(export(sessions, id, write)).unwrap();
    lines.join("\n")
}

proptest! {
    #[test]
    fn a_disturbed_turn_says_what_an_undisturbed_one_says(
        before in 0..4_usize,
        total in 0..8_usize,
        cuts in collection::vec((0..4_usize, 0..5_u8), 0..6),
    ) {
        let config = SessionConfig { history_window: 2, wait: Duration::from_secs(1), ..SessionConfig::default() };
        let (disturbed, calm) = (Processes::new(config.clone()), Processes::new(config));
        for (processes, cuts) in [(&disturbed, &*cuts), (&calm, &[])] {
            let main = processes.main("p");
            (0..before).for_each(|_| drop(block_on(main.add_message(Message::user("before"))).unwrap()));
            run(processes, total, cuts);
        }
        let (there, sessions) = (disturbed.main("x"), disturbed.start("y"));
        prop_assert_eq!(said(&there), said(&calm.main("x")));
        let items = block_on(there.all(None)).unwrap();
        let questions = items.iter().filter(|it| it.body == Body::Message(Arc::new(Message::user("question"))));
        prop_assert_eq!(questions.count(), 1);
        prop_assert_eq!(State::replay(&items), there.get().state().clone());

        let copy = SessionId::parse("copy").unwrap();
        let text = exported(&sessions, &disturbed.id);
        block_on(import(&sessions, text.lines(), Some(copy.clone()))).unwrap();
        let copy = block_on(sessions.open(&copy)).unwrap();
        prop_assert_eq!(copy.main().get(), there.get());
        prop_assert_eq!(again(copy.main(), true), again(&there, true));
    }
}
