//! Forking, deleting, and the large texts they share.

use contexture_session::{LogState, NewLog, Store as _, Tenant, Usage};
use futures::executor::block_on;
use rusqlite::Connection;

use crate::support::{Place, Threads, large, session, texts, thread_key};

fn usage(threads: &Threads) -> Usage {
    block_on(threads.store.usage(Tenant::default())).expect("an answer")
}

/// Counts the rows of every table.
fn rows(place: &Place) -> String {
    let conn = Connection::open(place.db()).expect("a file");
    let tables = ["sessions", "logs", "commits", "turn_keys", "blobs", "blob_uses", "archived", "unfinished"];
    let count = |table: &str| {
        let rows: i64 =
            conn.query_row(&format!("SELECT count(*) FROM {table}"), [], |row| row.get(0)).expect("a count");
        format!("{table} {rows}")
    };
    tables.map(count).join(", ")
}

#[test]
fn a_large_text_is_stored_once_and_goes_with_its_last_user() {
    let place = Place::new();
    let threads = place.open();
    let text = large("a large text ");
    threads.create("a");
    threads.create("b");
    threads.say("a", &[&text, "small", &text]);
    threads.say("b", &[&text]);
    assert_eq!((usage(&threads).blobs, usage(&threads).blob_bytes), (1, text.len() as u64));
    assert_eq!(threads.texts("a"), [text.as_str(), "small", text.as_str()]);

    block_on(threads.store.delete_session(session("a"))).expect("an answer");
    assert_eq!(threads.texts("b"), [text.as_str()]);
    assert_eq!(usage(&threads).blobs, 1);
    block_on(threads.store.delete_session(session("b"))).expect("an answer");
    assert_eq!(usage(&threads).blobs, 0);
    drop(threads);
    assert_eq!(
        rows(&place),
        "sessions 0, logs 0, commits 0, turn_keys 0, blobs 0, blob_uses 0, archived 0, unfinished 0"
    );
}

#[test]
fn a_fork_shares_the_items_before_its_end_only() {
    let place = Place::new();
    let threads = place.open();
    let (early, late) = (large("early "), large("late "));
    threads.create("a");
    // The cut goes through a commit.
    threads.say("a", &["one", &early]);
    threads.say("a", &["two", "three", &late]);
    threads.fork("a", "f", 3).expect("a fork");
    threads.say("f", &["other"]);
    assert_eq!(threads.texts("f"), ["one", early.as_str(), "two", "other"]);
    assert_eq!(threads.texts("a"), ["one", early.as_str(), "two", "three", late.as_str()]);

    block_on(threads.store.delete_session(session("a"))).expect("an answer");
    assert_eq!(usage(&threads), Usage::default(), "the fork was of the same session");
}

#[test]
fn a_fork_keeps_what_it_needs_when_the_other_thread_is_deleted() {
    let place = Place::new();
    let threads = place.open();
    let (early, late) = (large("early "), large("late "));
    threads.create("a");
    threads.say("a", &[&early, &late]);
    threads.fork("a", "f", 2).expect("a fork");
    threads.fork("a", "g", 1).expect("a fork");
    assert!(block_on(threads.store.delete_log(thread_key("f"))).expect("an answer"));
    assert!(!block_on(threads.store.delete_log(thread_key("f"))).expect("an answer"));
    assert_eq!(threads.texts("g"), [early.as_str()]);
    assert_eq!(usage(&threads).blobs, 2);
    let refusal = block_on(threads.store.delete_log(thread_key("a"))).expect_err("a refusal");
    assert_eq!(refusal.code(), "main_thread");
}

#[test]
fn a_fork_beyond_the_end_is_refused() {
    let place = Place::new();
    let threads = place.open();
    threads.create("a");
    threads.create("b");
    threads.say("a", &["one"]);
    let mut state = threads.head("a").state;
    state.end = contexture_history::Seq(2);
    let at = contexture_history::Timestamp(1);
    let log = NewLog {
        state: LogState::from(&state),
        ..NewLog::isolated(session("b"), thread_key("f").thread, at)
    };
    let refusal = block_on(threads.store.fork(thread_key("a"), log)).expect_err("a refusal");
    assert_eq!(
        refusal.to_string(),
        "an append to thread `f` is malformed: it copies up to 2, thread `a` ends at 1"
    );
}

#[test]
fn vacuum_gives_space_back_while_others_read() {
    let place = Place::new();
    let (threads, other) = (place.open(), place.open());
    threads.create("a");
    threads.create("b");
    threads.say("b", &["kept"]);
    for idx in 0..40 {
        threads.say("a", &[&large(&format!("text {idx} "))]);
    }
    block_on(threads.store.vacuum()).expect("a vacuum");
    let full = std::fs::metadata(place.db()).expect("a file").len();
    block_on(threads.store.delete_session(session("a"))).expect("an answer");
    std::thread::scope(|scope| {
        let vacuum = scope.spawn(|| block_on(threads.store.vacuum()).expect("a vacuum"));
        while !vacuum.is_finished() {
            assert_eq!(other.texts("b"), ["kept"]);
        }
    });
    drop((threads, other));
    let less = std::fs::metadata(place.db()).expect("a file").len();
    assert!(less * 2 < full, "{full} bytes before, {less} after");
    assert_eq!(texts(&place.open().items("b")), ["kept"]);
}
