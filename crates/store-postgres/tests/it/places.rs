//! URLs, passwords and servers that are not there.

use std::time::{Duration, Instant};

use contexture_store_postgres::{PostgresConfig, PostgresStore};

use crate::support::{config, url};

async fn refused(url: &str) -> String {
    let started = Instant::now();
    let patient = PostgresConfig { retry_for: Duration::from_secs(600), ..config("places") };
    let refused = PostgresStore::connect(url, patient).await.unwrap_err();
    assert!(started.elapsed() < Duration::from_secs(60), "a wrong address is not waited for");
    assert_eq!(refused.code(), "store_unavailable");
    refused.to_string()
}

#[tokio::test]
async fn what_is_wrong_with_an_address_is_said_without_the_password() {
    let urls = [
        "postgres://me:hunter2@127.0.0.1:1/db",
        "postgres://me:hunter2@127.0.0.1:hunter2/db",
        "postgres://me:hunter2@no-such-host.invalid/db",
        "postgres://me:hunter2@[::1/db",
        "host=127.0.0.1 password=hunter2 port=1 user=me",
        "mysql://me:hunter2@localhost/db",
        "hunter2",
        "",
    ];
    for url in urls {
        let said = refused(url).await;
        assert!(!said.contains("hunter2"), "{said}");
    }
    assert!(refused(urls[0]).await.starts_with("postgres://127.0.0.1:1/db is not available: "));
}

#[tokio::test]
async fn a_database_that_is_not_there_is_named() {
    let (server, _) = url().rsplit_once('/').map(|(a, b)| (a.to_owned(), b.to_owned())).unwrap();
    let said = refused(&format!("{server}/nowhere")).await;
    assert!(said.contains("database \"nowhere\" does not exist (3D000)"), "{said}");
}

#[tokio::test]
async fn the_store_shows_no_password() {
    let url = url().replace("postgres@", "postgres:hunter2@");
    let store =
        PostgresStore::connect(&url, PostgresConfig { connections: 1, ..config("places") }).await.unwrap();
    let shown = format!("{store:?}");
    assert!(shown.contains("127.0.0.1") && !shown.contains("hunter2"), "{shown}");
}
