//! Checks what happens to documents when their session is deleted.

use std::sync::Arc;
use std::time::Duration;

use super::{Fixture, OpenDocuments, document};
use crate::documents::DocumentKey;

/// A deleted session takes its documents along, and nothing more is written for it.
pub async fn what_belongs_to_a_session_goes_with_it(open: OpenDocuments) {
    let fixture = Fixture::new(&open).await;
    let (key, shared) =
        (fixture.key("a"), DocumentKey::of_tenant(&fixture.session.tenant, &fixture.kind, "a"));
    let write_all = async || {
        fixture.put(&[document(&key, 1, "ours"), document(&shared, 1, "all's")]).await;
        fixture.create(document(&fixture.key("new"), 1, "new")).await.expect("a new document");
    };
    write_all().await;
    fixture.delete_session().await;
    let assert_gone = async || {
        assert_eq!(
            fixture.texts(&[key.clone(), fixture.key("new"), shared.clone()]).await,
            ["-", "-", "all's"]
        );
    };
    assert_gone().await;
    // What is left out is no conflict either.
    write_all().await;
    write_all().await;
    assert_gone().await;
    assert_eq!(fixture.list(None, usize::MAX).await.len(), 1);

    fixture.create_session(&fixture.session).await;
    assert_gone().await;
    write_all().await;
    assert_eq!(fixture.list(None, usize::MAX).await.len(), 3);
}

/// Writers that are busy while their session is deleted leave nothing behind.
pub async fn nothing_stays_behind_a_deleted_session(open: OpenDocuments) {
    let fixture = Fixture::new(&open).await;
    let other = open().await;
    for round in 0..6 {
        let writers = (0..8).map(|n| {
            let documents = Arc::clone(if n % 2 == 0 { &fixture.open.documents } else { &other.documents });
            let key = fixture.key(&n.to_string());
            tokio::spawn(async move {
                loop {
                    documents.put(document(&key, 1, "x")).await.expect("a write");
                    if documents.document(key.clone()).await.expect("an answer").is_none() {
                        return;
                    }
                    // A store in memory never waits, and others want to run too.
                    tokio::task::yield_now().await;
                }
            })
        });
        let writers: Vec<_> = writers.collect();
        tokio::time::sleep(Duration::from_millis(10 + round * 3)).await;
        fixture.delete_session().await;
        let all = tokio::time::timeout(Duration::from_secs(20), futures::future::join_all(writers)).await;
        for writer in all.expect("nothing is waited for in vain") {
            writer.expect("no writer fails");
        }
        assert_eq!(fixture.list(None, usize::MAX).await, []);
        fixture.create_session(&fixture.session).await;
    }
}
