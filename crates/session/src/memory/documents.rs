//! Documents in memory.

use std::collections::BTreeMap;
use std::ops::Bound;

use contexture_history::Timestamp;

use super::{Inner, MemoryStore, reads, writes};
use crate::documents::{Document, DocumentKey, Documents};
use crate::{SessionId, SessionKey, StoreError, StoreFuture, Tenant};

/// The documents of the in-memory store, by kind and in the order of lists.
pub(super) type DocumentTable = BTreeMap<String, BTreeMap<ListKey, Document>>;

/// The sort key of a document in a list.
type ListKey = (Tenant, Option<SessionId>, String);

fn list_key(key: &DocumentKey) -> ListKey {
    (key.tenant.clone(), key.session.clone(), key.name.clone())
}

impl Inner {
    /// Removes the documents that belong to a session.
    pub(super) fn forget_documents(&mut self, session: &SessionKey) {
        let is_other =
            |(tenant, of, _): &ListKey| *tenant != session.tenant || of.as_ref() != Some(&session.session);
        self.documents.values_mut().for_each(|it| it.retain(|key, _| is_other(key)));
    }

    fn document(&self, key: &DocumentKey) -> Option<&Document> {
        self.documents.get(&key.kind)?.get(&list_key(key))
    }

    fn put(&mut self, document: Document) {
        let DocumentKey { tenant, session, kind, .. } = &document.key;
        let has_session = session.as_ref().is_none_or(|session| {
            self.sessions.contains(&SessionKey { tenant: tenant.clone(), session: session.clone() })
        });
        if has_session {
            let of_kind = self.documents.entry(kind.clone()).or_default();
            of_kind.insert(list_key(&document.key), document);
        }
    }

    fn prune_documents(&mut self, kind: &str, before: Timestamp, max: usize) -> usize {
        let mut spare = max;
        if let Some(documents) = self.documents.get_mut(kind) {
            documents.retain(|_, document| {
                let is_old = document.at < before && spare > 0;
                spare -= usize::from(is_old);
                !is_old
            });
        }
        max - spare
    }
}

impl Documents for MemoryStore {
    writes! { inner, now;
        put(document: Document) -> () = document.check().map(|()| inner.put(document));
        create(document: Document) -> () = match inner.document(&document.key) {
            Some(_) => Err(StoreError::document_exists(&document.key)),
            None => document.check().map(|()| inner.put(document)),
        };
        delete(key: DocumentKey) -> () = {
            let of_kind = inner.documents.get_mut(&key.kind);
            Ok(of_kind.map_or((), |it| _ = it.remove(&list_key(&key))))
        };
        prune(kind: String, before: Timestamp, max: usize) -> u64
            = Ok(inner.prune_documents(&kind, before, max) as u64);
    }

    reads! { inner, now;
        document(key: DocumentKey) -> Option<Document> = inner.document(&key).cloned();
        list(kind: String, after: Option<DocumentKey>, max: usize) -> Vec<Document> = {
            let from = after.as_ref().map_or(Bound::Unbounded, |it| Bound::Excluded(list_key(it)));
            let of_kind = inner.documents.get(&kind).into_iter();
            let listed = of_kind.flat_map(|it| it.range((from.clone(), Bound::Unbounded)));
            listed.take(max).map(|(_, document)| document.clone()).collect()
        };
    }
}
