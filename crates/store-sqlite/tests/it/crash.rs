//! A process that is killed while it appends loses nothing that it acknowledged.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use contexture_history::{Body, Change, Item};
use contexture_session::{Guard, Log as _, State};
use futures::executor::block_on;

use crate::support::{Place, Threads, append, began, large, said, thread_key};

const FILE: &str = "CONTEXTURE_CRASH_FILE";
const KILLS: usize = 60;
/// Each append is a turn of so many items.
const ITEMS: usize = 4;

/// Not a test of its own: what the test below starts and kills. It appends until it is killed, and prints the end of
/// the log each time it is acknowledged.
#[test]
#[ignore = "started by `acknowledged_items_survive_a_kill`"]
fn child() {
    let Some(file) = std::env::var_os(FILE) else { return };
    let threads = Threads::open(Path::new(&file)).expect("an open file");
    let mut out = std::io::stdout();
    loop {
        let state = threads.head("a").state;
        let text = format!("turn {}", state.turn.0 + 1);
        // Some turns have a text that is stored apart, the same one again and again.
        let long = if state.turn.0.is_multiple_of(7) { large("long ") } else { text.clone() };
        let bodies = vec![began(&text), said(&text), said(&long), said("answer")];
        let append = append(&state, bodies, Guard::Free);
        let end = block_on(threads.store.append(thread_key("a"), append)).expect("an append").end;
        writeln!(out, "acknowledged {end}").expect("a line");
        out.flush().expect("a line");
    }
}

/// Starts the child, kills it after a while, and returns what it acknowledged last.
fn start_and_kill(place: &Place, after: Duration) -> usize {
    let mut child: Child = Command::new(std::env::current_exe().expect("this program"))
        .args(["crash::child", "--exact", "--ignored", "--nocapture"])
        .env(FILE, place.db())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("a child");
    let out = child.stdout.take().expect("its output");
    let mut lines = BufReader::new(out).lines().map_while(Result::ok);
    let end = |line: String| line.split("acknowledged ").nth(1).and_then(|it| it.trim().parse().ok());
    // The moment is counted from the first append on, so that each child gets somewhere.
    let first: usize = lines.by_ref().find_map(end).expect("an append");
    std::thread::sleep(after);
    child.kill().expect("a kill");
    let last = lines.filter_map(end).last().unwrap_or(first);
    child.wait().expect("an end");
    last
}

#[test]
fn acknowledged_items_survive_a_kill() {
    let place = Place::new();
    place.open().create("a");
    let mut moment: u64 = 0x9E37_79B9_7F4A_7C15;
    for _ in 0..KILLS {
        moment = moment.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let acknowledged = start_and_kill(&place, Duration::from_micros((moment >> 33) % 25_000));
        check(&place, acknowledged);
    }
}

fn check(place: &Place, acknowledged: usize) {
    let threads = place.open();
    let items = threads.items("a");
    assert!(items.len() >= acknowledged, "{} items, {acknowledged} acknowledged", items.len());
    assert_eq!(items.len() % ITEMS, 0, "no commit is half there");
    assert_eq!(State::replay(&items), threads.head("a").state);
    for (idx, item) in items.iter().enumerate() {
        assert_eq!(item.seq.0, idx as u64 + 1, "in order, each once");
        assert_eq!(item.turn.0, (idx / ITEMS) as u64 + 1);
    }
    assert_keys(&threads, &items);
    let bodies = vec![began("after"), said("a"), said("b"), said("c")];
    let next = append(&threads.head("a").state, bodies, Guard::Free);
    block_on(threads.store.append(thread_key("a"), next)).expect("the next append works");
}

fn assert_keys(threads: &Threads, items: &[Item]) {
    let newest = items.iter().rev().find_map(|it| match &it.body {
        Body::Change(Change::TurnBegan { key: Some(key), .. }) => Some((key.clone(), it.seq)),
        _ => None,
    });
    let Some((key, seq)) = newest else { return };
    let keyed = block_on(threads.store.turn_with_key(thread_key("a"), key)).expect("an answer");
    assert_eq!(keyed.map(|it| it.began), Some(seq));
}
