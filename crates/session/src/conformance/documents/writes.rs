//! Checks of documents.

use contexture_history::Timestamp;

use super::{Fixture, OpenDocuments, document};
use crate::conformance::TestNames;
use crate::documents::{DocumentKey, MAX_NAME_BYTES};
use crate::{Names as _, SessionId, SessionKey, StoreError, Tenant};

/// The newest writer decides what a document says.
pub async fn documents_are_written(open: OpenDocuments) {
    let fixture = Fixture::new(&open).await;
    let [a, b, c] = ["a", "b", "c"].map(|it| fixture.key(it));
    fixture.put(&[document(&a, 1, "one"), document(&b, 1, "two")]).await;
    fixture.put(&[document(&a, 2, "three"), document(&a, 3, "four")]).await;
    let found = fixture.documents(&[c.clone(), b.clone(), a.clone(), b.clone()]).await;
    let expected = [document(&b, 1, "two"), document(&a, 3, "four"), document(&b, 1, "two")];
    assert_eq!(found, expected, "in the order of the keys");
    assert_eq!(fixture.documents(&[]).await, []);

    fixture.delete(&[&a, &c, &a]).await;
    assert_eq!(fixture.texts(&[a.clone(), b, c]).await, ["-", "two", "-"]);
    fixture.create(document(&a, 9, "again")).await.expect("it was deleted");
    assert_eq!(fixture.documents(std::slice::from_ref(&a)).await, [document(&a, 9, "again")]);
}

/// A document that exists is not created again, however many try at the same time.
pub async fn documents_are_created_once(open: OpenDocuments) {
    let fixture = Fixture::new(&open).await;
    let [a, b, c] = ["a", "b", "c"].map(|it| fixture.key(it));
    fixture.put(&[document(&a, 1, "a")]).await;
    let refused = fixture.create(document(&a, 2, "created")).await;
    assert!(matches!(&refused, Err(StoreError::Exists { what: "document", .. })), "{refused:?}");
    assert_eq!(fixture.documents(std::slice::from_ref(&a)).await, [document(&a, 1, "a")]);
    let create = |n: usize| fixture.create(document(if n.is_multiple_of(2) { &b } else { &c }, 3, "once"));
    let done = futures::future::join_all((0..16).map(create)).await;
    assert_eq!(done.iter().filter(|it| it.is_ok()).count(), 2, "{done:?}");
    assert!(
        done.iter().filter_map(|it| it.as_ref().err()).all(|it| it.code() == "already_exists"),
        "{done:?}"
    );
    assert_eq!(fixture.texts(&[a, b, c]).await, ["a", "once", "once"]);
}

/// Any text can be a name, and names that look alike are different ones.
pub async fn documents_have_any_name(open: OpenDocuments) {
    let fixture = Fixture::new(&open).await;
    let long = "n".repeat(MAX_NAME_BYTES);
    let names =
        ["", "\0", "a", "A", "a\0", "a/b", "a'b", "a\"b", "a%", "a_", "ä", "a\u{308}", "\u{1F600}", &long];
    let (tenant, session) = (&fixture.session.tenant, &fixture.session.session);
    let keys: Vec<DocumentKey> = names
        .iter()
        .flat_map(|name| [fixture.key(name), DocumentKey::of_tenant(tenant, &fixture.kind, *name)])
        .collect();
    let documents: Vec<_> = (0..).zip(&keys).map(|(n, key)| document(key, n, &format!("d{n}\0"))).collect();
    fixture.put(&documents).await;
    assert_eq!(fixture.documents(&keys).await, documents);
    let other = DocumentKey::of_session(tenant, session, &format!("{}x", fixture.kind), "a");
    assert_eq!(fixture.texts(&[other]).await, ["-"]);
    let elsewhere =
        DocumentKey::of_tenant(&Tenant::parse(TestNames.next()).expect("a tenant"), &fixture.kind, "a");
    assert_eq!(fixture.texts(&[elsewhere]).await, ["-"]);

    let longer = fixture.key(&format!("{long}n"));
    for refused in [
        fixture.open.documents.put(document(&longer, 1, "x")).await,
        fixture.create(document(&longer, 1, "x")).await,
    ] {
        assert!(matches!(refused, Err(StoreError::NameTooLong { .. })), "{refused:?}");
    }
    assert_eq!(fixture.texts(std::slice::from_ref(&longer)).await, ["-"]);
    fixture.delete(&keys.iter().chain([&longer]).collect::<Vec<_>>()).await;
    assert_eq!(fixture.documents(&keys).await, []);
}

/// Documents are listed in one order, page by page.
pub async fn documents_are_listed(open: OpenDocuments) {
    let fixture = Fixture::new(&open).await;
    let name = TestNames.next();
    let mut keys = Vec::new();
    for tenant in ["b", "a", "ä"] {
        let tenant = Tenant::parse(format!("{name}{tenant}")).expect("a tenant");
        for session in ["s", "r", "s!"] {
            let session = SessionId::parse(session).expect("a name");
            fixture.create_session(&SessionKey { tenant: tenant.clone(), session: session.clone() }).await;
            keys.extend(
                ["", "n", "N", "n\0", "é"]
                    .map(|it| DocumentKey::of_session(&tenant, &session, &fixture.kind, it)),
            );
        }
        keys.extend(["", "n"].map(|it| DocumentKey::of_tenant(&tenant, &fixture.kind, it)));
    }
    let documents: Vec<_> = keys.iter().map(|it| document(it, 1, "x")).collect();
    fixture.put(&documents).await;
    let other = DocumentKey { kind: TestNames.next(), ..keys[0].clone() };
    fixture.put(&[document(&other, 1, "other")]).await;
    keys.sort();

    assert_eq!(listed(&fixture, None, usize::MAX).await, keys);
    assert_eq!(listed(&fixture, None, 0).await, []);
    assert_eq!(paged(&fixture, 2).await, keys);
    for after in &keys {
        let rest: Vec<_> = keys.iter().filter(|it| *it > after).cloned().collect();
        assert_eq!(listed(&fixture, Some(after), usize::MAX).await, rest, "after {after:?}");
    }
}

async fn listed(fixture: &Fixture, after: Option<&DocumentKey>, max: usize) -> Vec<DocumentKey> {
    let found = fixture.list(after, max).await;
    assert!(found.iter().all(|it| it.data == "x" && it.at == Timestamp(1)));
    found.into_iter().map(|it| it.key).collect()
}

async fn paged(fixture: &Fixture, max: usize) -> Vec<DocumentKey> {
    let mut keys: Vec<DocumentKey> = Vec::new();
    loop {
        let page = listed(fixture, keys.last(), max).await;
        assert!(page.len() <= max);
        if page.is_empty() {
            return keys;
        }
        keys.extend(page);
    }
}

/// Documents are forgotten by the time they were written last.
pub async fn old_documents_are_forgotten(open: OpenDocuments) {
    let fixture = Fixture::new(&open).await;
    let keys = ["a", "b", "c", "d"].map(|it| fixture.key(it));
    let documents: Vec<_> =
        keys.iter().zip([10, 20, 30, 5]).map(|(key, at)| document(key, at, "x")).collect();
    fixture.put(&documents).await;
    let common = DocumentKey::of_tenant(&fixture.session.tenant, &fixture.kind, "a");
    let other = DocumentKey { kind: TestNames.next(), ..keys[0].clone() };
    fixture.put(&[document(&common, 15, "x"), document(&other, 1, "other")]).await;
    fixture.put(&[document(&keys[3], 40, "newer")]).await;
    assert_eq!(fixture.prune(10, 99).await, 0, "what is as old as that stays");
    assert_eq!(fixture.prune(20, 1).await, 1);
    assert_eq!(fixture.prune(20, 99).await, 1);
    assert_eq!(fixture.texts(&keys).await, ["-", "x", "x", "newer"]);
    assert_eq!(fixture.texts(&[common, other]).await, ["-", "other"]);
}
