//! Streams and documents of a file that was damaged, or that is older than they are.

use contexture_history::Timestamp;
use contexture_session::Tenant;
use contexture_session::records::{
    Document, DocumentKey, Extent, NewRecord, Records as _, StreamKey, Writes,
};
use contexture_store_sqlite::{Recovered, SqliteStore};
use futures::executor::block_on;

use crate::support::{Place, Threads, session};

fn stream() -> StreamKey {
    StreamKey::of_session(&Tenant::default(), &session("a").session, "events")
}

fn key(name: &str) -> DocumentKey {
    DocumentKey::of_tenant(&Tenant::default(), "pass", name)
}

fn write(threads: &Threads, writes: Writes) -> Vec<u64> {
    block_on(threads.store.write(writes)).expect("a write")
}

fn append(threads: &Threads, data: &str) -> u64 {
    let records = vec![NewRecord { stream: stream(), at: Timestamp(1), data: data.to_owned() }];
    write(threads, Writes { records, ..Writes::default() })[0]
}

fn numbers(threads: &Threads) -> Vec<u64> {
    let records = block_on(threads.store.read(stream(), 0, usize::MAX)).expect("an answer");
    records.iter().map(|it| it.number).collect()
}

/// A file with a stream of 200 records, of which 20 are forgotten, and 50 documents.
fn filled() -> Place {
    let place = Place::new();
    let threads = place.open();
    threads.create("a");
    for idx in 0..200 {
        append(&threads, &format!("r{idx} {}", "x".repeat(700)));
    }
    let pruned = block_on(threads.store.prune("events".to_owned(), Timestamp(2), 20)).expect("an answer");
    assert_eq!(pruned, 20);
    let document = |n: i64| Document {
        key: key(&format!("d{n}")),
        at: Timestamp(n),
        data: format!("d{n} {}", "y".repeat(700)),
    };
    write(&threads, Writes { puts: (0..50).map(document).collect(), ..Writes::default() });
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
    let (recovered, threads) = recover(&place);
    assert!(recovered.lost.is_empty(), "{:?}", recovered.lost);
    assert_eq!(numbers(&threads), (21..=200).collect::<Vec<_>>());
    let extent = block_on(threads.store.extent(stream())).expect("an answer");
    assert_eq!(extent, Extent { forgotten: 20, last: 200 });
    let found = block_on(threads.store.documents(vec![key("d7")])).expect("an answer");
    assert_eq!(found[0].at, Timestamp(7));
    assert_eq!(append(&threads, "next"), 201);
    let pruned = block_on(threads.store.prune("events".to_owned(), Timestamp(2), 999)).expect("an answer");
    assert_eq!(pruned, 181, "how old a stream is was recovered too");
}

#[test]
fn records_of_a_lost_page_are_named_and_their_numbers_stay() {
    let place = filled();
    let mut file = std::fs::read(place.db()).expect("a file");
    let at = file.windows(6).position(|it| it == b"r100 x").expect("the text") / 8192 * 8192;
    file[at..at + 8192].fill(0);
    std::fs::write(place.db(), file).expect("a file");
    let (recovered, threads) = recover(&place);
    let found = numbers(&threads);
    assert!((160..180).contains(&found.len()), "{}", found.len());
    let lost = recovered.lost.join("\n");
    assert!(lost.contains("table `records` could not be read at 1 places"), "{lost}");
    let missing = 180 - found.len();
    assert!(lost.contains(&format!("stream `events` of session `a`: {missing} of 180 records")), "{lost}");
    assert_eq!(append(&threads, "next"), 201);
}

#[test]
fn what_belongs_to_nothing_is_left_and_named() {
    let place = filled();
    let conn = rusqlite::Connection::open(place.db()).expect("a file");
    conn.execute_batch("DELETE FROM sessions; DELETE FROM threads").expect("a deletion");
    drop(conn);
    let (recovered, threads) = recover(&place);
    assert!(numbers(&threads).is_empty());
    let expected = ["1 streams whose session is lost", "180 records whose stream is lost"];
    assert_eq!(recovered.lost, expected);
    let found = block_on(threads.store.documents(vec![key("d7")])).expect("an answer");
    assert_eq!(found.len(), 1, "it belongs to no session");
}

#[test]
fn an_older_file_gets_them_and_can_be_recovered() {
    let place = filled();
    let conn = rusqlite::Connection::open(place.db()).expect("a file");
    let older = "DROP TABLE streams; DROP TABLE records; DROP TABLE documents; PRAGMA user_version = 2";
    conn.execute_batch(older).expect("a script");
    drop(conn);
    let (recovered, threads) = recover(&place);
    assert!(recovered.lost.is_empty(), "{:?}", recovered.lost);
    assert_eq!(append(&threads, "first"), 1);
    assert_eq!(append(&place.open(), "first"), 1);
}
