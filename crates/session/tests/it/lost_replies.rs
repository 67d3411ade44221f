//! A store whose answers get lost: what was written is there, and nobody heard of it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::Poll;

use contexture_message::Message;
use contexture_session::conformance::{Interference, Layered, Operation};
use contexture_session::{
    Begun, IsolatedStart, MemoryStore, Ports, SessionConfig, SessionStart, Sessions, StoreError, StoreFuture,
    TurnConfig,
};
use futures::executor::block_on;

use crate::resuming::said;
use crate::threads::{Counting, Ticking, words};

/// Does what it is asked for, and says that it is not available as often as it is told to, when it is asked for these.
#[derive(Clone, Debug)]
struct Deaf(Arc<AtomicU32>, &'static [&'static str]);

impl Interference for Deaf {
    fn around<'a, T: Send + 'a>(
        &'a self,
        operation: Operation,
        does: StoreFuture<'a, T>,
    ) -> StoreFuture<'a, T> {
        Box::pin(async move {
            let done = does.await?;
            let is_heard = !self.1.contains(&operation.name)
                || self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |it| it.checked_sub(1)).is_err();
            match is_heard {
                true => Ok(done),
                false => Err(StoreError::Unavailable { place: "the store".into(), detail: "gone".into() }),
            }
        })
    }
}

fn deaf(to: &'static [&'static str]) -> (Deaf, Sessions) {
    let time = Arc::new(Ticking::default());
    let deaf = Deaf(Arc::default(), to);
    let store = Layered { store: Arc::new(MemoryStore::new(time.clone())), interference: deaf.clone() };
    let ports = Ports { time, names: Arc::new(Counting::default()), counter: Arc::new(words) };
    (deaf, Sessions::new(Arc::new(store), ports, SessionConfig::default()))
}

/// As often as an append is tried.
const ALL: u32 = 5;

#[test]
fn what_was_written_unheard_is_not_written_again() {
    let (store, sessions) = deaf(&["append", "create_log"]);
    let session = block_on(sessions.create(SessionStart::default())).unwrap();
    let main = session.main();
    let lose = |replies: u32| store.0.store(replies, Ordering::Relaxed);

    let add = || block_on(main.add_once("a", vec![Message::user("added").into()]));
    lose(ALL);
    assert_eq!(add().unwrap_err().code(), "store_unavailable");
    assert!(!add().unwrap());

    lose(ALL - 1);
    assert!(
        block_on(main.add_once("b", vec![Message::user("repeated").into()])).unwrap(),
        "the last try is heard"
    );

    let prepend = || block_on(main.prepend_once("p", vec![Message::user("first")]));
    lose(ALL);
    assert_eq!(prepend().unwrap_err().code(), "store_unavailable");
    assert!(!prepend().unwrap());

    let begin = |resume| {
        let (key, items) = (Some("k".to_owned()), vec![Message::user("asked").into()]);
        block_on(main.begin(TurnConfig { key, resume, items, ..TurnConfig::default() }))
    };
    for _ in 0..2 {
        lose(ALL);
        assert_eq!(begin(true).unwrap_err().code(), "store_unavailable");
    }
    let Begun::Resumed(turn) = begin(true).unwrap() else { panic!("it goes on") };
    block_on(turn.complete(vec![])).unwrap();
    assert_eq!(said(main), ["first", "added", "repeated", "asked"]);
}

#[test]
fn a_thread_that_was_made_unheard_is_made_once() {
    let (store, sessions) = deaf(&["append", "create_log"]);
    let session = block_on(sessions.create(SessionStart::default())).unwrap();
    let start = || IsolatedStart {
        name: Some("side".to_owned()),
        initial_messages: vec![Message::user("begin")],
        ..IsolatedStart::default()
    };
    // First its creation is not heard of, then its beginning.
    for lost in [1, ALL] {
        store.0.store(lost, Ordering::Relaxed);
        assert_eq!(block_on(session.create_isolated(start())).unwrap_err().code(), "store_unavailable");
    }
    assert_eq!(said(&block_on(session.create_isolated(start())).unwrap()), ["begin"]);
}

#[test]
fn a_lease_that_can_not_be_renewed_for_a_moment_does_not_end_the_work_of_a_turn() {
    let (store, sessions) = deaf(&["lease"]);
    let session = block_on(sessions.create(SessionStart::default())).unwrap();
    let Begun::Running(mut turn) = block_on(session.main().begin(TurnConfig::default())).unwrap() else {
        panic!("it is new")
    };
    store.0.store(3, Ordering::Relaxed);
    let mut polls_left = 9;
    let work = futures::future::poll_fn(|_| {
        polls_left -= 1;
        if polls_left == 0 { Poll::Ready("done") } else { Poll::Pending }
    });
    assert_eq!(block_on(turn.while_alive(work)).unwrap(), "done");
    assert_eq!(store.0.load(Ordering::Relaxed), 0, "it was tried to renew it");
    block_on(turn.complete(vec![])).unwrap();
}
