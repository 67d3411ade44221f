//! A database of version 3 is opened and has everything that it had. What its server answered is kept beside it.

use std::collections::BTreeMap;

use contexture_history::{Body, Item, Seq, Timestamp, Visibility};
use contexture_session::documents::Documents;
use contexture_session::{
    DueKind, Guard, Head, Log as _, LogKind, LogList, SessionId, SessionKey, Span, State, Store, Tenant,
    ThreadId, ThreadKey,
};
use contexture_store_postgres::{PostgresConfig, PostgresStore};
use serde_json::{Value, json};

use crate::support::{Log, admin, unique, url};

const DUMP: &str = include_str!("../../../server/tests/data/legacy/legacy.sql");
const ANSWERS: &str = include_str!("../../../server/tests/data/legacy/legacy-postgres.json");

/// The migrated database, and what the server answered before.
struct Legacy {
    store: PostgresStore,
    answers: Value,
}

async fn legacy() -> Legacy {
    migrated("").await
}

/// Migrates the database after some changes to it.
async fn migrated(changes: &str) -> Legacy {
    let name = unique("legacy");
    admin(&url()).await.batch_execute(&format!("CREATE DATABASE {name}")).await.unwrap();
    let (server, _) = url().rsplit_once('/').map(|(a, b)| (a.to_owned(), b.to_owned())).unwrap();
    let url = format!("{server}/{name}");
    let admin = admin(&url).await;
    admin.batch_execute(DUMP).await.unwrap();
    admin.batch_execute(changes).await.unwrap();
    let store = PostgresStore::connect(&url, PostgresConfig::default()).await.unwrap();
    Legacy { store, answers: serde_json::from_str(ANSWERS).unwrap() }
}

fn members(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
    value.as_object().unwrap().iter()
}

fn tenant(name: &str) -> Tenant {
    Tenant::parse(name).unwrap()
}

fn log_key(of: &str, name: &str) -> ThreadKey {
    ThreadKey { tenant: tenant(of), thread: ThreadId::parse(name).unwrap() }
}

/// Returns the kind and the value of a record.
fn record(item: &Item) -> (&str, &Value) {
    assert_eq!((item.visibility, item.turn.0, item.cost.tokens.0), (Visibility::NONE, 0, 0));
    match &item.body {
        Body::Application(it) => (it.kind.as_str(), &it.value),
        other => panic!("{other:?}"),
    }
}

impl Legacy {
    async fn items(&self, key: &ThreadKey) -> Vec<Item> {
        let all = Span::After { seq: Seq(0), max: usize::MAX };
        self.store.read(key.clone(), all).await.unwrap()
    }

    /// Returns the log of a run, `SESSION.NAME`.
    fn run(&self, of: &str, id: &str) -> ThreadKey {
        log_key(of, &id.replacen('.', "//", 1))
    }

    fn named_run(&self, name: &str) -> ThreadKey {
        let of = if name.starts_with("acme") { "acme" } else { "default" };
        self.run(of, self.answers["facts"]["runs"][name].as_str().unwrap())
    }

    fn sessions(&self) -> Vec<(SessionKey, &Value)> {
        let mut sessions = Vec::new();
        for (name, it) in members(&self.answers["tenants"]) {
            for (id, it) in members(&it["sessions"]) {
                let session = SessionId::parse(id.as_str()).unwrap();
                sessions.push((SessionKey { tenant: tenant(name), session }, it));
            }
        }
        sessions
    }
}

#[tokio::test]
async fn threads_have_their_items() {
    let it = legacy().await;
    let mut n_threads = 0;
    for (session, answer) in it.sessions() {
        let threads = it.store.threads(session.clone()).await.unwrap();
        let listed: Vec<Value> =
            threads.iter().map(|it| json!([it.thread, it.kind, it.label, it.items, it.turns])).collect();
        let expected: Vec<Value> = answer["session"]["threads"]
            .as_array()
            .unwrap()
            .iter()
            .map(|it| json!([it["id"], it["kind"], it["label"], it["items"], it["turns"]]))
            .collect();
        assert_eq!(listed, expected, "{session:?}");
        for (id, thread) in members(&answer["threads"]) {
            n_threads += 1;
            let key = log_key(session.tenant.as_str(), id);
            let shown = |it: &Item| {
                let turn = format!("t{}", it.turn.0);
                json!([it.seq, turn, it.cost.tokens, it.cost.counter, it.visibility, it.author, it.body])
            };
            let items = it.items(&key).await;
            let expected = thread["items"].as_array().unwrap().iter().map(|it| {
                let [seq, turn, tokens] = ["seq", "turn", "tokens"].map(|name| &it[name]);
                json!([seq, turn, tokens, it["counter"], it["visibility"], it["author"], it["body"]])
            });
            assert_eq!(items.iter().map(shown).collect::<Vec<_>>(), expected.collect::<Vec<_>>(), "{key:?}");
            let head = Head::read(&it.store, &key).await.unwrap().unwrap();
            assert_eq!(head.state, State::replay(&items));
        }
    }
    assert_eq!(n_threads, 28);
    let keyed = it.store.turn_with_key(log_key("default", "demo"), "request-1".to_owned()).await.unwrap();
    assert_eq!(keyed.unwrap().turn.0, 4);
}

#[tokio::test]
async fn items_are_numbered_and_copies_are_not() {
    let it = legacy().await;
    for (session, _) in it.sessions() {
        let feed = it.store.feed(session.clone(), 0, usize::MAX).await.unwrap();
        let numbers: Vec<u64> = feed.iter().map(|it| it.number).collect();
        assert_eq!(numbers, (1..=numbers.len() as u64).collect::<Vec<_>>());
        assert_eq!(it.store.feed_end(session.clone()).await.unwrap(), numbers.len() as u64);
        let mut logs: BTreeMap<ThreadId, Vec<Item>> = BTreeMap::new();
        feed.into_iter().for_each(|it| logs.entry(it.thread).or_default().push(it.item));
        for (thread, told) in logs {
            let items = it.items(&ThreadKey { tenant: session.tenant.clone(), thread: thread.clone() }).await;
            let n_copies = items.len() - told.len();
            assert_eq!(items[n_copies..], told, "{thread}");
            let expected = match thread.as_str() {
                "demo/01a1e8c8-cd36-7130-8a32-34f283cb0a9b" => 41,
                "forked/01a1e8c8-cdc4-7374-898d-df95e3a51a89" => 5,
                _ => 0,
            };
            assert_eq!(n_copies, expected, "{thread}");
        }
    }
    let demo = SessionKey { tenant: tenant("default"), session: SessionId::parse("demo").unwrap() };
    let mut log = Log { store: it.store.clone(), key: demo.main(), session: demo, state: State::default() };
    log.state = log.head().await.state;
    let end = it.store.feed_end(log.session.clone()).await.unwrap();
    assert_eq!((end, log.say(&["more"]).await.unwrap().number), (41 + 4 + 10, end + 1));
}

#[tokio::test]
async fn journals_have_their_records() {
    let it = legacy().await;
    let mut n_passes = 0;
    for (session, answer) in it.sessions() {
        let journal = ThreadKey { tenant: session.tenant.clone(), thread: session.session.journal("passes") };
        let head = it.store.head(journal.clone()).await.unwrap();
        let expected: Vec<&Value> = answer["passes"].as_array().unwrap().iter().rev().collect();
        assert_eq!(head.is_some(), !expected.is_empty(), "{session:?}");
        let Some(head) = head else { continue };
        assert_eq!((head.info.kind, head.info.session), (LogKind::Journal, session.session.clone()));
        let items = it.items(&journal).await;
        n_passes += items.len();
        assert_eq!(items.len(), expected.len());
        for (item, pass) in items.iter().zip(expected) {
            let (kind, value) = record(item);
            assert_eq!(kind, "pass");
            assert_eq!(json!(format!("{}.{}", session.session, item.seq)), pass["id"]);
            for field in ["thread", "turn", "step", "prompt", "model", "fingerprint", "total_tokens"] {
                assert_eq!(value[field], pass[field]);
            }
        }
    }
    assert_eq!(n_passes, 36);
    let audit = it.items(&log_key("~system", "audit///audit")).await;
    let expected = it.answers["audit"].as_array().unwrap().iter().rev();
    let shown = |item: &Item| {
        let (kind, value) = record(item);
        assert_eq!(kind, "audit");
        json!([item.seq, value["actor"], value["act"], value["target"], value["detail"]])
    };
    let expected: Vec<Value> = expected
        .map(|it| json!([it["number"], it["actor"], it["act"], it["target"], it["detail"]]))
        .collect();
    assert_eq!(audit.iter().map(shown).collect::<Vec<_>>(), expected);
    let prune = |before: i64| it.store.prune_journals("passes".to_owned(), Timestamp(before), 9);
    assert_eq!(prune(1_794_906_836_025).await.unwrap(), 0);
    assert_eq!(prune(1_794_906_836_026).await.unwrap(), 1);
}

#[tokio::test]
async fn runs_have_their_logs() {
    let it = legacy().await;
    let list = LogList { kind: LogKind::Run, tenant: None, session: None, after: None, max: 99 };
    let listed = it.store.logs(list).await.unwrap();
    assert_eq!(listed.len(), 13);
    for (name, of_tenant) in members(&it.answers["tenants"]) {
        for (id, answer) in members(&of_tenant["runs"]) {
            let key = it.run(name, id);
            let head = listed.iter().find(|it| it.key() == key).unwrap();
            let state: Value = head.state().unwrap();
            assert_eq!((&state["flow"], &state["input"]), (&answer["run"]["flow"], &answer["run"]["input"]));
            let items = it.items(&key).await;
            assert_eq!(head.info.items, items.len() as u64);
            let (flow, inbox): (Vec<_>, Vec<_>) =
                items.iter().map(record).partition(|(kind, _)| *kind == "flow");
            let flow: Vec<Value> = flow.into_iter().map(|(_, it)| it.clone()).collect();
            let events = answer["events"].as_array().unwrap().iter();
            let events: Vec<Value> = events
                .map(|it| it["data"].clone())
                .filter(|it| it["type"].as_str().is_none_or(|it| it != "text.delta"))
                .collect();
            assert_eq!(flow, events, "{id}");
            let unread: Vec<&str> = inbox.iter().map(|(_, it)| it["type"].as_str().unwrap()).collect();
            let expected: &[&str] = match key.thread.session().as_str() {
                "answered" => &["answer"],
                "cancelling" => &["cancel"],
                _ => &[],
            };
            assert_eq!(unread, expected, "{id}");
        }
    }
    for (of, key, run) in [
        ("default", "start-1", "completed"),
        ("default", "start-2", "failed"),
        ("default", "start-3", "waiting"),
        ("default", "start-4", "driven"),
        ("default", "start-5", "queued"),
        ("acme", "start-1", "acme_completed"),
    ] {
        let found = it.store.log_with_start_key(tenant(of), key.to_owned()).await.unwrap();
        assert_eq!(found, Some(it.named_run(run)), "{key}");
    }
}

#[tokio::test]
async fn what_was_not_finished_is_due() {
    let it = legacy().await;
    let due = it.store.due(DueKind::Threads, None, 99).await.unwrap();
    assert_eq!(due, [log_key("acme", "flight"), log_key("default", "driven"), log_key("default", "flight")]);
    let due = it.store.due(DueKind::Runs, None, 99).await.unwrap();
    assert_eq!(due, ["answered", "cancelling", "driven", "queued"].map(|name| it.named_run(name)));
    let acquire = Guard::Acquire { owner: "me".into(), ttl: std::time::Duration::from_secs(60) };
    it.store.lease(due[0].clone(), acquire).await.unwrap();
    let rest = it.store.due(DueKind::Runs, Some(due[1].clone()), 1).await.unwrap();
    assert_eq!(rest, [due[2].clone()]);
    assert_eq!(it.store.due(DueKind::Runs, None, 99).await.unwrap(), due[1..]);
}

#[tokio::test]
async fn documents_stay_unless_they_were_marks() {
    let it = legacy().await;
    let count = async |kind: &str| it.store.list(kind.to_owned(), None, usize::MAX).await.unwrap().len();
    let kept = [("key", 3), ("piece", 200), ("pass_result", 32), ("flow.definition", 5), ("flow.cache", 1)];
    for (kind, expected) in kept {
        assert_eq!(count(kind).await, expected, "{kind}");
    }
    let gone = ["turn", "commit", "running", "flow.run", "flow.key", "flow.wait", "flow.due", "flow.fence"];
    for kind in gone {
        assert_eq!(count(kind).await, 0, "{kind}");
    }
}

/// PostgreSQL's own JSON can't hold a NUL; ours can.
#[tokio::test]
async fn texts_may_have_a_nul() {
    let it = migrated(
        r#"UPDATE contexture.commits SET body = replace(body, 'Goodbye', 'Good\u0000bye');
        UPDATE contexture.documents SET data =
            convert_to(replace(convert_from(data, 'UTF8'), '"to":"Cleo"', '"to":"Cl\u0000eo"'), 'UTF8')
        WHERE kind = 'flow.run';
        UPDATE contexture.records SET data =
            convert_to(replace(convert_from(data, 'UTF8'), '"to":"Cleo"', '"to":"Cl\u0000eo"'), 'UTF8')"#,
    )
    .await;
    let demo = log_key("default", "demo");
    let (items, head) = (it.items(&demo).await, Head::read(&it.store, &demo).await.unwrap().unwrap());
    assert!(crate::support::texts(&items).contains(&"Good\0bye.".to_owned()));
    assert_eq!(head.state, State::replay(&items));
    let run = it.named_run("waiting");
    let head = it.store.head(run.clone()).await.unwrap().unwrap();
    assert_eq!(head.state::<Value>().unwrap()["input"]["to"], json!("Cl\0eo"));
    assert_eq!(record(&it.items(&run).await[0]).1["input"]["to"], json!("Cl\0eo"));
    assert_eq!(head.info.created.0, 1_794_906_840_153);
}
