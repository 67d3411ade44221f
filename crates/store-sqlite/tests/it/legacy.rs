//! A file of the version before, as the released program left it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use contexture_history::{Body, Item, Seq, Visibility};
use contexture_session::{
    Documents as _, DueKind, FeedItem, Head, Log as _, LogHead, LogKind, LogList, SessionId, SessionKey,
    Span, State, Store as _, Tenant, ThreadId, ThreadKey, UnfinishedText,
};
use contexture_store_sqlite::SqliteStore;
use futures::executor::block_on;
use serde_json::Value;

use crate::support::{Place, Threads};

fn data(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../server/tests/data/legacy").join(name)
}

/// The file, migrated, and what the program that wrote it answered.
struct Legacy {
    place: Place,
    threads: Threads,
    answers: Value,
}

impl Legacy {
    fn open() -> Legacy {
        let place = Place::new();
        std::fs::copy(data("legacy.db"), place.db()).expect("a copy");
        let answers = std::fs::read(data("legacy.json")).expect("the answers");
        Legacy { threads: place.open(), place, answers: serde_json::from_slice(&answers).expect("JSON") }
    }

    /// Each session with its answers.
    fn sessions(&self) -> Vec<(SessionKey, &Value)> {
        let mut sessions = Vec::new();
        for (tenant, of_tenant) in object(&self.answers["tenants"]) {
            for (name, session) in object(&of_tenant["sessions"]) {
                let tenant = Tenant::parse(tenant.clone()).expect("a name");
                let name = SessionId::parse(name.clone()).expect("a name");
                sessions.push((SessionKey { tenant, session: name }, session));
            }
        }
        sessions
    }

    /// Each run with its answers.
    fn runs(&self) -> Vec<(ThreadKey, &Value)> {
        let mut runs = Vec::new();
        for (tenant, of_tenant) in object(&self.answers["tenants"]) {
            for (name, run) in object(&of_tenant["runs"]) {
                runs.push((run_key(tenant, name), run));
            }
        }
        runs
    }

    fn items(&self, key: &ThreadKey) -> Vec<Item> {
        let all = Span::After { seq: Seq(0), max: usize::MAX };
        block_on(self.threads.store.read(key.clone(), all)).expect("items")
    }

    fn head(&self, key: &ThreadKey) -> LogHead {
        block_on(self.threads.store.head(key.clone())).expect("an answer").expect("a log")
    }

    fn feed(&self, session: &SessionKey) -> Vec<FeedItem> {
        block_on(self.threads.store.feed(session.clone(), 0, usize::MAX)).expect("items")
    }
}

fn object(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
    value.as_object().expect("an object").iter()
}

fn array(value: &Value) -> &[Value] {
    value.as_array().expect("a list")
}

fn log_key(tenant: &Tenant, name: &str) -> ThreadKey {
    ThreadKey { tenant: tenant.clone(), thread: ThreadId::parse(name.to_owned()).expect("a name") }
}

fn run_key(tenant: &str, run: &str) -> ThreadKey {
    let (session, name) = run.split_once('.').expect("a run");
    log_key(&Tenant::parse(tenant.to_owned()).expect("a name"), &format!("{session}//{name}"))
}

/// Returns the kinds and values of items that only their owner sees.
fn records(items: &[Item]) -> Vec<(&str, &Value)> {
    let record = |it: &'_ Item| (it.visibility, it.turn.0, it.cost.tokens.0) == (Visibility::NONE, 0, 0);
    assert!(items.iter().all(record));
    let mut records = Vec::new();
    for item in items {
        let Body::Application(application) = &item.body else { panic!("{item:?} is no record") };
        records.push((application.kind.as_str(), &application.value));
    }
    records
}

#[test]
fn threads_are_what_they_were() {
    let legacy = Legacy::open();
    for (session, answers) in legacy.sessions() {
        let listed = block_on(legacy.threads.store.threads(session.clone())).expect("an answer");
        let names: BTreeSet<&str> = listed.iter().map(|it| it.thread.as_str()).collect();
        let expected: BTreeSet<&str> = object(&answers["threads"]).map(|it| it.0.as_str()).collect();
        assert_eq!(names, expected);
        assert_eq!(listed[0].kind, LogKind::Main);
        for (name, thread) in object(&answers["threads"]) {
            let key = log_key(&session.tenant, name);
            let items = legacy.items(&key);
            let documents: Vec<Value> = items.iter().map(|it| it.document(name)).collect();
            assert_eq!(documents, array(&thread["items"]), "{name}");
            let head =
                block_on(Head::read(&legacy.threads.store, &key)).expect("an answer").expect("a thread");
            assert_eq!(head.state, State::replay(&items), "{name}");
        }
    }
    let key = log_key(&Tenant::default(), "demo");
    let keyed = block_on(legacy.threads.store.turn_with_key(key, "request-1".to_owned())).expect("an answer");
    assert_eq!(keyed.map(|it| it.turn.0), Some(4));
    let forked = legacy.items(&log_key(&Tenant::default(), "forked"));
    legacy.threads.say("forked", &["next"]);
    assert_eq!(legacy.items(&log_key(&Tenant::default(), "forked")).len(), forked.len() + 1);
}

#[test]
fn items_of_threads_and_runs_are_numbered() {
    let legacy = Legacy::open();
    for (session, answers) in legacy.sessions() {
        let feed = legacy.feed(&session);
        let numbers: Vec<u64> = feed.iter().map(|it| it.number).collect();
        assert_eq!(numbers, (1..=feed.len() as u64).collect::<Vec<_>>());
        let end = block_on(legacy.threads.store.feed_end(session.clone())).expect("an answer");
        assert_eq!(end, feed.len() as u64);
        let mut by_log: BTreeMap<ThreadId, Vec<Item>> = BTreeMap::new();
        feed.into_iter().for_each(|it| by_log.entry(it.thread).or_default().push(it.item));
        for (name, _) in object(&answers["threads"]) {
            let key = log_key(&session.tenant, name);
            let base = legacy.head(&key).info.base.map_or(0, |it| usize::try_from(it.seq.0).expect("small"));
            let of_log = by_log.remove(&key.thread).unwrap_or_default();
            assert_eq!(of_log, legacy.items(&key)[base..], "what {name} did not copy");
        }
        for (name, items) in by_log {
            assert_eq!(items, legacy.items(&log_key(&session.tenant, name.as_str())), "the run {name}");
        }
    }
}

#[test]
fn streams_are_journals() {
    let legacy = Legacy::open();
    for (session, answers) in legacy.sessions() {
        let passes = array(&answers["passes"]);
        let key = log_key(&session.tenant, session.session.journal("passes").as_str());
        if passes.is_empty() {
            assert!(block_on(legacy.threads.store.head(key)).expect("an answer").is_none());
            continue;
        }
        assert_eq!(legacy.head(&key).info.kind, LogKind::Journal);
        let items = legacy.items(&key);
        let shown = |(kind, value): (&str, &Value)| (kind.to_owned(), value["fingerprint"].clone());
        let found: Vec<(String, Value)> = records(&items).into_iter().map(shown).collect();
        let expected = |it: &Value| ("pass".to_owned(), it["fingerprint"].clone());
        assert_eq!(found, passes.iter().rev().map(expected).collect::<Vec<_>>());
    }
    let audit = log_key(&Tenant::parse("~system").unwrap(), "audit///audit");
    let items = legacy.items(&audit);
    let acts: Vec<&Value> = records(&items).iter().map(|(_, value)| &value["act"]).collect();
    let expected: Vec<&Value> = array(&legacy.answers["audit"]).iter().rev().map(|it| &it["act"]).collect();
    assert_eq!(acts, expected);
    let newest = items.last().expect("some").at;
    let pruned = block_on(legacy.threads.store.prune_journals("audit".to_owned(), newest, usize::MAX));
    assert_eq!(pruned.expect("an answer"), 26);
}

#[test]
fn runs_are_logs() {
    let legacy = Legacy::open();
    let (kind, tenant, session, after, max) = (LogKind::Run, None, None, None, 100);
    let list = LogList { kind, tenant, session, after, max };
    assert_eq!(block_on(legacy.threads.store.logs(list)).expect("a list").len(), legacy.runs().len());
    for (key, answers) in legacy.runs() {
        let head = legacy.head(&key);
        let state: Value = serde_json::from_str(&head.state).expect("the document of the run");
        assert_eq!((&state["flow"], &state["input"]), (&answers["run"]["flow"], &answers["run"]["input"]));
        assert_eq!(head.info.updated.to_millis(), answers["run"]["updated"]);
        let items = legacy.items(&key);
        let (unread, read): (Vec<_>, Vec<_>) =
            records(&items).into_iter().partition(|it| it.0 == "flow.inbox");
        let values: Vec<&Value> = read.iter().map(|it| it.1).collect();
        let expected: Vec<&Value> = array(&answers["events"]).iter().map(|it| &it["data"]).collect();
        assert_eq!(values, expected, "{key:?}");
        let is_unread = ["answered", "cancelling"].contains(&key.thread.session().as_str());
        assert_eq!(unread.len(), usize::from(is_unread), "{key:?}");
    }
    let with_key = |tenant: &str, start_key: &str| {
        let tenant = Tenant::parse(tenant.to_owned()).expect("a name");
        let found = block_on(legacy.threads.store.log_with_start_key(tenant, start_key.to_owned()));
        found.expect("an answer").map(|it| it.thread.session().to_string())
    };
    let sessions: Vec<_> = (1..=5).map(|it| with_key("default", &format!("start-{it}"))).collect();
    let expected = ["office", "office", "waiting", "driven", "queued"];
    assert_eq!(sessions, expected.map(|it| Some(it.to_owned())));
    assert_eq!(with_key("acme", "start-1").as_deref(), Some("office"));
    assert_eq!(with_key("acme", "start-2"), None);
}

#[test]
fn what_was_unfinished_is_due() {
    let legacy = Legacy::open();
    let due = |kind| {
        let due = block_on(legacy.threads.store.due(kind, None, 100)).expect("an answer");
        due.iter().map(|it| format!("{} {}", it.tenant, it.thread.session())).collect::<Vec<_>>()
    };
    assert_eq!(due(DueKind::Threads), ["acme flight", "default driven", "default flight"]);
    let runs = ["default answered", "default cancelling", "default driven", "default queued"];
    assert_eq!(due(DueKind::Runs), runs);
    let saved = block_on(legacy.threads.store.saved(legacy.sessions()[0].0.clone())).expect("an answer");
    assert_eq!(saved, Vec::<(ThreadId, UnfinishedText)>::new());
}

#[test]
fn documents_that_are_still_needed_are_kept() {
    let legacy = Legacy::open();
    let count = |kind: &str| {
        block_on(legacy.threads.store.list(kind.to_owned(), None, usize::MAX)).expect("a list").len()
    };
    let kept = ["key", "piece", "pass_result", "flow.definition", "flow.cache"].map(count);
    assert_eq!(kept, [3, 200, 32, 5, 1]);
    let gone = ["running", "commit", "turn", "flow.run", "flow.wait", "flow.due", "flow.fence", "flow.key"];
    assert_eq!(gone.map(count), [0; 8]);
}

#[test]
fn a_file_of_the_version_before_can_be_recovered() {
    let legacy = Legacy::open();
    let old = legacy.place.file("old.db");
    std::fs::copy(data("legacy.db"), &old).expect("a copy");
    let saved = legacy.place.file("saved.db");
    let recovered = SqliteStore::recover(&old, &saved).expect("something readable");
    assert!(recovered.lost.is_empty(), "{:?}", recovered.lost);
    let threads = Threads::open(&saved).expect("a sound file");
    for (session, _) in legacy.sessions() {
        let feed = block_on(threads.store.feed(session.clone(), 0, usize::MAX)).expect("items");
        assert_eq!(feed, legacy.feed(&session));
    }
}

#[test]
fn a_migrated_file_without_its_first_page_can_be_recovered_once_it_is_vacuumed() {
    let legacy = Legacy::open();
    block_on(legacy.threads.store.vacuum()).expect("a vacuum");
    let expected: Vec<_> = legacy.sessions().iter().map(|(it, _)| legacy.feed(it)).collect();
    let sessions: Vec<SessionKey> = legacy.sessions().into_iter().map(|it| it.0).collect();
    let Legacy { place, threads, .. } = legacy;
    drop(threads);
    let mut bytes = std::fs::read(place.db()).expect("a file");
    bytes[..8192].fill(0xA5);
    std::fs::write(place.db(), bytes).expect("a file");
    let saved = place.file("saved.db");
    let recovered = SqliteStore::recover(place.db(), &saved).expect("something readable");
    assert!(recovered.lost.is_empty(), "{:?}", recovered.lost);
    let threads = Threads::open(&saved).expect("a sound file");
    let feed = |it: &SessionKey| block_on(threads.store.feed(it.clone(), 0, usize::MAX)).expect("items");
    assert_eq!(sessions.iter().map(feed).collect::<Vec<_>>(), expected);
}
