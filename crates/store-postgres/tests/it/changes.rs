//! Readers elsewhere learn that a log has grown.

use std::sync::Arc;
use std::time::{Duration, Instant};

use contexture_session::{Guard, Log as _, State, Store, UnfinishedText};
use contexture_store_postgres::{PostgresConfig, PostgresStore};

use crate::support::{Log, admin, config, named_url, store_in, unique, url};

/// So seldom that a test which needs it is too slow to pass.
const NEVER: Duration = Duration::from_secs(600);

fn patient(schema: &str) -> PostgresConfig {
    PostgresConfig { poll: Duration::from_millis(20), recheck: NEVER, ..config(schema) }
}

/// Waits in another store for the next append, and returns how long it took to learn of it.
async fn noticed(log: &mut Log, reader: &PostgresStore) -> Duration {
    let (reader, key, end) = (reader.clone(), log.key.clone(), log.state.end);
    let waiting = tokio::spawn(async move { reader.changed(key, end).await });
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert!(!waiting.is_finished());
    let started = Instant::now();
    log.say(&["hello"]).await.unwrap();
    tokio::time::timeout(Duration::from_secs(60), waiting).await.unwrap().unwrap().unwrap();
    started.elapsed()
}

/// Waits until a store's listener is connected.
async fn listening(schema: &str, count: i64) {
    let admin = admin(&url()).await;
    let sql =
        "SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%pg_notify($1%' AND application_name = $1";
    for _ in 0..6000 {
        let found: i64 = admin.query_one(sql, &[&schema]).await.unwrap().get(0);
        if found >= count {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("nobody listens");
}

#[tokio::test]
async fn an_append_wakes_readers_in_other_stores() {
    let schema = unique("wake");
    let (writer, reader) = (
        PostgresStore::connect(&named_url(&schema), patient(&schema)).await.unwrap(),
        PostgresStore::connect(&named_url(&schema), patient(&schema)).await.unwrap(),
    );
    listening(&schema, 2).await;
    let mut log = Log::create(&writer).await;
    for _ in 0..5 {
        noticed(&mut log, &reader).await;
    }
}

/// Whoever follows a session learns of appends to any of its logs, of saved text, and of its end.
#[tokio::test]
async fn followers_of_a_session_in_other_stores_are_woken() {
    let schema = unique("follow");
    let (writer, reader) = (
        PostgresStore::connect(&named_url(&schema), patient(&schema)).await.unwrap(),
        PostgresStore::connect(&named_url(&schema), patient(&schema)).await.unwrap(),
    );
    listening(&schema, 2).await;
    let log = Log::create(&writer).await;
    let side = log.other_thread("s/side", &State::default());
    writer.create_log(side.clone()).await.unwrap();
    let mut side = log.at("s/side", State::default());
    let acquire = Guard::Acquire { owner: Arc::from("w"), ttl: NEVER };
    let fence = writer.lease(log.key.clone(), acquire).await.unwrap().unwrap();
    for step in 0..3 {
        tokio::time::sleep(Duration::from_millis(50)).await;
        let (reader, session) = (reader.clone(), log.session.clone());
        let end = reader.feed_end(session.clone()).await.unwrap();
        let waiting = tokio::spawn(async move { reader.feed_changed(session, end).await });
        tokio::time::sleep(Duration::from_millis(50)).await;
        assert!(!waiting.is_finished(), "{step}");
        match step {
            0 => drop(side.say(&["x"]).await.unwrap()),
            1 => writer.save(log.key.clone(), fence, UnfinishedText::default()).await.unwrap(),
            _ => drop(writer.delete_session(log.session.clone()).await.unwrap()),
        }
        tokio::time::timeout(Duration::from_secs(60), waiting).await.unwrap().unwrap().unwrap();
    }
}

#[tokio::test]
async fn readers_poll_while_the_listener_is_down() {
    let schema = unique("poll");
    let writer = store_in(patient(&schema)).await;
    let reader = store_in(PostgresConfig { listen: false, ..patient(&schema) }).await;
    noticed(&mut Log::create(&writer).await, &reader).await;
}

#[tokio::test]
async fn a_lost_listener_comes_back() {
    let schema = unique("lost");
    let (writer, reader) = (
        PostgresStore::connect(&named_url(&schema), patient(&schema)).await.unwrap(),
        PostgresStore::connect(&named_url(&schema), patient(&schema)).await.unwrap(),
    );
    let mut log = Log::create(&writer).await;
    let admin = admin(&url()).await;
    for _ in 0..3 {
        listening(&schema, 2).await;
        let kill =
            "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE application_name = $1";
        admin.query_one(kill, &[&schema]).await.unwrap();
        noticed(&mut log, &reader).await;
    }
    log.assert_whole().await;
}

#[tokio::test]
async fn a_waiter_wakes_when_its_thread_is_deleted() {
    let store = store_in(patient(&unique("gone"))).await;
    let log = Log::create(&store).await;
    let (reader, key) = (store.clone(), log.key.clone());
    let waiting = tokio::spawn(async move { reader.changed(key, log.state.end).await });
    tokio::time::sleep(Duration::from_millis(50)).await;
    store.delete_session(log.session).await.unwrap();
    let told = tokio::time::timeout(Duration::from_secs(60), waiting).await.unwrap().unwrap();
    assert_eq!(told.unwrap_err().code(), "not_found");
}
