//! The index of what is archived: files from before, damage, deleting.

use contexture_history::{Body, Seq, Summary};
use contexture_session::{Guard, Log as _, Search, Store as _};
use contexture_store_sqlite::SqliteStore;
use futures::executor::block_on;
use rusqlite::Connection;

use crate::support::{Place, Threads, append, session, thread_key};

fn archive(threads: &Threads, name: &str, first: u64, last: u64) {
    let summary = Summary { first: Seq(first), last: Seq(last), number: 1, ..Summary::default() };
    let append = append(&threads.head(name).state, vec![Body::Summary(summary)], Guard::Free);
    block_on(threads.store.append(thread_key(name), append)).expect("an append");
}

fn found(threads: &Threads, name: &str, query: &str) -> Vec<u64> {
    let search = Search { query: query.to_owned(), within: vec![(Seq(1), Seq(1_000))], max: 10 };
    let found = block_on(threads.store.search(thread_key(name), search)).expect("an answer");
    found.into_iter().map(|it| it.seq.0).collect()
}

/// A closed file with two sessions that have something archived.
fn filled() -> Place {
    let place = Place::new();
    let threads = place.open();
    for name in ["a", "b"] {
        threads.create(name);
        threads.say(name, &["remarkable", "ordinary words"]);
        threads.say(name, &[name]);
        archive(&threads, name, 1, 3);
    }
    place
}

/// Has SQLite check the index, and the whole file.
fn assert_sound(place: &Place) {
    let conn = Connection::open(place.db()).expect("a file");
    conn.execute("INSERT INTO words (words) VALUES ('integrity-check')", []).expect("a sound index");
    let said: String = conn.query_row("PRAGMA integrity_check", [], |row| row.get(0)).expect("an answer");
    assert_eq!(said, "ok");
}

#[test]
fn a_file_from_before_can_be_searched_from_the_next_archive_on() {
    let (now, place) = (filled(), Place::new());
    let conn = Connection::open(place.db()).expect("a file");
    conn.execute_batch(include_str!("../../src/schema/0001_threads.sql")).expect("a script");
    conn.execute("ATTACH ?1 AS now", [now.db().display().to_string()]).expect("a file");
    let copy = r#"INSERT INTO sessions SELECT * FROM now.sessions;
        INSERT INTO threads (no, session, tenant, name, main, created, updated, "end", turns, state)
        SELECT no, session, tenant, name, kind = 'main', created, updated, "end", turns, state FROM now.logs;
        INSERT INTO commits SELECT no, log, first, count, blobs, body FROM now.commits;
        PRAGMA application_id = 0x43545852; PRAGMA user_version = 1"#;
    conn.execute_batch(copy).expect("a script");
    drop(conn);
    let threads = place.open();
    assert_eq!(found(&threads, "a", "remarkable"), Vec::<u64>::new());
    threads.say("a", &["later"]);
    archive(&threads, "a", 1, 5);
    assert_eq!(found(&threads, "a", "remarkable later"), [5, 1]);
    drop(threads);
    assert_sound(&place);
}

#[test]
fn a_recovered_file_can_be_searched() {
    let place = filled();
    let saved = place.file("saved.db");
    let recovered = SqliteStore::recover(place.db(), &saved).expect("something readable");
    assert_eq!(recovered.lost, Vec::<String>::new());
    let threads = Threads::open(&saved).expect("a sound file");
    assert_eq!(found(&threads, "b", "remarkable a b"), [3, 1]);
    archive(&threads, "b", 1, 4);
    assert_eq!(found(&threads, "b", "remarkable a b"), [3, 1]);
}

#[test]
fn a_file_without_its_first_page_can_still_be_saved() {
    let place = filled();
    let threads = place.open();
    block_on(threads.store.vacuum()).expect("an answer");
    drop(threads);
    let mut bytes = std::fs::read(place.db()).expect("a file");
    bytes[..crate::support::PAGE].fill(0xA5);
    std::fs::write(place.db(), bytes).expect("a file");
    let saved = place.file("saved.db");
    let recovered = SqliteStore::recover(place.db(), &saved).expect("something readable");
    assert_eq!((recovered.sessions, recovered.items, recovered.lost), (2, 8, Vec::new()));
    let threads = Threads::open(&saved).expect("a sound file");
    assert_eq!(found(&threads, "b", "remarkable a b"), [3, 1]);
}

#[test]
fn words_of_what_was_deleted_leave_the_file() {
    let place = filled();
    let threads = place.open();
    let is_in_file = |threads: Threads| {
        drop(threads);
        let bytes = std::fs::read(place.db()).expect("a file");
        bytes.windows("emarkable".len()).any(|it| it == b"emarkable")
    };
    block_on(threads.store.delete_session(session("a"))).expect("an answer");
    assert_eq!(found(&threads, "b", "remarkable"), [1]);
    assert!(is_in_file(threads));
    assert_sound(&place);
    let threads = place.open();
    block_on(threads.store.delete_session(session("b"))).expect("an answer");
    block_on(threads.store.vacuum()).expect("an answer");
    assert!(!is_in_file(threads));
    assert_sound(&place);
}

/// Until version 5 words were kept as they are, and without counts.
#[test]
fn what_an_older_program_archived_is_indexed_again() {
    let place = filled();
    let conn = Connection::open(place.db()).expect("a file");
    let as_before = "INSERT INTO words (words) VALUES ('delete-all'); DELETE FROM archives;
        UPDATE archived SET at = NULL, terms = NULL; INSERT INTO outdated VALUES ('archives')";
    conn.execute_batch(as_before).expect("a script");
    drop(conn);
    let threads = place.open();
    assert_eq!(found(&threads, "b", "remarkably b"), [3, 1]);
    assert_eq!(found(&threads, "a", "ordinary word"), [2]);
    drop(threads);
    assert_sound(&place);
}
