//! Readers and writers of one thread in one process, at the same time.

use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use contexture_history::Timestamp;
use contexture_message::Message;
use contexture_session::conformance::{Interference, Layered, Operation};
use contexture_session::{
    Begun, MemoryStore, Policy, Ports, RunningTurn, SessionConfig, SessionError, SessionStart, Sessions,
    StoreFuture, Thread, Time, TurnConfig,
};
use futures::executor::block_on;
use futures::future::{BoxFuture, join3, poll_fn};

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

fn main_thread() -> Thread {
    let time = Arc::new(Endless::default());
    let store = Layered { store: Arc::new(MemoryStore::new(time.clone())), interference: Hesitant };
    let ports = Ports { time, names: Arc::new(Counting::default()), counter: Arc::new(words) };
    let sessions = Sessions::new(Arc::new(store), ports, SessionConfig::default());
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
