//! Streams that are dropped while others write to them.

use std::time::Duration;

use contexture_history::Timestamp;
use contexture_session::Tenant;
use contexture_session::records::{Extent, NewRecord, Records, StreamKey, Writes};

use crate::support::{admin, config, store_in, unique, url};

fn one(stream: &StreamKey, data: &str) -> Writes {
    let record = NewRecord { stream: stream.clone(), at: Timestamp(1), data: data.to_owned() };
    Writes { records: vec![record], ..Writes::default() }
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
    let waits = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE $1";
    let query = format!("%DELETE FROM {schema}.streams%");
    while admin.query_one(waits, &[&query]).await.unwrap().get::<_, i64>(0) == 0 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
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
