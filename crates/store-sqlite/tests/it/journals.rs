//! Journals, runs and documents of a file that was damaged, and what pruning leaves.

use std::sync::Arc;
use std::time::Duration;

use contexture_history::{Application, Body, Cost, Item, Seq, Timestamp, TurnNo, Visibility};
use contexture_message::Tokens;
use contexture_session::{
    Append, Document, DocumentKey, Documents as _, DueKind, Guard, Log as _, LogKind, LogState, NewLog, Span,
    Store as _, Tenant, ThreadKey, UnfinishedText,
};
use contexture_store_sqlite::{Recovered, SqliteStore};
use futures::executor::block_on;
use rusqlite::Connection;
use serde_json::json;

use crate::support::{PAGE, Place, Threads, large, session, thread_key};

fn item(text: &str, at: i64) -> Item {
    Item {
        seq: Seq(1),
        turn: TurnNo(0),
        visibility: Visibility::NONE,
        cost: Cost { counter: Arc::from(""), tokens: Tokens(0) },
        author: None,
        at: Timestamp(at),
        body: Body::Application(Application { kind: "pass".to_owned(), value: json!(text) }),
    }
}

fn journal() -> ThreadKey {
    ThreadKey { tenant: Tenant::default(), thread: session("a").session.journal("passes") }
}

fn append(threads: &Threads, key: ThreadKey, text: &str, at: i64) -> u64 {
    let (items, guard, lazy) = (vec![item(text, at)], Guard::Any, true);
    let (expected, nonce, state, keys) = (None, String::new(), None, Vec::new());
    let append = Append { expected, nonce, items, state, guard, keys, lazy };
    block_on(threads.store.append(key, append)).expect("an append").end.0
}

fn prune(threads: &Threads, before: i64, max: usize) -> u64 {
    let pruned = threads.store.prune_journals("passes".to_owned(), Timestamp(before), max);
    block_on(pruned).expect("an answer")
}

fn positions(threads: &Threads, key: ThreadKey) -> Vec<u64> {
    let items = block_on(threads.store.read(key, Span::After { seq: Seq(0), max: usize::MAX }));
    items.expect("items").iter().map(|it| it.seq.0).collect()
}

fn document(name: &str) -> DocumentKey {
    DocumentKey::of_tenant(&Tenant::default(), "piece", name)
}

fn run() -> ThreadKey {
    ThreadKey { tenant: Tenant::default(), thread: session("a").session.run("one") }
}

/// A file with a journal of 200 items, of which 20 are pruned, a run of 50 items, and 50 documents.
fn filled() -> Place {
    let place = Place::new();
    let threads = place.open();
    threads.create("a");
    let new = NewLog::journal(session("a"), "passes", Timestamp(1));
    block_on(threads.store.create_log(new)).expect("a journal");
    let state = LogState { end: Seq(1), needs_writer: true, json: "{}".to_owned(), ..LogState::default() };
    let new = NewLog {
        kind: LogKind::Run,
        items: vec![item("start", 1)],
        start_key: Some("k".to_owned()),
        state,
        ..NewLog::isolated(session("a"), run().thread, Timestamp(1))
    };
    block_on(threads.store.create_log(new)).expect("a run");
    for idx in 0..200 {
        append(&threads, journal(), &format!("r{idx} {}", "x".repeat(700)), 1);
    }
    (0..49).for_each(|_| _ = append(&threads, run(), "step", 1));
    assert_eq!(prune(&threads, 2, 20), 20);
    let document = |n: i64| Document {
        key: document(&format!("d{n}")),
        at: Timestamp(n),
        data: format!("d{n} {}", "y".repeat(700)),
    };
    (0..50).for_each(|n| block_on(threads.store.put(document(n))).expect("a write"));
    place
}

fn recover(place: &Place) -> (Recovered, Threads) {
    let saved = place.file("saved.db");
    let recovered = SqliteStore::recover(place.db(), &saved).expect("something readable");
    (recovered, Threads::open(&saved).expect("a sound file"))
}

#[test]
fn a_sound_file_is_recovered_whole() {
    let place = filled();
    let threads = place.open();
    threads.say("a", &["one", "two"]);
    let guard = Guard::Acquire { owner: "w".into(), ttl: Duration::from_secs(60) };
    let fence = block_on(threads.store.lease(thread_key("a"), guard)).expect("a lease").expect("a number");
    let text = UnfinishedText { text: "so far".to_owned(), ..UnfinishedText::default() };
    block_on(threads.store.save(thread_key("a"), fence, text.clone())).expect("it is saved");
    let feed = |it: &Threads| block_on(it.store.feed(session("a"), 0, usize::MAX)).expect("items");
    let numbered = feed(&threads);
    assert_eq!(numbered.len(), 52);
    drop(threads);

    let (recovered, threads) = recover(&place);
    assert!(recovered.lost.is_empty(), "{:?}", recovered.lost);
    assert_eq!((recovered.sessions, recovered.threads, recovered.items), (1, 1, 2));
    assert_eq!(feed(&threads), numbered, "numbers are kept");
    assert_eq!(append(&threads, run(), "next", 1), 51);
    assert_eq!(block_on(threads.store.feed_end(session("a"))).expect("an answer"), 53);
    assert_eq!(positions(&threads, journal()), (21..=200).collect::<Vec<_>>());
    let saved = block_on(threads.store.saved(session("a"))).expect("an answer");
    assert_eq!(saved, [(thread_key("a").thread, text)]);
    let found = block_on(threads.store.log_with_start_key(Tenant::default(), "k".to_owned()));
    assert_eq!(found.expect("an answer"), Some(run()));
    let found = block_on(threads.store.document(document("d7"))).expect("an answer");
    assert_eq!(found.map(|it| it.at), Some(Timestamp(7)));
    assert_eq!(append(&threads, journal(), "next", 1), 201);
    assert_eq!(prune(&threads, 2, 999), 181, "how old a journal is was recovered too");
}

#[test]
fn items_of_a_lost_page_are_named_and_positions_stay() {
    let place = filled();
    let mut file = std::fs::read(place.db()).expect("a file");
    let at = file.windows(6).position(|it| it == b"r100 x").expect("the text") / PAGE * PAGE;
    file[at..at + PAGE].fill(0);
    std::fs::write(place.db(), file).expect("a file");
    let (recovered, threads) = recover(&place);
    let found = positions(&threads, journal());
    assert!((160..180).contains(&found.len()), "{}", found.len());
    let lost = recovered.lost.join("\n");
    assert!(lost.contains("table `commits` could not be read at 1 places"), "{lost}");
    assert!(lost.contains(&format!("journal `a///passes`: {} items", 180 - found.len())), "{lost}");
    assert_eq!(append(&threads, journal(), "next", 1), 201);
}

#[test]
fn a_lost_session_gets_its_logs_back() {
    let place = filled();
    let conn = Connection::open(place.db()).expect("a file");
    conn.execute_batch("DELETE FROM sessions; DELETE FROM logs WHERE kind = 'main'").expect("a deletion");
    drop(conn);
    let (recovered, threads) = recover(&place);
    assert_eq!(recovered.lost.len(), 2, "{:?}", recovered.lost);
    assert_eq!(positions(&threads, journal()).len(), 180);
    assert_eq!(positions(&threads, run()).len(), 50);
    let found = block_on(threads.store.document(document("d7"))).expect("an answer");
    assert!(found.is_some(), "it belongs to no session");
}

#[test]
fn large_texts_go_with_the_items_that_are_pruned() {
    let place = Place::new();
    let threads = place.open();
    threads.create("a");
    let new = NewLog::journal(session("a"), "passes", Timestamp(1));
    block_on(threads.store.create_log(new)).expect("a journal");
    let (one, two) = (large("one "), large("two "));
    for (text, at) in [(&one, 10), (&two, 20), (&one, 30)] {
        append(&threads, journal(), text, at);
    }
    let blobs = || block_on(threads.store.usage(Tenant::default())).expect("an answer").blobs;
    assert_eq!((blobs(), prune(&threads, 15, 9), blobs()), (2, 1, 2), "the first is used again");
    assert_eq!((prune(&threads, 25, 9), blobs()), (1, 1));
    assert_eq!((prune(&threads, 99, 9), blobs()), (1, 0));
}

#[test]
fn a_repeated_append_of_many_rows_is_known_as_a_whole() {
    let place = Place::new();
    let threads = place.open();
    threads.create("a");
    let texts: Vec<String> = (0..40).map(|it| it.to_string()).collect();
    let bodies = texts.iter().map(|it| crate::support::said(it)).collect();
    let guard = Guard::Acquire { owner: "w".into(), ttl: Duration::from_secs(60) };
    let first = crate::support::append(&threads.head("a").state, bodies, guard);
    let first = Append { nonce: "n1".to_owned(), ..first };
    let appended = block_on(threads.store.append(thread_key("a"), first.clone())).expect("an append");
    append(&threads, thread_key("a"), "of another", 2);
    let again = block_on(threads.store.append(thread_key("a"), first.clone())).expect("it landed");
    assert_eq!(again, appended);
    let other = Append { nonce: "n2".to_owned(), ..first };
    let refused = block_on(threads.store.append(thread_key("a"), other)).expect_err("it did not land");
    assert_eq!(refused.code(), "version_conflict");
}

#[test]
fn a_recovered_run_without_a_writer_is_found() {
    let place = filled();
    // As it is read from rows that were written before there was a list.
    let conn = Connection::open(place.db()).expect("a file");
    conn.execute_batch("UPDATE logs SET is_listed = 0").expect("a write");
    drop(conn);
    let (_, threads) = recover(&place);
    let due = block_on(threads.store.due(DueKind::Runs, None, 10)).expect("a list");
    assert_eq!(due, [run()]);
}
