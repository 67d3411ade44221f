//! Logs without a writer are searched in a short list.

use contexture_history::{Body, Change, TurnStatus};
use contexture_session::{DueKind, Guard, Log as _};
use futures::executor::block_on;
use rusqlite::Connection;

use crate::support::{Place, Threads, append, began, thread_key};

fn ended() -> Body {
    Body::Change(Change::TurnEnded { status: TurnStatus::Completed, reason: None, code: None, usage: None })
}

fn put(threads: &Threads, name: &str, body: Body) {
    let append = append(&threads.head(name).state, vec![body], Guard::Free);
    block_on(threads.store.append(thread_key(name), append)).expect("an append");
}

fn due(threads: &Threads) -> Vec<String> {
    let due = block_on(threads.store.due(DueKind::Threads, None, 10)).expect("a list");
    due.into_iter().map(|it| it.thread.to_string()).collect()
}

fn listed(place: &Place) -> Vec<String> {
    let conn = Connection::open(place.db()).expect("a file");
    let mut names = conn.prepare("SELECT name FROM logs WHERE is_listed = 1 ORDER BY name").expect("a query");
    let names = names.query_map([], |row| row.get(0)).expect("names");
    names.map(|it| it.expect("a name")).collect()
}

#[test]
fn a_thread_at_rest_is_taken_off_the_list_and_found_again() {
    let place = Place::new();
    let threads = place.open();
    ["a", "b"].iter().for_each(|it| threads.create(it));
    assert_eq!(listed(&place), [""; 0]);
    ["a", "b"].iter().for_each(|it| put(&threads, it, began("one")));
    assert_eq!((due(&threads), listed(&place)), (vec!["a".into(), "b".into()], vec!["a".into(), "b".into()]));
    put(&threads, "a", ended());
    // The end changes no page of the index.
    assert_eq!(listed(&place), ["a", "b"]);
    assert_eq!((due(&threads), listed(&place)), (vec!["b".to_owned()], vec!["b".to_owned()]));
    put(&threads, "a", began("two"));
    assert_eq!((due(&threads), listed(&place)), (vec!["a".into(), "b".into()], vec!["a".into(), "b".into()]));
}
