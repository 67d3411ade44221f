//! Readers and writers of one thread in one process, at the same time.

use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use contexture_history::Timestamp;
use contexture_message::Message;
use contexture_session::conformance::{Interference, Layered, Operation};
use contexture_session::{
    Begun, MemoryStore, Policy, Ports, RunningTurn, SessionConfig, SessionError, SessionStart, Sessions,
    Store, StoreFuture, Thread, Time, TurnConfig,
};
use futures::executor::block_on;
use futures::future::{BoxFuture, Either, join3, poll_fn, select};

use crate::threads::{Counting, Ticking, words};

/// Lets others work before each operation.
#[derive(Debug)]
struct Hesitant;

impl Interference for Hesitant {
    fn around<'a, T: Send + 'a>(
        &'a self,
        _operation: Operation,
        does: StoreFuture<'a, T>,
    ) -> StoreFuture<'a, T> {
        let mut n_left = 3_u32;
        let others_work = poll_fn(move |cx| match n_left.checked_sub(1) {
            Some(left) => {
                n_left = left;
                cx.waker().wake_by_ref();
                Poll::Pending
            }
            None => Poll::Ready(()),
        });
        Box::pin(async move {
            others_work.await;
            does.await
        })
    }
}

/// A clock for tests that wait for no time.
#[derive(Debug, Default)]
struct Endless(Ticking);

impl Time for Endless {
    fn now(&self) -> Timestamp {
        self.0.now()
    }

    fn sleep(&self, _duration: Duration) -> BoxFuture<'static, ()> {
        Box::pin(std::future::pending())
    }
}

/// The sessions of two processes over one store.
fn processes() -> [Sessions; 2] {
    let time = Arc::new(Endless::default());
    let store: Arc<dyn Store> =
        Arc::new(Layered { store: Arc::new(MemoryStore::new(time.clone())), interference: Hesitant });
    ["a", "b"].map(|it| {
        let names = Arc::new(Counting::named(it));
        let ports = Ports { time: time.clone(), names, counter: Arc::new(words) };
        // The clock moves a second with every look.
        let config = SessionConfig { lease: Duration::from_secs(3600), ..SessionConfig::default() };
        Sessions::new(Arc::clone(&store), ports, config)
    })
}

fn main_thread() -> Thread {
    let [sessions, _] = processes();
    block_on(sessions.create(SessionStart::default())).unwrap().main().clone()
}

async fn begun(thread: &Thread) -> Result<RunningTurn, SessionError> {
    match thread.begin(TurnConfig { policy: Policy::Reject, ..TurnConfig::default() }).await? {
        Begun::Running(turn) => Ok(turn),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_turn_is_not_rejected_because_of_readers() {
    let main = main_thread();
    let (first, second, turn) = block_on(join3(main.refresh(), main.close_lost(), begun(&main)));
    assert!(first.is_ok() && second.is_ok());
    assert!(turn.is_ok(), "{turn:?}");
}

#[test]
fn a_turn_is_not_rejected_because_of_a_turn_that_ends() {
    let main = main_thread();
    let turn = block_on(begun(&main)).unwrap();
    let (end, _, next) = block_on(join3(turn.complete(vec![]), main.refresh(), begun(&main)));
    assert!(end.is_ok() && next.is_ok(), "{next:?}");
}

#[test]
fn a_turn_is_rejected_while_another_runs_and_appends() {
    let main = main_thread();
    let mut turn = block_on(begun(&main)).unwrap();
    let said = vec![Message::user("said").into()];
    let (appended, seen, next) = block_on(join3(turn.append(said), main.refresh(), begun(&main)));
    assert_eq!(next.unwrap_err().code(), "turn_in_progress");
    // The reader has waited for the append.
    assert_eq!(seen.unwrap().state().end, appended.unwrap());
    drop(turn);
    assert!(block_on(begun(&main)).is_ok());
}

#[test]
fn a_reader_sees_the_end_of_a_turn_of_another_process_that_a_writer_waits_for() {
    let [ours, theirs] = processes();
    let session = block_on(theirs.create(SessionStart::default())).unwrap();
    let main = block_on(ours.open(session.id())).unwrap().main().clone();
    let turn = block_on(begun(session.main())).unwrap();
    let waits = Box::pin(main.add_message(Message::user("next")));
    let reads = Box::pin(async {
        let during = main.refresh().await.unwrap();
        turn.complete(vec![]).await.unwrap();
        (during, main.refresh().await.unwrap())
    });
    let Either::Right(((during, after), _)) = block_on(select(waits, reads)) else { panic!("it waits") };
    assert!(during.state().open.is_some());
    assert!(after.state().open.is_none(), "{:?}", after.state());
}

#[test]
fn a_turn_begins_only_after_the_turn_that_its_request_knows() {
    let [ours, theirs] = processes();
    let session = block_on(ours.create(SessionStart::default())).unwrap();
    let main = session.main();
    let elsewhere = block_on(theirs.open(session.id())).unwrap().main().clone();
    let after = main.get().state().turn;
    let begin = |thread: &Thread| {
        let thread = thread.clone();
        async move { thread.begin(TurnConfig { after: Some(after), ..TurnConfig::default() }).await }
    };
    let Ok(Begun::Running(turn)) = block_on(begin(&elsewhere)) else { panic!("it begins") };
    let late = Box::pin(begin(main));
    let ends = Box::pin(async { turn.complete(vec![]).await.unwrap() });
    // It waits for the turn that runs, and begins none.
    let Either::Right((_, late)) = block_on(select(late, ends)) else { panic!("it waits") };
    drop(late);
    assert_eq!(block_on(begin(main)).unwrap_err().code(), "turn_superseded");
    assert_eq!(block_on(main.refresh()).unwrap().state().turn, after.next());
}

#[test]
fn messages_are_added_only_where_their_writer_has_read_up_to() {
    let main = main_thread();
    let end = main.get().state().end;
    let said = |text: &str| vec![Message::user(text)];
    let first = block_on(main.add_at(end, said("first"))).unwrap().state().end;
    assert_eq!(block_on(main.add_at(end, said("late"))).unwrap_err().code(), "turn_superseded");
    assert_eq!(block_on(main.refresh()).unwrap().state().end, first, "nothing was written");
    assert!(block_on(main.add_at(first, said("second"))).is_ok());
}

#[test]
fn a_key_makes_one_copy_in_all_processes() {
    let [ours, theirs] = processes();
    let session = block_on(ours.create(SessionStart::default())).unwrap();
    let main = session.main();
    let elsewhere = block_on(theirs.open(session.id())).unwrap().main().clone();
    let copy = async |thread: &Thread, key: &str| thread.fork_once(key, None, None).await.unwrap();
    let (a, b, other) = block_on(join3(copy(main, "k"), copy(&elsewhere, "k"), copy(main, "other")));
    assert_eq!(a.id(), b.id());
    assert_ne!(a.id(), other.id());
    assert_eq!(block_on(session.threads()).unwrap().len(), 3);
}
