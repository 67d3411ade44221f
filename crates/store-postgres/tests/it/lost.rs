//! Connections break at every possible moment: everything happens, and happens once.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use contexture_history::{Seq, Timestamp, TurnNo};
use contexture_session::documents::{Document, DocumentKey, Documents};
use contexture_session::{
    Append, Guard, KeyedTurn, Log as _, LogKind, NewLog, SessionId, Span, State, Store, UnfinishedText,
};
use contexture_store_postgres::{PostgresConfig, PostgresStore};

use crate::proxy::Proxy;
use crate::support::{Log, admin, append, config, named_url, new_session, store_in, unique, url};

const LONG: Duration = Duration::from_secs(60);

/// Runs `operation` on a log, again and again, each time with another of its answers lost, until none is. It is
/// given the proxy to break and to heal around what it tests.
async fn at_every_moment(operation: impl AsyncFn(Log, Breaker<'_>)) {
    let proxy = Proxy::start(&url()).await;
    let config = PostgresConfig { listen: false, connections: 1, ..config("lost") };
    for requests in 0.. {
        // A new connection each time: what is prepared on it already would be no request any more.
        let store = PostgresStore::connect(&proxy.url(&url()), config.clone()).await.unwrap();
        let log = Log::create(&store).await;
        let has_lost = std::cell::Cell::new(false);
        operation(log, Breaker { proxy: &proxy, requests, has_lost: &has_lost }).await;
        if !has_lost.get() {
            assert!(requests > 0, "no answer was ever lost");
            return;
        }
    }
}

/// Breaks the connection during one operation.
#[derive(Clone, Copy)]
struct Breaker<'a> {
    proxy: &'a Proxy,
    requests: i64,
    has_lost: &'a std::cell::Cell<bool>,
}

impl Breaker<'_> {
    async fn during<T>(self, operation: impl Future<Output = T>) -> T {
        self.proxy.lose_answer_after(self.requests);
        let value = operation.await;
        self.has_lost.set(self.proxy.heal());
        value
    }
}

#[tokio::test]
async fn an_append_is_written_once() {
    at_every_moment(async |mut log, breaker| {
        log.say(&["before"]).await.unwrap();
        let large = "large ".repeat(3_000);
        let guard = Guard::Acquire { owner: Arc::from("writer"), ttl: LONG };
        let mut append = append(&log.state, guard, &["one", &large]);
        let keyed = KeyedTurn { turn: TurnNo(2), began: Seq(2) };
        append.keys = vec![("key".to_owned(), keyed)];
        let appended = breaker.during(log.store.append(log.key.clone(), append)).await.unwrap();
        assert_eq!(appended.end, Seq(3));
        let head = log.store.head(log.key.clone()).await.unwrap().unwrap();
        assert_eq!(appended.fence, head.lease.map(|it| it.fence));
        assert_eq!(log.texts().await, ["before", "one", &large]);
        assert_eq!(log.store.turn_with_key(log.key.clone(), "key".to_owned()).await.unwrap(), Some(keyed));
        log.assert_whole().await;
    })
    .await;
}

#[tokio::test]
async fn a_lease_is_taken_kept_and_given_back() {
    at_every_moment(async |mut log, breaker| {
        let guard = Guard::Acquire { owner: Arc::from("writer"), ttl: LONG };
        let fence = breaker.during(log.store.lease(log.key.clone(), guard)).await.unwrap().unwrap();
        log.say_with(Guard::Hold { fence, ttl: LONG }, &["one"]).await.unwrap();
    })
    .await;
    at_every_moment(async |mut log, breaker| {
        let guard = Guard::Acquire { owner: Arc::from("writer"), ttl: LONG };
        let fence = log.store.lease(log.key.clone(), guard).await.unwrap().unwrap();
        let release = Guard::Release { fence };
        assert_eq!(breaker.during(log.store.lease(log.key.clone(), release)).await.unwrap(), None);
        log.say(&["free again"]).await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn sessions_and_threads_are_made_once() {
    at_every_moment(async |log, breaker| {
        let mut key = log.session.clone();
        key.session = SessionId::parse("another").unwrap();
        breaker.during(log.store.create_session(new_session(&key))).await.unwrap();
        let again = log.store.create_session(new_session(&key)).await;
        assert_eq!(again.unwrap_err().code(), "already_exists");
    })
    .await;
    at_every_moment(async |log, breaker| {
        let thread = log.other_thread("side", &State::default());
        breaker.during(log.store.create_log(thread.clone())).await.unwrap();
        assert_eq!(log.store.create_log(thread).await.unwrap_err().code(), "already_exists");
    })
    .await;
}

#[tokio::test]
async fn a_fork_is_whole() {
    at_every_moment(async |mut log, breaker| {
        let large = "large ".repeat(3_000);
        log.say(&["one", &large, "three"]).await.unwrap();
        let state = State::replay(&log.items().await[..2]);
        let thread = log.other_thread("fork", &state);
        breaker.during(log.store.fork(log.key.clone(), thread.clone())).await.unwrap();
        let fork = log.at("fork", state);
        assert_eq!(fork.texts().await, ["one", &large]);
        fork.assert_whole().await;
        let again = log.store.fork(log.key.clone(), thread).await;
        assert_eq!(again.unwrap_err().code(), "already_exists");
    })
    .await;
}

#[tokio::test]
async fn what_was_deleted_was_there() {
    at_every_moment(async |mut log, breaker| {
        log.say(&[&"large ".repeat(3_000)]).await.unwrap();
        assert!(breaker.during(log.store.delete_session(log.session.clone())).await.unwrap());
        assert!(!log.store.delete_session(log.session.clone()).await.unwrap());
        assert_eq!(log.store.usage(log.key.tenant.clone()).await.unwrap(), Default::default());
    })
    .await;
    at_every_moment(async |log, breaker| {
        log.store.create_log(log.other_thread("side", &State::default())).await.unwrap();
        let side = log.at("side", State::default());
        assert!(breaker.during(log.store.delete_log(side.key.clone())).await.unwrap());
        assert!(!log.store.delete_log(side.key).await.unwrap());
    })
    .await;
}

#[tokio::test]
async fn reads_are_repeated() {
    at_every_moment(async |mut log, breaker| {
        let large = "large ".repeat(3_000);
        log.say(&["one", &large]).await.unwrap();
        let newest = Span::NewestItems { count: 1, client: true };
        let items = breaker.during(log.store.read(log.key.clone(), newest)).await.unwrap();
        assert_eq!(items, log.items().await[1..]);
    })
    .await;
}

/// A run is made once and with its first items, and what its writer saves is there.
#[tokio::test]
async fn a_run_is_made_once_and_its_text_is_saved() {
    at_every_moment(async |log, breaker| {
        let run = log.session.session.run("r");
        let first = append(&State::default(), Guard::Any, &["start"]);
        let new = NewLog {
            kind: LogKind::Run,
            start_key: Some("key".to_owned()),
            items: first.items,
            state: first.state.unwrap(),
            ..NewLog::isolated(log.session.clone(), run.clone(), Timestamp(1))
        };
        breaker.during(log.store.create_log(new.clone())).await.unwrap();
        assert_eq!(log.store.create_log(new.clone()).await.unwrap_err().code(), "already_exists");
        let found = log.store.log_with_start_key(log.key.tenant.clone(), "key".to_owned()).await.unwrap();
        assert_eq!(found, Some(new.key()));
        assert_eq!(log.store.feed(log.session.clone(), 0, 9).await.unwrap().len(), 1);
    })
    .await;
    at_every_moment(async |log, breaker| {
        let guard = Guard::Acquire { owner: Arc::from("writer"), ttl: LONG };
        let fence = log.store.lease(log.key.clone(), guard).await.unwrap().unwrap();
        let text = UnfinishedText { text: "so far".to_owned(), ..UnfinishedText::default() };
        breaker.during(log.store.save(log.key.clone(), fence, text.clone())).await.unwrap();
        assert_eq!(log.store.saved(log.session.clone()).await.unwrap(), [(log.key.thread, text)]);
    })
    .await;
}

/// Documents, and an append that has no name, are there whole or not at all, and at most once: if nobody knows, that
/// is the answer.
#[tokio::test]
async fn what_has_no_name_is_written_at_most_once() {
    for is_new in [false, true] {
        at_every_moment(async |log, breaker| {
            let key = DocumentKey::of_tenant(&log.session.tenant, "pass", "a");
            let document = Document { key: key.clone(), at: Timestamp(1), data: String::new() };
            let written = match is_new {
                true => breaker.during(log.store.create(document)).await,
                false => breaker.during(log.store.put(document)).await,
            };
            let found = log.store.document(key).await.unwrap().is_some();
            match written {
                Ok(()) => assert!(found),
                Err(err) => assert_eq!(err.code(), "store_unavailable"),
            }
        })
        .await;
    }
    at_every_moment(async |log, breaker| {
        let new = NewLog::journal(log.session.clone(), "passes", Timestamp(1));
        log.store.create_log(new.clone()).await.unwrap();
        let append = Append { expected: None, state: None, ..append(&State::default(), Guard::Any, &["x"]) };
        let appended = breaker.during(log.store.append(new.key(), append)).await;
        let n_items = log.at(new.thread.as_str(), State::default()).items().await.len();
        match appended {
            Ok(appended) => assert_eq!((appended.end, appended.number, n_items), (Seq(1), 0, 1)),
            Err(err) => assert!(err.code() == "store_unavailable" && n_items < 2),
        }
    })
    .await;
}

/// Two writers say the same at the same place. The one whose request never arrived must not take the other's words
/// for its own.
#[tokio::test]
async fn the_same_words_of_another_writer_are_not_ours() {
    let proxy = Proxy::start(&url()).await;
    let config = PostgresConfig { listen: false, ..config("lost") };
    let broken = PostgresStore::connect(&proxy.url(&url()), config.clone()).await.unwrap();
    let mut log = Log::create(&broken).await;
    let ours = append(&log.state, Guard::Free, &["the same"]);
    let theirs = append(&log.state, Guard::Free, &["the same"]);
    log.store = store_in(config).await;

    proxy.close(true);
    let key = log.key.clone();
    let writing = tokio::spawn(async move { broken.append(key, ours).await });
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert!(!writing.is_finished());
    log.store.append(log.key.clone(), theirs).await.unwrap();
    proxy.close(false);
    assert_eq!(writing.await.unwrap().unwrap_err().code(), "version_conflict");
    assert_eq!(log.texts().await, ["the same"]);
}

#[tokio::test]
async fn a_server_that_stays_away_is_an_error_after_a_while() {
    let proxy = Proxy::start(&url()).await;
    let retry_for = Duration::from_millis(300);
    let config = PostgresConfig { listen: false, retry_for, ..config("lost") };
    let store = PostgresStore::connect(&proxy.url(&url()), config).await.unwrap();
    let mut log = Log::create(&store).await;
    proxy.close(true);
    assert_eq!(log.say(&["one"]).await.unwrap_err().code(), "store_unavailable");
    proxy.close(false);
    log.say(&["one"]).await.unwrap();
    log.assert_whole().await;
}

/// An administrator ends connections, over and over, while writers append. Between two times somebody gets something
/// written: on a busy machine a connection may live too short to be of any use otherwise.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ended_connections_lose_and_repeat_nothing() {
    let name = unique("ended");
    let config = PostgresConfig { retry_for: 2 * LONG, ..config("lost") };
    let store = PostgresStore::connect(&named_url(&name), config).await.unwrap();
    let n_written = Arc::new(AtomicU32::new(0));
    let writer = |store: PostgresStore| {
        let n_written = Arc::clone(&n_written);
        tokio::spawn(async move {
            let mut log = Log::create(&store).await;
            let expected: Vec<String> = (1..=150).map(|n| format!("m{n}")).collect();
            for text in &expected {
                log.say(&[text]).await.unwrap();
                n_written.fetch_add(1, Ordering::Relaxed);
            }
            assert_eq!(log.texts().await, expected);
            log.assert_whole().await;
        })
    };
    let writers = futures::future::join_all((0..4).map(|_| writer(store.clone())));
    let ending = tokio::spawn(async move {
        let admin = admin(&url()).await;
        let end = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE application_name = $1";
        let mut before = 0;
        loop {
            tokio::time::sleep(Duration::from_millis(15)).await;
            let now = n_written.load(Ordering::Relaxed);
            if now > before {
                admin.query_one(end, &[&name]).await.unwrap();
                before = now;
            }
        }
    });
    writers.await.into_iter().for_each(|it| it.unwrap());
    assert!(!ending.is_finished());
    ending.abort();
}
