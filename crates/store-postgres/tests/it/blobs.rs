//! Large texts: stored once, kept while anything refers to them, removed afterwards.

use contexture_history::Timestamp;
use contexture_session::{Append, Guard, Log as _, NewLog, SessionId, State, Store, StoreError};
use contexture_store_postgres::PostgresStore;
use futures::future::join_all;

use crate::support::{Log, append, config, new_session, store_in, url};

async fn log() -> Log {
    Log::create(&store_in(config("blobs")).await).await
}

async fn count(log: &Log) -> u64 {
    log.store.usage(log.key.tenant.clone()).await.unwrap().blobs
}

fn large(what: &str) -> String {
    format!("{what} ").repeat(4_000)
}

#[tokio::test]
async fn a_text_goes_with_the_last_thread_that_refers_to_it() {
    let mut log = log().await;
    let (shared, own) = (large("shared"), large("own"));
    log.say(&[&shared, &shared]).await.unwrap();
    log.say(&[&shared]).await.unwrap();
    log.store.create_log(log.other_thread("side", &State::default())).await.unwrap();
    let mut side = log.at("side", State::default());
    side.say(&[&shared, &own]).await.unwrap();
    assert_eq!(count(&log).await, 2);
    assert!(log.store.delete_log(side.key).await.unwrap());
    assert_eq!(count(&log).await, 1);
    assert_eq!(log.texts().await, [shared.as_str(), &shared, &shared]);
    assert!(log.store.delete_session(log.session.clone()).await.unwrap());
    assert_eq!(count(&log).await, 0);
}

/// A journal is pruned, and its large texts go with their last record.
#[tokio::test]
async fn a_text_goes_with_the_records_that_refer_to_it() {
    let log = log().await;
    let journal = NewLog::journal(log.session.clone(), "passes", Timestamp(1));
    log.store.create_log(journal.clone()).await.unwrap();
    let (shared, own) = (large("shared"), large("own"));
    for (at, text) in [(10, &own), (20, &shared), (30, &shared), (40, &shared)] {
        let mut append = append(&State::default(), Guard::Any, &[text]);
        append.items[0].at = Timestamp(at);
        let append = Append { expected: None, state: None, ..append };
        log.store.append(journal.key(), append).await.unwrap();
    }
    let mut counts = Vec::new();
    for before in [10, 11, 25, 35, 45] {
        let pruned = log.store.prune_journals("passes".to_owned(), Timestamp(before), 9).await.unwrap();
        counts.push((pruned, count(&log).await));
    }
    assert_eq!(counts, [(0, 2), (1, 1), (1, 1), (1, 1), (1, 0)]);
}

#[tokio::test]
async fn a_refused_append_leaves_no_text() {
    let mut log = log().await;
    log.say(&["one"]).await.unwrap();
    let mut late = Log { state: State::default(), ..log.clone() };
    assert_eq!(late.say(&[&large("late")]).await.unwrap_err().code(), "version_conflict");
    assert_eq!(count(&log).await, 0);
}

/// Sessions that share one text come and go at the same time: whoever is there can always be read.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_text_is_never_removed_under_a_new_reference() {
    come_and_go(log().await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nor_is_it_where_transactions_are_repeatable() {
    let url = format!("{}?options=-c%20default_transaction_isolation=repeatable%5C%20read", url());
    let store = PostgresStore::connect(&url, config("blobs")).await.unwrap();
    come_and_go(Log::create(&store).await).await;
}

async fn come_and_go(log: Log) {
    let text = large("contested");
    let one = |n: usize| {
        let (log, text) = (log.clone(), text.clone());
        tokio::spawn(async move {
            for round in 0..12 {
                let mut key = log.session.clone();
                key.session = SessionId::parse(format!("s{n}-{round}")).unwrap();
                log.store.create_session(new_session(&key)).await?;
                let mut mine = Log { key: key.main(), session: key.clone(), ..log.clone() };
                mine.say(&[&text, "small"]).await?;
                let copy = mine.other_thread(&format!("f{n}-{round}"), &mine.state);
                log.store.fork(mine.key.clone(), copy).await?;
                assert_eq!(mine.texts().await, [text.as_str(), "small"]);
                assert!(log.store.delete_session(key).await?);
            }
            Ok::<(), StoreError>(())
        })
    };
    for done in join_all((0..6).map(one)).await {
        done.unwrap().unwrap();
    }
    assert_eq!(count(&log).await, 0);
}
