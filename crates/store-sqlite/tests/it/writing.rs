//! Appending: conflicts, guards, and many at once.

use std::time::Duration;

use contexture_history::Seq;
use contexture_session::{Append, Fence, Guard, Log as _, State, StoreError};
use futures::executor::block_on;
use futures::future::join_all;

use crate::support::{Place, Threads, append, large, said, thread_key};

fn code(result: Result<impl std::fmt::Debug, StoreError>) -> &'static str {
    result.expect_err("a refusal").code().as_str()
}

#[test]
fn the_second_of_two_processes_meets_a_conflict() {
    let place = Place::new();
    let (one, two) = (place.open(), place.open());
    one.create("a");
    let state = two.head("a").state;
    one.append("a", &state, &["one"], Guard::Free).expect("an append");
    assert_eq!(code(two.append("a", &state, &["two"], Guard::Free)), "version_conflict");
    two.say("a", &["two"]);
    assert_eq!(one.texts("a"), ["one", "two"]);
}

#[test]
fn a_refused_append_leaves_the_others_of_its_commit_alone() {
    let place = Place::new();
    let threads = place.open();
    for idx in 0..64 {
        threads.create(&format!("s{idx}"));
    }
    // Each second one expects what is not there.
    let appends = (0..64).map(|idx| {
        let mut append = append(&State::default(), vec![said("x")], Guard::Free);
        if idx % 2 == 1 {
            append.expected = Some(Seq(7));
            append.items[0].seq = Seq(8);
            append.state.iter_mut().for_each(|it| it.end = Seq(8));
        }
        threads.store.append(thread_key(&format!("s{idx}")), append)
    });
    let results = block_on(join_all(appends));
    for (idx, result) in results.into_iter().enumerate() {
        let expected = if idx % 2 == 1 { "version_conflict" } else { "" };
        assert_eq!(result.err().map_or("", |it| it.code().as_str()), expected, "session {idx}");
        assert_eq!(threads.items(&format!("s{idx}")).len(), 1 - idx % 2, "session {idx}");
    }
}

#[test]
fn many_threads_of_two_processes_append_at_once() {
    let place = Place::new();
    let stores = [place.open(), place.open()];
    for idx in 0..16 {
        stores[0].create(&format!("s{idx}"));
    }
    std::thread::scope(|scope| {
        for idx in 0..16 {
            let threads = &stores[idx % 2];
            scope.spawn(move || {
                let name = format!("s{idx}");
                (0..8).for_each(|turn| threads.say(&name, &[&turn.to_string(), "answer"]));
            });
        }
    });
    for idx in 0..16 {
        let name = format!("s{idx}");
        let items = stores[1].items(&name);
        assert_eq!(items.len(), 16);
        assert_eq!(State::replay(&items), stores[0].head(&name).state);
    }
}

#[test]
fn a_lease_is_taken_held_and_given_back() {
    let place = Place::new();
    let threads = place.open();
    threads.create("a");
    let ttl = Duration::from_secs(60);
    let acquire = |owner: &str| Guard::Acquire { owner: owner.into(), ttl };
    let lease = |guard| block_on(threads.store.lease(thread_key("a"), guard));

    assert_eq!(lease(acquire("one")).expect("a lease"), Some(Fence(1)));
    assert_eq!(code(lease(acquire("two"))), "turn_in_progress");
    assert_eq!(code(lease(Guard::Free)), "turn_in_progress");
    let state = threads.head("a").state;
    let held = Guard::Hold { fence: Fence(1), ttl };
    assert_eq!(threads.append("a", &state, &["x"], held).expect("an append").fence, Some(Fence(1)));
    assert_eq!(lease(acquire("one")).expect("a lease"), Some(Fence(2)), "the same owner gets a new one");
    assert_eq!(code(lease(Guard::Hold { fence: Fence(1), ttl })), "lease_lost");
    assert_eq!(lease(Guard::Release { fence: Fence(2) }).expect("a release"), None);
    assert_eq!(threads.head("a").lease, None);
    assert_eq!(code(lease(Guard::Release { fence: Fence(2) })), "lease_lost");
    assert_eq!(lease(acquire("two")).expect("a lease"), Some(Fence(3)), "numbers only grow");
}

#[test]
fn an_expired_lease_can_be_extended_until_it_is_taken_over() {
    let place = Place::new();
    let threads = place.open();
    threads.create("a");
    let lease = |guard| block_on(threads.store.lease(thread_key("a"), guard));
    let (none, long) = (Duration::ZERO, Duration::from_secs(60));
    lease(Guard::Acquire { owner: "one".into(), ttl: none }).expect("a lease");
    assert_eq!(threads.head("a").lease.map(|it| it.live), Some(false));
    lease(Guard::Hold { fence: Fence(1), ttl: none }).expect("an extension");
    lease(Guard::Acquire { owner: "two".into(), ttl: long }).expect("a takeover");
    assert_eq!(code(lease(Guard::Hold { fence: Fence(1), ttl: long })), "lease_lost");
}

#[test]
fn items_that_do_not_continue_the_log_are_malformed() {
    let place = Place::new();
    let threads = place.open();
    threads.create("a");
    let append_now = |append: Append| block_on(threads.store.append(thread_key("a"), append));
    let sound = append(&State::default(), vec![said("x"), said("y")], Guard::Free);
    assert_eq!(code(append_now(Append { items: Vec::new(), ..sound.clone() })), "append_malformed");
    let mut gap = sound.clone();
    gap.items.remove(0);
    assert_eq!(code(append_now(gap)), "append_malformed");
    assert_eq!(code(append_now(Append { expected: Some(Seq(u64::MAX - 9)), ..sound })), "append_malformed");
}

#[test]
fn large_appends_are_one_commit_for_readers() {
    let place = Place::new();
    let (writing, reading) = (place.open(), place.open());
    writing.create("a");
    let text = large("words ");
    let commit: Vec<&str> = (0..40).map(|_| text.as_str()).collect();
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| (0..20).for_each(|_| writing.say("a", &commit)));
        while !writer.is_finished() {
            assert_eq!(reading.items("a").len() % 40, 0, "no part of an append is visible");
        }
    });
    assert_eq!(reading.items("a").len(), 800);
}

#[test]
fn the_log_beside_the_file_stays_short() {
    let place = Place::new();
    let threads: Threads = place.open();
    for session in 0..8 {
        threads.create(&format!("s{session}"));
    }
    let text = "x".repeat(7_000);
    let commit = [text.as_str(); 4];
    for round in 0..60 {
        let appends = (0..8).map(|session| {
            let name = format!("s{session}");
            let state = threads.head(&name).state;
            let bodies = commit.iter().map(|it| said(it)).collect();
            threads.store.append(thread_key(&name), append(&state, bodies, Guard::Free))
        });
        for appended in block_on(join_all(appends)) {
            appended.expect("an append");
        }
        let log = std::fs::metadata(place.file("contexture.db-wal")).expect("a log").len();
        assert!(log < 80 * 1024 * 1024, "round {round}: {log} bytes");
    }
}
