//! Writers of one session lock rows in one order: a deadlock would be an error here, since nothing is tried again.

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
