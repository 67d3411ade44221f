//! Checks of documents.

use contexture_history::Timestamp;

use super::{Fixture, OpenDocuments, document};
use crate::conformance::TestNames;
use crate::documents::{DocumentKey, DocumentList, MAX_NAME_BYTES, Writes};
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

    let deletes = vec![a.clone(), c.clone(), a.clone()];
    fixture
        .write(Writes { deletes, creates: vec![document(&fixture.key("d"), 1, "new")], ..Writes::default() })
        .await;
    assert_eq!(
        fixture.texts(&[a.clone(), b.clone(), c.clone(), fixture.key("d")]).await,
        ["-", "two", "-", "new"]
    );
    fixture.write(Writes { creates: vec![document(&a, 9, "again")], ..Writes::default() }).await;
    assert_eq!(fixture.documents(std::slice::from_ref(&a)).await, [document(&a, 9, "again")]);

    // Deleting comes last.
    let (puts, creates) = (vec![document(&a, 1, "x")], vec![document(&c, 1, "y")]);
    let deletes = vec![a.clone(), c.clone()];
    fixture.write(Writes { puts, creates, deletes, ..Writes::default() }).await;
    assert_eq!(fixture.texts(&[a, b, c]).await, ["-", "two", "-"]);
}

/// A write of which a part is refused writes nothing.
pub async fn writes_are_all_or_nothing(open: OpenDocuments) {
    let fixture = Fixture::new(&open).await;
    let [a, b, c, d] = ["a", "b", "c", "d"].map(|it| fixture.key(it));
    fixture.put(&[document(&a, 1, "a"), document(&b, 1, "b")]).await;
    let attempt = |creates: Vec<&DocumentKey>| Writes {
        puts: vec![document(&b, 2, "changed"), document(&c, 2, "put")],
        creates: creates.into_iter().map(|it| document(it, 2, "created")).collect(),
        deletes: vec![a.clone()],
        ..Writes::default()
    };
    for creates in [vec![&d, &b], vec![&a], vec![&d, &d], vec![&c]] {
        let refused = fixture.try_write(attempt(creates)).await;
        assert!(matches!(&refused, Err(StoreError::Exists { what: "document", .. })), "{refused:?}");
        assert_eq!(fixture.texts(&[a.clone(), b.clone(), c.clone(), d.clone()]).await, ["a", "b", "-", "-"]);
    }
    // One that is refused is nothing to others that are written at the same time.
    let create = |key: &DocumentKey| Writes { creates: vec![document(key, 3, "once")], ..Writes::default() };
    let racing = (0..16).map(|n| fixture.try_write(create(if n % 2 == 0 { &d } else { &c })));
    let done = futures::future::join_all(racing).await;
    assert_eq!(done.iter().filter(|it| it.is_ok()).count(), 2, "{done:?}");
    assert!(
        done.iter().filter_map(|it| it.as_ref().err()).all(|it| it.code() == "already_exists"),
        "{done:?}"
    );
    fixture.write(attempt(vec![&fixture.key("e")])).await;
    assert_eq!(fixture.texts(&[a, b, c, d]).await, ["-", "changed", "put", "once"]);
}

/// A write whose required document is missing writes nothing, and of many concurrent deletes one succeeds.
pub async fn writes_require_documents(open: OpenDocuments) {
    let fixture = Fixture::new(&open).await;
    let [a, b, c] = ["a", "b", "c"].map(|it| fixture.key(it));
    fixture.put(&[document(&a, 1, "a"), document(&b, 1, "b")]).await;
    let attempt = |requires: Vec<&DocumentKey>| Writes {
        puts: vec![document(&b, 2, "changed")],
        requires: requires.into_iter().cloned().collect(),
        ..Writes::default()
    };
    for requires in [vec![&c], vec![&a, &c], vec![&b, &c, &c]] {
        let refused = fixture.try_write(attempt(requires)).await;
        assert!(matches!(&refused, Err(StoreError::NotFound { what: "document", .. })), "{refused:?}");
        assert_eq!(fixture.texts(&[a.clone(), b.clone()]).await, ["a", "b"]);
    }
    fixture.write(attempt(vec![&b, &a, &a])).await;
    // What is put here is there.
    let puts = vec![document(&c, 1, "c")];
    fixture.write(Writes { puts, requires: vec![c.clone()], ..Writes::default() }).await;

    let end =
        || Writes { deletes: vec![a.clone()], requires: vec![a.clone(), b.clone()], ..Writes::default() };
    let done = futures::future::join_all((0..16).map(|_| fixture.try_write(end()))).await;
    assert_eq!(done.iter().filter(|it| it.is_ok()).count(), 1, "{done:?}");
    assert!(done.iter().filter_map(|it| it.as_ref().err()).all(|it| it.code() == "not_found"), "{done:?}");
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
    let refused =
        fixture.try_write(Writes { puts: vec![document(&longer, 1, "x")], ..Writes::default() }).await;
    assert!(matches!(refused, Err(StoreError::NameTooLong { .. })), "{refused:?}");
    assert_eq!(fixture.texts(std::slice::from_ref(&longer)).await, ["-"]);
    fixture
        .write(Writes { deletes: keys.iter().cloned().chain([longer]).collect(), ..Writes::default() })
        .await;
    assert_eq!(fixture.documents(&keys).await, []);
}

/// Documents are listed in one order, page by page, filtered as requested.
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

    let tenant = keys[0].tenant.clone();
    let session = SessionId::parse("s").expect("a name");
    let of_tenant = |it: &&DocumentKey| it.tenant == tenant;
    let of_session = |it: &&DocumentKey| it.tenant == tenant && it.session.as_ref() == Some(&session);
    let filters = [
        (fixture.everything(), keys.clone()),
        (DocumentList { session: Some(session.clone()), ..fixture.everything() }, keys.clone()),
        (
            DocumentList { tenant: Some(tenant.clone()), ..fixture.everything() },
            keys.iter().filter(of_tenant).cloned().collect(),
        ),
        (
            DocumentList {
                tenant: Some(tenant.clone()),
                session: Some(session.clone()),
                ..fixture.everything()
            },
            keys.iter().filter(of_session).cloned().collect(),
        ),
    ];
    for (list, expected) in filters {
        assert_eq!(listed(&fixture, list.clone()).await, expected);
        assert_eq!(paged(&fixture, list.clone(), 2).await, expected);
        assert_eq!(listed(&fixture, DocumentList { max: 0, ..list.clone() }).await, []);
        for after in &keys {
            let rest: Vec<_> = expected.iter().filter(|it| *it > after).cloned().collect();
            let list = DocumentList { after: Some(after.clone()), ..list.clone() };
            assert_eq!(listed(&fixture, list).await, rest, "after {after:?}");
        }
    }
    let nobody = DocumentList { tenant: Some(Tenant::default()), ..fixture.everything() };
    assert_eq!(listed(&fixture, nobody).await, []);
}

async fn listed(fixture: &Fixture, list: DocumentList) -> Vec<DocumentKey> {
    let found = fixture.list(list).await;
    assert!(found.iter().all(|it| it.data == "x" && it.at == Timestamp(1)));
    found.into_iter().map(|it| it.key).collect()
}

async fn paged(fixture: &Fixture, list: DocumentList, max: usize) -> Vec<DocumentKey> {
    let mut keys: Vec<DocumentKey> = Vec::new();
    loop {
        let page = DocumentList { after: keys.last().cloned(), max, ..list.clone() };
        let page = listed(fixture, page).await;
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
