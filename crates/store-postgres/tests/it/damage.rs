//! What is not there any more, or not as it was, is reported; it is never a shorter history.

use contexture_history::Seq;
use contexture_session::{Log as _, NewestTurns, Span};

use crate::support::{Log, admin, config, store_in, unique, url};

/// Makes a log of 120 items in 120 rows, does something to its tables, and reads it in every way. Says what each
/// way gives: the number of items, or the code of the error.
async fn read_after(damage: &str) -> String {
    let schema = unique("damage");
    let mut log = Log::create(&store_in(config(&schema)).await).await;
    for n in 1..=120 {
        log.say(&[&format!("m{n}")]).await.unwrap();
    }
    admin(&url()).await.batch_execute(&damage.replace("{schema}", &schema)).await.unwrap();
    let turns = |turns| Span::NewestTurns(NewestTurns { turns, after: Seq(10), open: None });
    let spans = [
        Span::After { seq: Seq(0), max: usize::MAX },
        Span::After { seq: Seq(100), max: 10 },
        Span::NewestItems { count: 50, client: false },
        Span::NewestItems { count: 50, client: true },
        turns(5),
        turns(usize::MAX),
    ];
    let mut shown = Vec::new();
    for span in spans {
        shown.push(match log.store.read(log.key.clone(), span).await {
            Ok(items) => items.len().to_string(),
            Err(err) => err.code().to_string(),
        });
    }
    shown.join(" ")
}

#[tokio::test]
async fn a_log_is_read_as_it_is() {
    assert_eq!(read_after("").await, "120 10 50 50 5 110");
}

#[tokio::test]
async fn a_missing_row_is_noticed_wherever_it_is_needed() {
    let delete = |rows: &str| format!("DELETE FROM {{schema}}.commits WHERE first_seq {rows}");
    let damaged = "store_damaged";
    assert_eq!(read_after(&delete("= 1")).await, format!("{damaged} 10 50 50 5 110"));
    assert_eq!(read_after(&delete("= 11")).await, format!("{damaged} 10 50 50 5 {damaged}"));
    assert_eq!(read_after(&delete("= 80")).await, format!("{damaged} 10 {damaged} {damaged} 5 {damaged}"));
    assert_eq!(
        read_after(&delete("= 105")).await,
        format!("{damaged} {damaged} {damaged} {damaged} {damaged} {damaged}")
    );
    assert_eq!(
        read_after(&delete("= 120")).await,
        format!("{damaged} 10 {damaged} {damaged} {damaged} {damaged}")
    );
    assert_eq!(read_after(&delete("> 0")).await, [damaged; 6].join(" "));
}

#[tokio::test]
async fn a_row_that_can_t_be_read_is_noticed() {
    let spoilt = "UPDATE {schema}.commits SET body = 'spoilt' WHERE first_seq = 120";
    assert_eq!(
        read_after(spoilt).await,
        "store_damaged 10 store_damaged store_damaged store_damaged store_damaged"
    );
    let miscounted = "UPDATE {schema}.commits SET count = 2 WHERE first_seq = 120";
    assert_eq!(
        read_after(miscounted).await,
        "store_damaged 10 store_damaged store_damaged store_damaged store_damaged"
    );
}

#[tokio::test]
async fn a_missing_large_text_is_named() {
    let schema = unique("damage");
    let mut log = Log::create(&store_in(config(&schema)).await).await;
    log.say(&[&"large ".repeat(3_000)]).await.unwrap();
    admin(&url()).await.batch_execute(&format!("DELETE FROM {schema}.blobs")).await.unwrap();
    let err = log.store.read(log.key.clone(), Span::After { seq: Seq(0), max: 1 }).await.unwrap_err();
    assert!(err.to_string().contains("is damaged: the large text "), "{err}");
}
