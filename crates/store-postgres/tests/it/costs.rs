//! A read costs what it returns: the server's own statistics say how many rows it touched.

use contexture_history::Seq;
use contexture_session::{Log as _, NewestTurns, Span};
use contexture_store_postgres::PostgresStore;

use crate::support::{Log, admin, config, ended, named_url, unique, url};

/// Returns how many rows of the commits were read by scanning all of them, and how many by an index.
async fn rows_read(schema: &str) -> (i64, i64) {
    let admin = admin(&url()).await;
    let sql = "\
        SELECT coalesce(seq_tup_read, 0), coalesce(idx_tup_fetch, 0)
        FROM pg_stat_user_tables WHERE schemaname = $1 AND relname = 'commits'";
    let row = admin.query_one(sql, &[&schema]).await.unwrap();
    (row.get(0), row.get(1))
}

#[tokio::test]
async fn reading_the_newest_does_not_touch_the_rest() {
    const ITEMS: u64 = 40_000;
    let schema = unique("costs");
    let (writer, reader) = (format!("{schema}_writer"), format!("{schema}_reader"));
    let store = PostgresStore::connect(&named_url(&writer), config(&schema)).await.unwrap();
    let mut log = Log::create(&store).await;
    drop(store);
    let texts: Vec<String> = (1..=ITEMS).map(|n| format!("m{n}")).collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    log.say(&texts).await.unwrap();
    // A plan is made for the table as it is now, and used from then on.
    admin(&url()).await.batch_execute(&format!("ANALYZE {schema}.commits")).await.unwrap();
    log.store = PostgresStore::connect(&named_url(&reader), config(&schema)).await.unwrap();
    ended(&writer).await;
    let before = rows_read(&schema).await;

    let turns = NewestTurns { turns: 20, after: Seq(0), open: None };
    let spans = [
        (Span::NewestItems { count: 64, client: false }, 64),
        (Span::NewestItems { count: 64, client: true }, 64),
        (Span::NewestTurns(turns), 20),
        (Span::After { seq: Seq(ITEMS / 2), max: 10 }, 10),
        (Span::After { seq: Seq(ITEMS - 3), max: 10 }, 3),
    ];
    let rounds = 10;
    for _ in 0..rounds {
        for (span, count) in &spans {
            assert_eq!(log.store.read(log.key.clone(), span.clone()).await.unwrap().len(), *count);
        }
    }
    for _ in 0..rounds {
        assert_eq!(log.store.feed(log.session.clone(), ITEMS - 10, 64).await.unwrap().len(), 10);
    }
    log.say(&["one more"]).await.unwrap();
    drop(log);
    ended(&reader).await;
    let after = rows_read(&schema).await;
    assert_eq!(after.0, before.0, "no table was read as a whole");
    let touched = (after.1 - before.1) / rounds;
    assert!((5..=200).contains(&touched), "{touched} rows for one of each");
}
