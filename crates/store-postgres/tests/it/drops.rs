//! Streams that are dropped while others write to them, or remove their session.

use std::time::Duration;

use contexture_history::Timestamp;
use contexture_session::records::{Document, DocumentKey, Extent, NewRecord, Records, StreamKey, Writes};
use contexture_session::{Store, Tenant};
use contexture_store_postgres::PostgresConfig;

use crate::support::{Log, admin, config, store_in, unique, url};

fn one(stream: &StreamKey, data: &str) -> Writes {
    let record = NewRecord { stream: stream.clone(), at: Timestamp(1), data: data.to_owned() };
    Writes { records: vec![record], ..Writes::default() }
}

/// Waits until so many wait for a lock.
async fn waiting(schema: &str, count: i64) {
    // Within a transaction the same is seen again and again.
    let admin = admin(&url()).await;
    let waits = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE $1";
    while admin.query_one(waits, &[&format!("%{schema}.%")]).await.unwrap().get::<_, i64>(0) < count {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn a_stream_that_begins_while_it_is_dropped_is_whole() {
    let schema = unique("drops");
    let (store, admin) = (store_in(config(&schema)).await, admin(&url()).await);
    let tenant = Tenant::parse("t").unwrap();
    let [new, old] = ["a", "b"].map(|it| StreamKey::of_tenant(&tenant, it));
    store.write(one(&old, "old")).await.unwrap();
    // Somebody has one of the streams locked, and the drop waits half done.
    admin.batch_execute(&format!("BEGIN; SELECT FROM {schema}.streams FOR UPDATE")).await.unwrap();
    let (dropping, drops) = (store.clone(), vec![new.clone(), old.clone()]);
    let dropping = tokio::spawn(async move { dropping.write(Writes { drops, ..Writes::default() }).await });
    waiting(&schema, 1).await;
    assert_eq!(store.write(one(&new, "new")).await.unwrap(), [1]);
    admin.batch_execute("COMMIT").await.unwrap();
    dropping.await.unwrap().unwrap();

    assert_eq!(store.extent(old.clone()).await.unwrap(), Extent::default());
    assert_eq!(Records::read(&store, old, 0, 9).await.unwrap(), []);
    // The other one is there with all that it says it has.
    let extent = store.extent(new.clone()).await.unwrap();
    let numbers: Vec<u64> =
        Records::read(&store, new, 0, 9).await.unwrap().iter().map(|it| it.number).collect();
    assert_eq!((extent, numbers), (Extent { forgotten: 0, last: 1 }, vec![1]));
}

#[tokio::test]
async fn dropping_a_stream_and_removing_its_session_do_not_deadlock() {
    let schema = unique("drops");
    // Who is in a deadlock is told, and tries nothing again.
    let store = store_in(PostgresConfig { retry_for: Duration::ZERO, ..config(&schema) }).await;
    let admin = admin(&url()).await;
    let log = Log::create(&store).await;
    let (tenant, session) = (&log.session.tenant, &log.session.session);
    let stream = StreamKey::of_session(tenant, session, "s");
    let [first, last] = ["1", "2"].map(|it| DocumentKey::of_session(tenant, session, "d", it));
    let document = |key: &DocumentKey| Document { key: key.clone(), at: Timestamp(1), data: String::new() };
    let puts = vec![document(&first), document(&last)];
    store.write(Writes { puts, ..one(&stream, "x") }).await.unwrap();
    // Somebody has a document locked: who drops has one lock by then, and wants others.
    let lock = format!("BEGIN; SELECT FROM {schema}.documents WHERE name = '2' FOR UPDATE");
    admin.batch_execute(&lock).await.unwrap();
    let (requires, deletes) = (vec![first.clone()], vec![first, last]);
    let writes = Writes { requires, deletes, drops: vec![stream.clone()], ..Writes::default() };
    let dropping = store.clone();
    let dropping = tokio::spawn(async move { dropping.write(writes).await });
    waiting(&schema, 1).await;
    let (removing, key) = (store.clone(), log.session.clone());
    let removing = tokio::spawn(async move { removing.delete_session(key).await });
    waiting(&schema, 2).await;
    admin.batch_execute("COMMIT").await.unwrap();
    assert_eq!(dropping.await.unwrap().unwrap(), [0_u64; 0]);
    assert!(removing.await.unwrap().unwrap());
}
