//! Checks what happens to streams and documents when their session is deleted.

use super::{Fixture, OpenRecords, document, record, soon};
use crate::records::{DocumentKey, Writes};

/// A deleted session takes its streams and documents along, and nothing more is written for it.
pub async fn what_belongs_to_a_session_goes_with_it(open: OpenRecords) {
    let fixture = Fixture::new(&open).await;
    let (stream, common) = (fixture.stream(), fixture.common());
    let (key, shared) =
        (fixture.key("a"), DocumentKey::of_tenant(&fixture.session.tenant, &fixture.kind, "a"));
    let everything = || Writes {
        records: vec![record(&stream, 1, "a"), record(&common, 1, "x"), record(&stream, 1, "b")],
        puts: vec![document(&key, 1, "ours"), document(&shared, 1, "all's")],
        creates: vec![document(&fixture.key("new"), 1, "new")],
        ..Writes::default()
    };
    assert_eq!(fixture.write(everything()).await, [1, 1, 2]);
    let waiting = soon(fixture.open.records.grown(stream.clone(), 2));
    let deleting = async {
        tokio::time::sleep(std::time::Duration::from_millis(30)).await;
        fixture.delete_session().await;
    };
    let (told, ()) = futures::join!(waiting, deleting);
    told.expect("the store answers");
    let assert_gone = async || {
        assert_eq!((fixture.said(&stream).await.as_str(), fixture.extent(&stream).await), ("", (0, 0)));
        assert_eq!(
            fixture.texts(&[key.clone(), fixture.key("new"), shared.clone()]).await,
            ["-", "-", "all's"]
        );
    };
    assert_gone().await;
    // The rest of the write is written; what is left out is no conflict either.
    assert_eq!(fixture.write(everything()).await, [0, 2, 0]);
    assert_eq!(fixture.write(everything()).await, [0, 3, 0]);
    assert_gone().await;
    assert_eq!(fixture.list(fixture.everything()).await.len(), 1);

    fixture.create_session(&fixture.session).await;
    assert_gone().await;
    assert_eq!(fixture.write(everything()).await, [1, 4, 2], "a new session begins anew");
    assert_eq!(fixture.said(&stream).await, "1:a 2:b");
}

/// Writers that are busy while their session is deleted leave nothing behind.
pub async fn nothing_stays_behind_a_deleted_session(open: OpenRecords) {
    let fixture = Fixture::new(&open).await;
    let other = open().await;
    let (stream, common) = (fixture.stream(), fixture.common());
    for round in 0..6 {
        let writers = (0..8).map(|n| {
            let records =
                std::sync::Arc::clone(if n % 2 == 0 { &fixture.open.records } else { &other.records });
            let (stream, common, key) = (stream.clone(), common.clone(), fixture.key(&n.to_string()));
            tokio::spawn(async move {
                loop {
                    let new = vec![record(&stream, 1, "x"), record(&common, 1, "x")];
                    let puts = vec![document(&key, 1, "x")];
                    let given = records.write(Writes { records: new, puts, ..Writes::default() }).await;
                    if given.expect("a write")[0] == 0 {
                        return;
                    }
                    // A store in memory never waits, and others want to run too.
                    tokio::task::yield_now().await;
                }
            })
        });
        let writers: Vec<_> = writers.collect();
        tokio::time::sleep(std::time::Duration::from_millis(10 + round * 3)).await;
        fixture.delete_session().await;
        for writer in soon(futures::future::join_all(writers)).await {
            writer.expect("no writer fails");
        }
        assert_eq!((fixture.said(&stream).await.as_str(), fixture.extent(&stream).await), ("", (0, 0)));
        assert_eq!(fixture.list(fixture.everything()).await, []);
        fixture.create_session(&fixture.session).await;
    }
    let (_, last) = fixture.extent(&common).await;
    assert_eq!(fixture.read(&common, 0, usize::MAX).await.len() as u64, last, "the tenant's own has no gap");
}
