//! Starting on databases in every condition.

use std::time::Duration;

use contexture_history::Timestamp;
use contexture_session::documents::{Document, Documents};
use contexture_session::{
    Fence, Guard, Log as _, NewSession, SessionId, SessionKey, State, Store, StoreError, Tenant,
    UnfinishedText,
};
use contexture_store_postgres::{PostgresConfig, PostgresStore};
use futures::future::join_all;

use crate::support::{Log, admin, config, store_in, unique, url};

#[tokio::test]
async fn many_processes_may_start_at_once() {
    let schema = unique("starts");
    let stores = join_all((0..8).map(|_| store_in(config(&schema)))).await;
    let versions =
        admin(&url()).await.query(&format!("SELECT version FROM {schema}.schema_version"), &[]).await;
    assert_eq!(versions.unwrap().len(), 5, "each step happened once");
    let mut log = Log::create(&stores[0]).await;
    log.store = stores[7].clone();
    log.say(&["hello"]).await.unwrap();
    log.assert_whole().await;
}

#[tokio::test]
async fn a_newer_schema_is_left_alone() {
    let schema = unique("newer");
    drop(store_in(config(&schema)).await);
    let admin = admin(&url()).await;
    admin.batch_execute(&format!("INSERT INTO {schema}.schema_version VALUES (99)")).await.unwrap();
    let refused = PostgresStore::connect(&url(), config(&schema)).await.unwrap_err();
    let StoreError::Newer { place, found: 99, known: 5 } = &refused else { panic!("{refused}") };
    assert!(place.contains(&schema));
}

#[tokio::test]
async fn a_store_stops_writing_when_the_schema_is_raised_under_it() {
    let schema = unique("raised");
    let store = store_in(config(&schema)).await;
    let mut log = Log::create(&store).await;
    log.say(&["one"]).await.unwrap();
    let probe = || Document::probe(Timestamp(1));
    let key = || probe().key;
    store.put(probe()).await.unwrap();
    let admin = admin(&url()).await;
    // As a migration does it: whoever writes meanwhile waits, and sees the new version.
    let raise = format!(
        "BEGIN; LOCK TABLE {schema}.schema_version IN ACCESS EXCLUSIVE MODE;
         INSERT INTO {schema}.schema_version VALUES (99)"
    );
    admin.batch_execute(&raise).await.unwrap();
    let (late, ()) = tokio::join!(log.say(&["late"]), async {
        tokio::time::sleep(Duration::from_millis(300)).await;
        admin.batch_execute("COMMIT").await.unwrap();
    });
    let acquire = Guard::Acquire { owner: "me".into(), ttl: Duration::from_secs(1) };
    let main = log.session.main();
    let thread = log.other_thread("other/copy", &State::default());
    let new = SessionKey { session: SessionId::parse("late").unwrap(), ..log.session.clone() };
    let new = NewSession { key: new, label: None, at: Timestamp(1) };
    let outcomes = [
        late.map(drop),
        log.say(&["late"]).await.map(drop),
        store.lease(main.clone(), acquire).await.map(drop),
        store.create_session(new).await,
        store.create_log(thread.clone()).await,
        store.fork(main.clone(), thread).await,
        store.save(main, Fence(1), UnfinishedText::default()).await,
        store.delete_session(log.session.clone()).await.map(drop),
        store.put(probe()).await,
        store.create(probe()).await,
        store.delete(key()).await,
        store.prune("probe".to_owned(), Timestamp(9), 10).await.map(drop),
        store.prune_journals("passes".to_owned(), Timestamp(9), 10).await.map(drop),
        store.probe(Timestamp(1)).await,
    ];
    let codes: Vec<&str> =
        outcomes.iter().map(|it| it.as_ref().map_or_else(|it| it.code().as_str(), |()| "-")).collect();
    assert_eq!(codes, ["schema_newer"; 14]);
    let unchanged = async || (store.document(key()).await.unwrap().is_some(), log.items().await.len());
    assert_eq!(unchanged().await, (true, 1), "it can be read, and nothing was written");
    admin.batch_execute(&format!("DELETE FROM {schema}.schema_version WHERE version = 99")).await.unwrap();
    store.put(probe()).await.unwrap();
    log.say(&["two"]).await.unwrap();
}

#[tokio::test]
async fn an_up_to_date_schema_needs_no_right_to_create() {
    let (schema, role) = (unique("rights"), unique("role"));
    drop(store_in(config(&schema)).await);
    let admin = admin(&url()).await;
    let grants = format!(
        "CREATE ROLE {role} LOGIN;
        GRANT USAGE ON SCHEMA {schema} TO {role};
        GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {schema} TO {role};"
    );
    admin.batch_execute(&grants).await.unwrap();
    let url = url().replace("postgres@", &format!("{role}@"));
    let store = PostgresStore::connect(&url, config(&schema)).await.unwrap();
    let mut log = Log::create(&store).await;
    log.say(&["hello"]).await.unwrap();
    assert!(store.delete_session(log.session).await.unwrap());
}

#[tokio::test]
async fn schemas_are_apart() {
    let (one, other) = (store_in(config(&unique("one"))).await, store_in(config(&unique("other"))).await);
    let log = Log::create(&one).await;
    assert_eq!(one.threads(log.session.clone()).await.unwrap().len(), 1);
    assert_eq!(other.threads(log.session.clone()).await.unwrap().len(), 0);
}

#[tokio::test]
async fn a_schema_name_is_a_plain_name() {
    let long = "x".repeat(64);
    for schema in ["", "1a", "Upper", "a b", "a\"b", "a;drop", "pg_x", "a\0", long.as_str()] {
        let refused = PostgresStore::connect(&url(), config(schema)).await;
        assert!(refused.unwrap_err().to_string().contains("invalid schema name"), "{schema:?}");
    }
}

#[tokio::test]
async fn the_default_schema_has_the_products_name() {
    let store = store_in(PostgresConfig::default()).await;
    store.usage(Tenant::default()).await.unwrap();
    store.vacuum().await.unwrap();
}

#[tokio::test]
async fn another_encoding_is_refused() {
    let name = unique("ascii");
    let create = format!("CREATE DATABASE {name} TEMPLATE template0 ENCODING 'SQL_ASCII'");
    admin(&url()).await.batch_execute(&create).await.unwrap();
    let (server, _) = url().rsplit_once('/').map(|(a, b)| (a.to_owned(), b.to_owned())).unwrap();
    let refused = PostgresStore::connect(&format!("{server}/{name}"), config("any")).await.unwrap_err();
    assert!(refused.to_string().contains("SQL_ASCII"), "{refused}");
}
