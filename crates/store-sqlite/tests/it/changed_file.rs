//! A file that is changed, removed or damaged while it is open.

use std::fs;
use std::io::{Seek as _, SeekFrom, Write as _};
use std::time::Duration;

use contexture_history::Timestamp;
use contexture_session::{Document, Documents as _, Guard, Log as _, NewSession, Store as _, StoreError};
use futures::executor::block_on;

use crate::support::{Place, Threads, session, thread_key};

/// Tries every kind of write, and returns the codes of the refusals.
fn written(threads: &Threads) -> Vec<&'static str> {
    let (store, state) = (&threads.store, threads.head("a").state);
    let acquire = Guard::Acquire { owner: "me".into(), ttl: Duration::from_secs(1) };
    let new = NewSession { key: session("b"), label: None, at: Timestamp(1) };
    let outcomes: Vec<Result<(), StoreError>> = vec![
        threads.append("a", &state, &["late"], Guard::Free).map(drop),
        block_on(store.lease(thread_key("a"), acquire)).map(drop),
        block_on(store.create_session(new)),
        threads.fork("a", "a/copy", 1),
        block_on(store.delete_session(session("a"))).map(drop),
        block_on(store.put(Document::probe(Timestamp(1)))).map(drop),
        block_on(store.prune("probe".to_owned(), Timestamp(2), 10)).map(drop),
        block_on(store.vacuum()),
    ];
    outcomes.iter().filter_map(|it| it.as_ref().err()).map(|it| it.code().as_str()).collect()
}

fn opened(place: &Place) -> Threads {
    let threads = place.open();
    threads.create("a");
    threads.say("a", &["one"]);
    threads
}

#[test]
fn a_store_stops_writing_when_the_schema_is_raised_under_it() {
    let place = Place::new();
    let threads = opened(&place);
    let other = rusqlite::Connection::open(place.db()).expect("the file");
    other.execute_batch("PRAGMA user_version = 99").expect("a newer program");
    assert_eq!(written(&threads), ["schema_newer"; 8]);
    assert_eq!(threads.texts("a"), ["one"], "it can be read");
    let err = block_on(threads.store.probe(Timestamp(1))).expect_err("it can't be written");
    assert!(err.to_string().contains("has schema version 99, this program knows versions up to 6"), "{err}");
    other.execute_batch("PRAGMA user_version = 6").expect("back again");
    threads.say("a", &["two"]);
    assert_eq!(threads.texts("a"), ["one", "two"]);
}

#[test]
#[cfg(unix)]
fn nothing_is_acknowledged_once_the_file_is_removed_or_replaced() {
    for name in ["contexture.db", "contexture.db-wal"] {
        let place = Place::new();
        let threads = opened(&place);
        // Aside, so that the number of the file is not given to the next one.
        fs::rename(place.file(name), place.file("aside")).expect("it is there");
        assert_eq!(written(&threads), ["store_unavailable"; 8], "{name}");
        fs::copy(place.file("aside"), place.file(name)).expect("a copy");
        assert_eq!(written(&threads), ["store_unavailable"; 8], "a copy of {name}");
        let state = threads.head("a").state;
        let err = threads.append("a", &state, &["late"], Guard::Free).expect_err("it is another file");
        assert!(err.to_string().ends_with("was removed or replaced while it was open"), "{err}");
        let err = block_on(threads.store.probe(Timestamp(1))).expect_err("it is another file");
        assert_eq!(err.code(), "store_unavailable", "{name}");
        fs::rename(place.file("aside"), place.file(name)).expect("back again");
        threads.say("a", &["two"]);
        assert_eq!(threads.texts("a"), ["one", "two"], "nothing of what was refused is there");
    }
}

#[test]
fn a_probe_sees_damage_that_open_connections_do_not() {
    let place = Place::new();
    let threads = opened(&place);
    block_on(threads.store.probe(Timestamp(1))).expect("all is well");
    let mut file = fs::OpenOptions::new().write(true).open(place.db()).expect("the file");
    let sound = fs::read(place.db()).expect("the file");
    file.write_all(&[7; 4096]).expect("damage");
    let err = block_on(threads.store.probe(Timestamp(2))).expect_err("it is no database any more");
    assert_eq!(err.code(), "store_damaged");
    file.set_len(0).expect("damage");
    let err = block_on(threads.store.probe(Timestamp(2))).expect_err("it is empty");
    assert_eq!(err.code(), "store_damaged");
    assert!(place.file("contexture.db-wal").exists(), "what is in the log can be saved still");
    file.seek(SeekFrom::Start(0)).expect("the beginning");
    file.write_all(&sound).expect("the file as it was");
    block_on(threads.store.probe(Timestamp(3))).expect("all is well");
}
