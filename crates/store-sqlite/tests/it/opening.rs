//! Opening: what is kept, and what is refused.

use contexture_session::{Guard, Log as _, Store as _, StoreError};
use futures::executor::block_on;
use rusqlite::Connection;

use crate::support::{Place, Threads, append, began, said, session, thread_key};

/// Tries to open a file that SQLite made in another way. Returns the error without the folder.
fn refused(place: &Place, script: &str) -> String {
    Connection::open(place.db()).expect("a file").execute_batch(script).expect("a script");
    let before = std::fs::read(place.db()).expect("a file");
    let err = Threads::open(&place.db()).err().expect("a refusal");
    assert_eq!(std::fs::read(place.db()).expect("a file"), before, "nothing is written");
    assert!(!place.file("contexture.db-wal").exists(), "nothing is written beside it");
    err.to_string().replace(&place.db().display().to_string(), "FILE")
}

fn trouble(path: &std::path::Path) -> String {
    let err = Threads::open(path).err().expect("a refusal");
    assert!(matches!(err, StoreError::Unavailable { .. }), "{err:?}");
    err.to_string()
}

#[test]
fn everything_is_there_after_reopening() {
    let place = Place::new();
    let threads = place.open();
    threads.create("a");
    threads.say("a", &["one", "two"]);
    let turn = append(&threads.head("a").state, vec![began("k1"), said("three")], Guard::Free);
    block_on(threads.store.append(thread_key("a"), turn)).expect("an append");
    threads.fork("a", "b", 1).expect("a fork");
    let (head, items) = (threads.head("a"), threads.items("a"));
    drop(threads);
    assert!(!place.file("contexture.db-wal").exists(), "closed cleanly");

    let again = place.open();
    assert_eq!((again.head("a"), again.items("a")), (head, items));
    assert_eq!(again.texts("b"), ["one"]);
    let keyed = block_on(again.store.turn_with_key(thread_key("a"), "k1".to_owned())).expect("an answer");
    assert_eq!(keyed.map(|it| it.began.0), Some(3));
    assert_eq!(block_on(again.store.threads(session("a"))).expect("an answer").len(), 2);
}

#[test]
fn a_newer_file_is_refused() {
    let place = Place::new();
    drop(place.open());
    assert_eq!(
        refused(&place, "PRAGMA journal_mode = DELETE; PRAGMA user_version = 99"),
        "FILE has schema version 99, this program knows versions up to 6"
    );
}

#[test]
fn a_file_of_another_program_is_refused() {
    assert_eq!(
        refused(&Place::new(), "CREATE TABLE bookmarks (url TEXT)"),
        "FILE is not available: it is an SQLite file of another program"
    );
    assert_eq!(
        refused(&Place::new(), "PRAGMA application_id = 7"),
        "FILE is not available: it is an SQLite file of another program"
    );
}

#[test]
fn a_file_that_is_not_a_database_is_damaged() {
    let place = Place::new();
    std::fs::write(place.db(), "not a database, but long enough to look at. ".repeat(100)).expect("a file");
    let err = Threads::open(&place.db()).err().expect("a refusal");
    assert!(matches!(err, StoreError::Damaged { .. }), "{err:?}");
}

#[test]
fn places_without_a_file_are_named() {
    let place = Place::new();
    let folder = place.file("");
    assert!(trouble(&folder).ends_with("is not available: it is a folder"));
    let missing = place.file("missing/contexture.db");
    assert!(trouble(&missing).contains("missing/contexture.db is not available: there is no folder"));
}

#[test]
fn an_empty_file_is_a_new_store() {
    let place = Place::new();
    std::fs::write(place.db(), "").expect("a file");
    place.open().create("a");
}

#[test]
fn many_may_open_a_new_file_at_once() {
    let place = Place::new();
    let path = place.db();
    std::thread::scope(|scope| {
        for idx in 0..8 {
            let path = &path;
            scope.spawn(move || Threads::open(path).expect("an open file").create(&format!("s{idx}")));
        }
    });
    let listed = block_on(place.open().store.sessions(Default::default(), None, 100)).expect("a list");
    assert_eq!(listed.len(), 8);
}

#[cfg(unix)]
#[test]
fn only_the_owner_can_read_a_new_file_and_its_companions() {
    use std::os::unix::fs::PermissionsExt as _;
    let mode =
        |path: std::path::PathBuf| std::fs::metadata(path).expect("a file").permissions().mode() & 0o777;
    let place = Place::new();
    let threads = place.open();
    threads.create("a");
    threads.say("a", &["one"]);
    for name in ["contexture.db", "contexture.db-wal", "contexture.db-shm"] {
        assert_eq!(mode(place.file(name)), 0o600, "{name}");
    }
    drop(threads);
    // What somebody chose stays.
    std::fs::set_permissions(place.db(), std::fs::Permissions::from_mode(0o640)).expect("it is ours");
    drop(place.open());
    assert_eq!(mode(place.db()), 0o640);
}
