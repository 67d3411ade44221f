//! A search reads what it finds, and not all that is archived.

use std::sync::Arc;

use contexture_history::{Body, Cost, Item, Seq, Summary, Timestamp, Visibility};
use contexture_message::Tokens;
use contexture_session::{Append, Guard, Log as _, LogState, Search, Store};
use contexture_store_postgres::PostgresStore;

use crate::support::{Log, admin, after, config, ended, named_url, unique, url};

impl Log {
    async fn archive(&mut self) {
        let summary = Summary { first: Seq(1), last: self.state.end, number: 1, ..Summary::default() };
        let item = Item {
            seq: self.state.end.next(),
            turn: self.state.turn,
            visibility: Visibility::HISTORY,
            cost: Cost { counter: Arc::from("test"), tokens: Tokens(1) },
            author: None,
            at: Timestamp(1_000),
            body: Body::Summary(summary),
        };
        let state = after(&self.state, std::slice::from_ref(&item));
        let append = Append {
            expected: Some(self.state.end),
            nonce: String::new(),
            items: vec![item],
            state: Some(LogState::from(&state)),
            guard: Guard::Free,
            keys: Vec::new(),
            lazy: false,
        };
        self.store.append(self.key.clone(), append).await.unwrap();
        self.state = state;
    }

    async fn find(&self, query: &str) -> Vec<u64> {
        let search = Search { query: query.to_owned(), within: vec![(Seq(1), Seq(u64::MAX))], max: 10 };
        let found = self.store.search(self.key.clone(), search).await.unwrap();
        found.into_iter().map(|it| it.seq.0).collect()
    }
}

/// Returns how many archived rows were read by scanning all of them, and how many by an index.
async fn rows_read(schema: &str) -> (i64, i64) {
    let sql = "\
        SELECT coalesce(seq_tup_read, 0), coalesce(idx_tup_fetch, 0)
        FROM pg_stat_user_tables WHERE schemaname = $1 AND relname = 'archived'";
    let row = admin(&url()).await.query_one(sql, &[&schema]).await.unwrap();
    (row.get(0), row.get(1))
}

#[tokio::test]
async fn a_search_reads_what_it_finds() {
    const ITEMS: usize = 5_000;
    let schema = unique("searching");
    let (writer, reader) = (format!("{schema}_writer"), format!("{schema}_reader"));
    let store = PostgresStore::connect(&named_url(&writer), config(&schema)).await.unwrap();
    let (mut log, mut other) = (Log::create(&store).await, Log::create(&store).await);
    let texts: Vec<String> = (1..=ITEMS).map(|n| format!("item {n} says something")).collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    log.say(&texts).await.unwrap();
    log.archive().await;
    other.say(&texts[..100]).await.unwrap();
    other.archive().await;
    admin(&url()).await.batch_execute(&format!("ANALYZE {schema}.archived")).await.unwrap();
    drop(store);
    log.store = PostgresStore::connect(&named_url(&reader), config(&schema)).await.unwrap();
    other.store = log.store.clone();
    ended(&writer).await;
    let before = rows_read(&schema).await;
    for _ in 0..10 {
        assert_eq!(log.find("4711 nothing 17").await, [4711, 17]);
        assert_eq!(other.find("4711 17").await, [17]);
    }
    drop((log, other));
    ended(&reader).await;
    let after = rows_read(&schema).await;
    assert_eq!(after.0, before.0, "no table was read as a whole");
    let touched = (after.1 - before.1) / 10;
    // Each that is found is read in the index and for its terms, and so is what stands beside it.
    assert!(touched <= 60, "{touched} rows to find three");
}
