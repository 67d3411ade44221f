//! Readers elsewhere learn that a log has grown.

use std::time::{Duration, Instant};

use contexture_history::Timestamp;
use contexture_session::Store;
use contexture_session::records::{NewRecord, Records, StreamKey, Writes};
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

async fn server_time() -> f64 {
    let sql = "SELECT extract(epoch FROM clock_timestamp())::float8";
    admin(&url()).await.query_one(sql, &[]).await.unwrap().get(0)
}

/// Waits until somebody has looked how long a stream is.
async fn looked(schema: &str, since: f64) {
    let admin = admin(&url()).await;
    let sql = "\
        SELECT count(*) FROM pg_stat_activity WHERE application_name = $1 AND state = 'idle'
        AND query LIKE '%SELECT forgotten, last FROM%' AND extract(epoch FROM query_start)::float8 > $2";
    for _ in 0..6000 {
        let found: i64 = admin.query_one(sql, &[&schema, &since]).await.unwrap().get(0);
        if found > 0 {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("nobody looked");
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

#[tokio::test]
async fn a_write_wakes_readers_of_streams_in_other_stores() {
    let schema = unique("grown");
    let (writer, reader) = (
        PostgresStore::connect(&named_url(&schema), patient(&schema)).await.unwrap(),
        PostgresStore::connect(&named_url(&schema), patient(&schema)).await.unwrap(),
    );
    listening(&schema, 2).await;
    let log = Log::create(&writer).await;
    let stream = StreamKey::of_session(&log.session.tenant, &log.session.session, "events");
    for number in 0..3 {
        let (reader, key) = (reader.clone(), stream.clone());
        let waiting = tokio::spawn(async move { reader.grown(key, number).await });
        tokio::time::sleep(Duration::from_millis(50)).await;
        assert!(!waiting.is_finished());
        let record = NewRecord { stream: stream.clone(), at: Timestamp(1), data: "x".to_owned() };
        writer.write(Writes { records: vec![record], ..Writes::default() }).await.unwrap();
        tokio::time::timeout(Duration::from_secs(60), waiting).await.unwrap().unwrap().unwrap();
    }
    // Its session goes, and who waits for more is told: if the stream was there when they began to wait.
    let before = server_time().await;
    let (there, key) = (reader.clone(), stream.clone());
    let waiting = tokio::spawn(async move { there.grown(key, 3).await });
    looked(&schema, before).await;
    writer.delete_session(log.session).await.unwrap();
    tokio::time::timeout(Duration::from_secs(60), waiting).await.unwrap().unwrap().unwrap();
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
