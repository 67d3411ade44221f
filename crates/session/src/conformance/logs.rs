//! Checks of what threads, runs and journals share: numbers, nonces, saved text, start keys, and who is due.

use std::sync::Arc;
use std::time::Duration;

use contexture_history::{Application, Body, Item, Seq, Timestamp, TurnNo};
use serde_json::json;

use super::support::{BareThread, Open, TestNames, append_to, bare, everything, said};
use crate::store::{Append, DueKind, Fence, Guard, LogKind, LogList, LogState, NewLog, Span, UnfinishedText};
use crate::{Names as _, State, StoreError, Tenant, ThreadId, ThreadKey};

const OWNER: &str = "a writer";

fn acquire(ttl: u64) -> Guard {
    Guard::Acquire { owner: Arc::from(OWNER), ttl: Duration::from_millis(ttl) }
}

fn record(name: &str) -> Body {
    Body::Application(Application { kind: "record".to_owned(), value: json!({"name": name}) })
}

/// Returns an append of records wherever a log ends.
fn records(names: &[&str], at: Timestamp) -> Append {
    let bodies = names.iter().map(|it| record(it)).collect();
    let sample = append_to(&State::default(), Guard::Any, bodies);
    let items = sample.items.into_iter().map(|it| Item { at, ..it }).collect();
    Append { expected: None, nonce: String::new(), state: None, keys: Vec::new(), items, ..sample }
}

/// Creates a run with one item and returns its key.
async fn run(it: &BareThread, start_key: Option<&str>) -> Result<ThreadKey, StoreError> {
    let first = append_to(&State::default(), Guard::Any, vec![record("start")]);
    let json = json!({"flow": "f"}).to_string();
    let new = NewLog {
        kind: LogKind::Run,
        start_key: start_key.map(str::to_owned),
        state: LogState { end: Seq(1), json, needs_writer: true, ..LogState::default() },
        items: first.items,
        ..NewLog::isolated(it.session.clone(), it.session.session.run(&TestNames.next()), Timestamp(3))
    };
    it.store.create_log(new.clone()).await.map(|()| new.key())
}

async fn journal(it: &BareThread, name: &str) -> ThreadKey {
    let new = NewLog::journal(it.session.clone(), name, Timestamp(3));
    it.store.create_log(new.clone()).await.expect("a journal");
    new.key()
}

fn names(items: &[Item]) -> Vec<String> {
    let name = |it: &Item| match &it.body {
        Body::Application(it) => it.value["name"].as_str().unwrap_or_default().to_owned(),
        other => other.kind().to_owned(),
    };
    items.iter().map(name).collect()
}

/// An append that is repeated because its reply was lost is made once, also if others wrote since.
pub async fn an_append_lands_once(open: Open) {
    let it = bare(&open).await;
    let first = append_to(&it.head().await.state, acquire(60_000), vec![said("one"), said("two")]);
    let appended = it.store.append(it.key.clone(), first.clone()).await.expect("an append");
    let again = open().await.append(it.key.clone(), first.clone()).await.expect("it landed");
    assert_eq!((again.end, again.number), (appended.end, appended.number));
    let fence = appended.fence.expect("a lease");
    let last = append_to(&it.head().await.state, Guard::Release { fence }, vec![said("three")]);
    it.store.append(it.key.clone(), last.clone()).await.expect("an append");
    it.say("of another writer").await;
    let again = it.store.append(it.key.clone(), last).await.expect("it landed, and its lease is given back");
    assert_eq!(again.end, Seq(3));
    it.store.append(it.key.clone(), first).await.expect("it landed long ago");
    assert_eq!(it.items().await.len(), 4, "nothing was written twice");
    let mut other = append_to(&State::default(), Guard::Free, vec![said("no")]);
    other.nonce = String::new();
    let refused = it.store.append(it.key.clone(), other).await;
    assert!(matches!(refused, Err(StoreError::Conflict { .. })), "{refused:?}");
}

/// The items of all threads and runs of a session have one order, which every reader sees; copies and journals are not
/// in it.
pub async fn items_are_numbered(open: Open) {
    const APPENDS: usize = 20;
    let it = bare(&open).await;
    let run = run(&it, None).await.expect("a run");
    let side = it.session.session.clone();
    let side = ThreadId::parse(format!("{side}/side")).expect("a name");
    let new = NewLog::isolated(it.session.clone(), side, Timestamp(3));
    it.store.create_log(new.clone()).await.expect("a thread");
    let hidden = journal(&it, "passes").await;
    let writers = [it.key.clone(), run.clone(), new.key(), hidden.clone()];
    let each = writers.iter().map(|key| async {
        let key = key.clone();
        let store = open().await;
        for no in 0..APPENDS {
            let append = records(&["a", "b"][..1 + no % 2], Timestamp(5));
            let appended = store.append(key.clone(), append).await.expect("an append");
            assert_eq!(appended.number == 0, key == hidden, "{key:?}");
        }
    });
    futures::future::join_all(each).await;
    let whole = it.store.feed(it.session.clone(), 0, usize::MAX).await.expect("the store answers");
    let numbers: Vec<u64> = whole.iter().map(|it| it.number).collect();
    assert_eq!(numbers, (1..=numbers.len() as u64).collect::<Vec<_>>(), "they have no gap");
    assert_eq!(numbers.len(), 1 + 3 * APPENDS * 3 / 2);
    for key in &writers[..3] {
        let of_log: Vec<Item> =
            whole.iter().filter(|it| it.thread == key.thread).map(|it| it.item.clone()).collect();
        assert_eq!(of_log, everything(&*it.store, key).await, "each log is there whole and in its order");
    }
    assert_eq!(it.store.feed_end(it.session.clone()).await.expect("the store answers"), numbers.len() as u64);
    let (mut paged, mut after) = (Vec::new(), 0);
    while after < numbers.len() as u64 {
        let page = it.store.feed(it.session.clone(), after, 7).await.expect("the store answers");
        after = page.last().expect("there is more").number;
        paged.extend(page);
    }
    assert_eq!(paged, whole);
    for known in &whole {
        let key = ThreadKey { tenant: it.key.tenant.clone(), thread: known.thread.clone() };
        let number = it.store.number_at(key, known.item.seq).await.expect("the store answers");
        assert_eq!(number, Some(known.number), "{known:?}");
    }
    let beyond = it.store.number_at(it.key.clone(), Seq(9_999)).await.expect("the store answers");
    let unnumbered = it.store.number_at(hidden, Seq(1)).await.expect("the store answers");
    assert_eq!((beyond, unnumbered), (None, None));
    it.store.delete_log(new.key()).await.expect("the store answers");
    let rest = it.store.feed(it.session.clone(), 0, usize::MAX).await.expect("the store answers");
    assert!(rest.len() < whole.len() && rest.iter().all(|it| whole.contains(it)), "the others keep theirs");
    let last = records(&["z"], Timestamp(6));
    let last = it.store.append(it.key.clone(), last).await.expect("an append").number;
    assert_eq!(last, numbers.len() as u64 + 1, "no number is given twice");
}

/// Whoever waits for a session learns of appends to any of its logs, and of saved text.
pub async fn a_session_wakes_who_waits(open: Open) {
    let it = bare(&open).await;
    let run = run(&it, None).await.expect("a run");
    let end = it.store.feed_end(it.session.clone()).await.expect("the store answers");
    let other = open().await;
    let woken = |after| {
        let (store, session) = (Arc::clone(&it.store), it.session.clone());
        tokio::spawn(async move {
            tokio::time::timeout(Duration::from_secs(20), store.feed_changed(session, after)).await
        })
    };
    let waiting = woken(end);
    tokio::time::sleep(Duration::from_millis(30)).await;
    other.append(run, records(&["x"], Timestamp(5))).await.expect("an append");
    waiting.await.expect("it ends").expect("in time").expect("the store answers");
    woken(end).await.expect("it ends").expect("at once: there is more").expect("the store answers");
    let fence = other.lease(it.key.clone(), acquire(60_000)).await.expect("a lease").expect("a number");
    let waiting = woken(end + 1);
    tokio::time::sleep(Duration::from_millis(30)).await;
    other.save(it.key.clone(), fence, UnfinishedText::default()).await.expect("it is saved");
    waiting.await.expect("it ends").expect("in time").expect("the store answers");
    let waiting = woken(end + 1);
    tokio::time::sleep(Duration::from_millis(30)).await;
    assert!(other.delete_session(it.session.clone()).await.expect("the store answers"));
    waiting.await.expect("it ends").expect("in time").expect("the store answers");
    let missing = woken(end + 1).await.expect("it ends").expect("at once: there is no session");
    assert!(matches!(missing, Err(StoreError::NotFound { what: "session", .. })), "{missing:?}");
}

/// A follower of a session whose newest items were deleted waits for the next ones.
pub async fn deleted_items_wake_nobody(open: Open) {
    let it = bare(&open).await;
    let end = it.store.feed_end(it.session.clone()).await.expect("the store answers");
    let run = run(&it, None).await.expect("a run");
    it.store.append(run.clone(), records(&["x", "y"], Timestamp(5))).await.expect("an append");
    assert!(it.store.delete_log(run).await.expect("the store answers"));
    let waits = || it.store.feed_changed(it.session.clone(), end);
    let quiet = async {
        // The deletion may wake it once more.
        while tokio::time::timeout(Duration::from_millis(200), waits()).await.is_ok() {}
    };
    tokio::time::timeout(Duration::from_secs(20), quiet).await.expect("it waits");
    let next = async {
        tokio::time::sleep(Duration::from_millis(30)).await;
        it.store.append(it.key.clone(), records(&["z"], Timestamp(6))).await.expect("an append");
    };
    let (woken, ()) = tokio::join!(tokio::time::timeout(Duration::from_secs(20), waits()), next);
    woken.expect("in time").expect("the store answers");
    let feed = it.store.feed(it.session.clone(), end, 10).await.expect("the store answers");
    assert_eq!(feed.len(), 1, "{feed:?}");
}

/// Items that a waiter is handed are the ones that it would read.
pub async fn a_waiter_is_handed_what_it_would_read(open: Open) {
    let it = bare(&open).await;
    let run = run(&it, None).await.expect("a run");
    let long = "long ".repeat(4_000);
    for said in [vec![said("one"), said(&long)], vec![said("two")]] {
        let append = append_to(&it.head().await.state, Guard::Free, said);
        for (key, append) in [(&it.key, append), (&run, records(&["x", "y"], Timestamp(5)))] {
            let end = it.store.feed_end(it.session.clone()).await.expect("the store answers");
            let (store, session) = (Arc::clone(&it.store), it.session.clone());
            let waiting = tokio::spawn(async move { store.feed_changed(session, end).await });
            tokio::time::sleep(Duration::from_millis(30)).await;
            it.store.append(key.clone(), append).await.expect("an append");
            let handed = waiting.await.expect("it ends").expect("the store answers");
            let read = it.store.feed(it.session.clone(), end, 10).await.expect("the store answers");
            assert!(handed.is_empty() || handed[..] == read[..], "{handed:?} instead of {read:?}");
        }
    }
}

/// A log has the text that its writer saved last; a writer that was taken over saves nothing.
pub async fn saved_text_is_replaced(open: Open) {
    let it = bare(&open).await;
    let fence = it.store.lease(it.key.clone(), acquire(20)).await.expect("a lease").expect("a number");
    let text = |text: &str| UnfinishedText {
        turn: TurnNo(1),
        end: Seq(2),
        began: 3,
        after: 4,
        text: text.to_owned(),
        thinking: "hm\u{0}".replace('\u{0}', ""),
    };
    for piece in ["a", "ab", &"ä€😀'\\".repeat(9_000)] {
        it.store.save(it.key.clone(), fence, text(piece)).await.expect("it is saved");
        let saved = open().await.saved(it.session.clone()).await.expect("the store answers");
        assert_eq!(saved, [(it.key.thread.clone(), text(piece))]);
    }
    tokio::time::sleep(Duration::from_millis(60)).await;
    let guard = Guard::Acquire { owner: Arc::from("another"), ttl: Duration::from_secs(60) };
    it.store.lease(it.key.clone(), guard).await.expect("the lease has ended");
    let late = it.store.save(it.key.clone(), fence, text("late")).await;
    assert!(matches!(late, Err(StoreError::Fenced { .. })), "{late:?}");
    let none = it.store.save(it.key.clone(), Fence(0), text("late")).await;
    assert!(matches!(none, Err(StoreError::Fenced { .. })), "{none:?}");
    let other = bare(&open).await;
    assert_eq!(other.store.saved(other.session.clone()).await.expect("the store answers"), []);
}

/// A log needs a writer if its last state says so and nobody holds its lease.
pub async fn who_needs_a_writer_is_due(open: Open) {
    let it = bare(&open).await;
    let key = run(&it, None).await.expect("a run");
    let due = || async {
        let (mut found, mut after) = (Vec::new(), None);
        loop {
            let page = it.store.due(DueKind::Runs, after.clone(), 3).await.expect("the store answers");
            assert!(page.is_sorted(), "{page:?}");
            let Some(last) = page.last() else { return found.contains(&key) };
            after = Some(last.clone());
            found.extend(page);
        }
    };
    assert!(due().await);
    let threads = it.store.due(DueKind::Threads, None, usize::MAX).await.expect("the store answers");
    assert!(!threads.contains(&key) && !threads.contains(&it.key), "{threads:?}");
    let fence = it.store.lease(key.clone(), acquire(150)).await.expect("a lease").expect("a number");
    assert!(!due().await, "it has one");
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert!(due().await, "it is lost");
    let waits = |guard: Guard, needs_writer: bool, end: u64| {
        let append = records(&["x"], Timestamp(5));
        let items = append.items.into_iter().map(|it| Item { seq: Seq(end + 1), ..it }).collect();
        let state =
            LogState { end: Seq(end + 1), needs_writer, json: "{}".to_owned(), ..LogState::default() };
        Append { expected: Some(Seq(end)), items, state: Some(state), guard, ..append }
    };
    it.store.append(key.clone(), waits(Guard::Release { fence }, false, 1)).await.expect("an append");
    assert!(!due().await, "it waits");
    it.store.append(key.clone(), records(&["note"], Timestamp(5))).await.expect("anyone may");
    assert!(!due().await, "a note changes nothing");
    let call = Append { guard: Guard::Call, ..records(&["answer"], Timestamp(5)) };
    it.store.append(key.clone(), call).await.expect("anyone may");
    assert!(due().await, "it was called");
    let head = it.store.head(key.clone()).await.expect("the store answers").expect("a run");
    assert_eq!((head.state.as_str(), head.info.items), ("{}", 4), "a call leaves the state as it was");
    assert_eq!(names(&everything(&*it.store, &key).await), ["start", "x", "note", "answer"]);
    it.store.delete_session(it.session.clone()).await.expect("the store answers");
    assert!(!due().await);
}

/// A start key names one log of its tenant, as long as that log exists.
pub async fn start_keys_are_unique(open: Open) {
    let (it, other) = (bare(&open).await, bare(&open).await);
    let start_key = TestNames.next();
    let found = || async {
        it.store.log_with_start_key(Tenant::default(), start_key.clone()).await.expect("the store answers")
    };
    assert_eq!(found().await, None);
    let racing = [&it, &other, &it, &other].map(|it| run(it, Some(&start_key)));
    let begun: Vec<_> = futures::future::join_all(racing).await.into_iter().flat_map(Result::ok).collect();
    assert_eq!(begun.len(), 1, "{begun:?}");
    assert_eq!(found().await.as_ref(), begun.first());
    let stranger = Tenant::parse("stranger").expect("a name");
    let seen = it.store.log_with_start_key(stranger, start_key.clone()).await.expect("the store answers");
    assert_eq!(seen, None, "it is the tenant's");
    let owner = if begun[0].thread.session() == it.session.session { &it } else { &other };
    owner.store.delete_session(owner.session.clone()).await.expect("the store answers");
    assert_eq!(found().await, None, "it goes with its session");
    let rest = if std::ptr::eq(owner, &raw const it) { &other } else { &it };
    let key = run(rest, Some(&start_key)).await.expect("it is free");
    assert_eq!(found().await, Some(key.clone()));
    it.store.delete_log(key).await.expect("the store answers");
    assert_eq!(found().await, None, "it goes with its log");
}

/// Runs and journals are listed by themselves, and are no threads of their session.
pub async fn runs_are_no_threads(open: Open) {
    let (it, other) = (bare(&open).await, bare(&open).await);
    let mut runs = [run(&it, None).await.expect("a run"), run(&it, None).await.expect("a run")];
    let elsewhere = run(&other, None).await.expect("a run");
    journal(&it, "passes").await;
    runs.sort();
    let list = |after: Option<ThreadKey>, max: usize| {
        let (tenant, session) = (Some(it.session.tenant.clone()), Some(it.session.session.clone()));
        it.store.logs(LogList { kind: LogKind::Run, tenant, session, after, max })
    };
    let listed = list(None, 9).await.expect("the store answers");
    assert_eq!(
        listed.iter().map(|it| &it.info.thread).collect::<Vec<_>>(),
        [&runs[0].thread, &runs[1].thread]
    );
    assert_eq!(listed[0].state, r#"{"flow":"f"}"#);
    assert_eq!(list(None, 1).await.expect("the store answers").len(), 1);
    let rest = list(Some(runs[0].clone()), 9).await.expect("the store answers");
    assert_eq!(rest.iter().map(|it| &it.info.thread).collect::<Vec<_>>(), [&runs[1].thread]);
    let (kind, tenant, session) = (LogKind::Run, None, None);
    let (mut all, mut after) = (Vec::new(), None);
    loop {
        let list = LogList { kind, tenant: tenant.clone(), session: session.clone(), after, max: 50 };
        let page = it.store.logs(list).await.expect("the store answers");
        let Some(last) = page.last() else { break };
        after = Some(last.key());
        all.extend(page.into_iter().map(|it| it.info.thread));
    }
    assert!(all.contains(&elsewhere.thread) && all.contains(&runs[0].thread));
    let threads = it.store.threads(it.session.clone()).await.expect("the store answers");
    assert_eq!(threads.len(), 1, "{threads:?}");
    let sessions = super::support::process(&open).await;
    let opened = sessions.open_thread(&runs[0].thread).await;
    assert!(opened.is_err(), "a run is not opened as a thread");
    assert!(it.store.delete_log(runs[0].clone()).await.expect("the store answers"));
    assert_eq!(list(None, 9).await.expect("the store answers").len(), 1);
    it.store.delete_session(it.session.clone()).await.expect("the store answers");
    assert_eq!(list(None, 9).await.expect("the store answers"), []);
}

/// A journal is pruned from its start, by age; positions are never used again.
pub async fn journals_are_pruned(open: Open) {
    let it = bare(&open).await;
    let name = TestNames.next();
    let (key, other) = (journal(&it, &name).await, journal(&it, &TestNames.next()).await);
    for key in [&key, &other] {
        for (no, at) in [(1, 10), (2, 20), (3, 30), (4, 15)] {
            let lazy = no % 2 == 0;
            let append = Append { lazy, ..records(&[&no.to_string()], Timestamp(at)) };
            it.store.append(key.clone(), append).await.expect("an append");
        }
    }
    let prune = |before: i64, max: usize| it.store.prune_journals(name.clone(), Timestamp(before), max);
    let left = || async { names(&everything(&*it.store, &key).await) };
    assert_eq!(prune(10, 9).await.expect("the store answers"), 0);
    assert_eq!(prune(25, 1).await.expect("the store answers"), 1, "one at a time");
    assert_eq!(left().await, ["2", "3", "4"]);
    assert_eq!(prune(25, 9).await.expect("the store answers"), 1);
    assert_eq!(left().await, ["3", "4"], "the last is old but not at the start");
    let tail = Span::NewestItems { count: 1, client: false };
    let tail = it.store.read(key.clone(), tail).await.expect("the store answers");
    assert_eq!((names(&tail), tail[0].seq), (vec!["4".to_owned()], Seq(4)));
    assert_eq!(prune(99, 9).await.expect("the store answers"), 2);
    assert_eq!(left().await, [""; 0]);
    let appended = it.store.append(key.clone(), records(&["5"], Timestamp(99))).await.expect("an append");
    assert_eq!(appended.end, Seq(5));
    assert_eq!(prune(100, 9).await.expect("the store answers"), 1);
    assert_eq!(everything(&*it.store, &other).await.len(), 4, "another journal is left alone");
}
