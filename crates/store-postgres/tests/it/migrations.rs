//! Starting on databases in every condition.

use contexture_session::{Store, StoreError, Tenant};
use contexture_store_postgres::{PostgresConfig, PostgresStore};
use futures::future::join_all;

use crate::support::{Log, admin, config, store_in, unique, url};

#[tokio::test]
async fn many_processes_may_start_at_once() {
    let schema = unique("starts");
    let stores = join_all((0..8).map(|_| store_in(config(&schema)))).await;
    let versions =
        admin(&url()).await.query(&format!("SELECT version FROM {schema}.schema_version"), &[]).await;
    assert_eq!(versions.unwrap().len(), 3, "each step happened once");
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
    let StoreError::Newer { place, found: 99, known: 3 } = &refused else { panic!("{refused}") };
    assert!(place.contains(&schema));
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
        assert!(refused.unwrap_err().to_string().contains("is no name for a schema"), "{schema:?}");
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
