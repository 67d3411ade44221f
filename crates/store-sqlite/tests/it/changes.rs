//! Waiting for a thread to grow.

use std::sync::Arc;
use std::time::{Duration, Instant};

use contexture_history::Seq;
use contexture_session::{FeedItem, Log as _, Store as _, StoreFuture};
use futures::FutureExt as _;
use futures::executor::block_on;

use crate::support::{Place, Threads, session, thread_key};

/// Waits in a thread until `name` may be longer than `after`; `then` makes it so.
fn wakes(waiting: &Threads, name: &str, after: u64, then: impl FnOnce()) {
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| block_on(waiting.store.changed(thread_key(name), Seq(after))));
        std::thread::sleep(Duration::from_millis(20));
        then();
        let started = Instant::now();
        while !waiter.is_finished() {
            assert!(started.elapsed() < Duration::from_secs(60), "nobody woke it");
            std::thread::sleep(Duration::from_millis(1));
        }
    });
}

#[test]
fn an_append_wakes_waiters() {
    let place = Place::new();
    let (here, there) = (place.open(), place.open());
    here.create("a");
    wakes(&here, "a", 0, || here.say("a", &["one"]));
    wakes(&here, "a", 1, || there.say("a", &["two"]));
    wakes(&there, "a", 2, || here.say("a", &["three"]));
    wakes(&here, "a", 0, || {});
}

#[test]
fn deleting_wakes_waiters() {
    let place = Place::new();
    let (here, there) = (place.open(), place.open());
    for name in ["a", "b"] {
        here.create(name);
    }
    wakes(&here, "a", 0, || drop(block_on(here.store.delete_session(session("a")))));
    wakes(&here, "b", 0, || drop(block_on(there.store.delete_session(session("b")))));
    let gone = block_on(here.store.changed(thread_key("a"), Seq(0))).expect_err("there is none");
    assert_eq!(gone.code(), "not_found");
}

#[test]
fn an_append_to_another_thread_wakes_no_one() {
    let place = Place::new();
    let (here, there) = (place.open(), place.open());
    here.create("a");
    here.create("b");
    let mut waiting = here.store.changed(thread_key("a"), Seq(0));
    let mut poll = || block_on(async { futures::poll!(&mut waiting).is_ready() });
    assert!(!poll());
    here.say("b", &["one"]);
    there.say("b", &["two"]);
    std::thread::sleep(Duration::from_millis(150));
    assert!(!poll());
    there.say("a", &["one"]);
    block_on(waiting).expect("a notice");
}

#[test]
fn a_dropped_waiter_leaves_nothing_behind() {
    let place = Place::new();
    let threads = place.open();
    threads.create("a");
    for _ in 0..100 {
        let waiting = threads.store.changed(thread_key("a"), Seq(0));
        block_on(async {
            let mut waiting = waiting.fuse();
            assert!(futures::poll!(&mut waiting).is_pending());
        });
    }
    threads.say("a", &["one"]);
    // Closing ends the thread that watches, and with it everything.
    drop(threads);
}

/// Waits for the items after a number while `then` appends some, and returns the numbers of those that are handed over.
fn handed(waiting: &Threads, after: u64, then: impl FnOnce()) -> Vec<u64> {
    let changed = settled(waiting, after);
    then();
    block_on(changed).expect("an answer").iter().map(|it| it.number).collect()
}

/// Returns a waiter that has looked at the session. Until it has, it may be woken with nothing, and then waits again.
fn settled(waiting: &Threads, after: u64) -> StoreFuture<'_, Arc<[FeedItem]>> {
    'retry: loop {
        let mut changed = waiting.store.feed_changed(session("a"), after);
        for _ in 0..20 {
            if block_on(async { futures::poll!(&mut changed).is_ready() }) {
                continue 'retry;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        return changed;
    }
}

#[test]
fn a_waiter_is_handed_what_its_own_store_appends() {
    let place = Place::new();
    let (here, there) = (place.open(), place.open());
    here.create("a");
    assert_eq!(handed(&here, 0, || here.say("a", &["one", "two"])), [1, 2]);
    // Of another process it only learns that there is more.
    assert_eq!(handed(&here, 2, || there.say("a", &["three"])), [0; 0]);
    let many: Vec<String> = (0..200).map(|it| it.to_string()).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    assert_eq!(handed(&here, 3, || here.say("a", &many)), [0; 0], "many items are read page by page");
}
