//! Writers of one session lock rows in one order: a deadlock would be an error here, since nothing is tried again.
//! Operations that are not polled keep no connection from others.

use std::time::Duration;

use contexture_history::Timestamp;
use contexture_session::documents::{Document, DocumentKey, Documents};
use contexture_session::{Guard, Log as _, State, Store, StoreError};
use contexture_store_postgres::PostgresConfig;
use futures::future::join_all;

use crate::support::{Log, admin, append, config, store_in, unique, url};

fn impatient(schema: &str) -> PostgresConfig {
    PostgresConfig { retry_for: Duration::ZERO, ..config(schema) }
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
async fn deleting_a_document_and_removing_its_session_do_not_deadlock() {
    let schema = unique("deadlocks");
    let store = store_in(impatient(&schema)).await;
    let admin = admin(&url()).await;
    let log = Log::create(&store).await;
    let (tenant, session) = (&log.session.tenant, &log.session.session);
    let key = DocumentKey::of_session(tenant, session, "d", "1");
    store.put(Document { key: key.clone(), at: Timestamp(1), data: String::new() }).await.unwrap();
    // Another process has the document locked: the one that deletes it waits, and then the one that removes the session.
    let lock = format!("BEGIN; SELECT FROM {schema}.documents WHERE name = '1' FOR UPDATE");
    admin.batch_execute(&lock).await.unwrap();
    let deleting = store.clone();
    let deleting = tokio::spawn(async move { deleting.delete(key).await });
    waiting(&schema, 1).await;
    let (removing, key) = (store.clone(), log.session.clone());
    let removing = tokio::spawn(async move { removing.delete_session(key).await });
    waiting(&schema, 2).await;
    admin.batch_execute("COMMIT").await.unwrap();
    deleting.await.unwrap().unwrap();
    assert!(removing.await.unwrap().unwrap());
}

/// Threads of one session are written, forked and deleted with it, all at once and with the same large text.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn writers_of_one_session_do_not_deadlock() {
    let schema = unique("deadlocks");
    let store = store_in(PostgresConfig { connections: 16, ..impatient(&schema) }).await;
    let large = "large ".repeat(3_000);
    for _ in 0..15 {
        let log = Log::create(&store).await;
        let names: Vec<String> = (0..6).map(|n| format!("s/{n}")).collect();
        for name in &names {
            store.create_log(log.other_thread(name, &State::default())).await.unwrap();
        }
        let writer = |mut log: Log| {
            let large = &large;
            async move {
                for _ in 0..8 {
                    log.say(&["small", large]).await?;
                    let fork = log.other_thread(&format!("s/{}", unique("f")), &log.state);
                    log.store.fork(log.key.clone(), fork).await?;
                }
                Ok::<(), StoreError>(())
            }
        };
        let logs = names.iter().map(|it| log.at(it, State::default())).chain([log.clone()]);
        let writers = join_all(logs.map(writer));
        let deleting = async {
            tokio::time::sleep(Duration::from_millis(40)).await;
            store.delete_session(log.session.clone()).await
        };
        let (written, deleted) = tokio::join!(writers, deleting);
        assert!(deleted.unwrap());
        for outcome in written {
            assert!(
                outcome.is_ok() || outcome.as_ref().is_err_and(|it| it.code() == "not_found"),
                "{outcome:?}"
            );
        }
        assert_eq!(store.usage(log.key.tenant.clone()).await.unwrap(), Default::default());
        let late = store.append(log.key.clone(), append(&State::default(), Guard::Any, &["x"])).await;
        assert_eq!(late.unwrap_err().code(), "not_found");
    }
}

/// Polls an operation often enough that it could have a connection, and then no more.
async fn poll_a_while<T>(operation: &mut (impl Future<Output = T> + Unpin)) {
    let _ = tokio::time::timeout(Duration::from_millis(1), operation).await;
}

#[tokio::test]
async fn operations_that_are_not_polled_keep_no_connection_from_others() {
    let schema = unique("unpolled");
    let store =
        store_in(PostgresConfig { connections: 2, wait_timeout: Duration::from_secs(5), ..config(&schema) })
            .await;
    let log = Log::create(&store).await;
    let lock = admin(&url()).await;
    let locked = format!("BEGIN; SELECT FROM {schema}.logs FOR UPDATE");
    lock.batch_execute(&locked).await.unwrap();
    // Both have a connection and wait for the row.
    let draft = append(&log.state, Guard::Free, &["one"]);
    let mut appending = store.append(log.key.clone(), draft);
    poll_a_while(&mut appending).await;
    let mut changing =
        store.lease(log.key.clone(), Guard::Acquire { owner: "a".into(), ttl: Duration::from_secs(9) });
    poll_a_while(&mut changing).await;
    let both_wait = tokio::time::timeout(Duration::from_secs(30), waiting(&schema, 2)).await;
    assert!(both_wait.is_ok(), "they stop when they are not polled");
    lock.batch_execute("COMMIT").await.unwrap();
    assert!(store.head(log.key.clone()).await.unwrap().is_some());
    store.feed_changed(log.session.clone(), 0).await.unwrap();
    assert_eq!(appending.await.unwrap().end.0, 1);
    changing.await.unwrap();
}
