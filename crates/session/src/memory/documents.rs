//! Documents in memory.

use std::collections::BTreeMap;
use std::ops::Bound;

use contexture_history::Timestamp;

use super::{Inner, MemoryStore, SessionRow};
use crate::documents::{Document, DocumentKey, DocumentList, Documents, Writes};
use crate::{SessionId, SessionKey, StoreError, StoreFuture, Tenant};

/// The documents of the in-memory store.
#[derive(Debug, Default)]
pub(super) struct DocumentTable {
    /// By kind and place: a list is a part of one of them.
    documents: BTreeMap<String, BTreeMap<ListKey, Document>>,
}

/// The sort key of a document in a list.
type ListKey = (Tenant, Option<SessionId>, String);

fn list_key(key: &DocumentKey) -> ListKey {
    (key.tenant.clone(), key.session.clone(), key.name.clone())
}

impl DocumentTable {
    /// Removes what belongs to a session.
    pub(super) fn forget_session(&mut self, session: &SessionKey) {
        let is_other = |tenant: &Tenant, of: Option<&SessionId>| {
            *tenant != session.tenant || of != Some(&session.session)
        };
        for documents in self.documents.values_mut() {
            documents.retain(|(tenant, of, _), _| is_other(tenant, of.as_ref()));
        }
    }

    fn document(&self, key: &DocumentKey) -> Option<&Document> {
        self.documents.get(&key.kind)?.get(&list_key(key))
    }

    fn put(&mut self, document: Document) {
        let key = &document.key;
        let list_key = list_key(key);
        self.documents.entry(key.kind.clone()).or_default().insert(list_key, document);
    }

    fn delete(&mut self, key: &DocumentKey) {
        if let Some(documents) = self.documents.get_mut(&key.kind) {
            documents.remove(&list_key(key));
        }
    }

    fn check_creates(&self, writes: &Writes) -> Result<(), StoreError> {
        match writes.creates.iter().find(|it| self.document(&it.key).is_some()) {
            Some(document) => Err(StoreError::document_exists(&document.key)),
            None => Ok(()),
        }
    }

    fn check_required(&self, writes: &Writes) -> Result<(), StoreError> {
        match writes.required().into_iter().find(|it| self.document(it).is_none()) {
            Some(missing) => Err(StoreError::no_document(missing)),
            None => Ok(()),
        }
    }

    fn list(&self, list: &DocumentList) -> Vec<Document> {
        let Some(documents) = self.documents.get(&list.kind) else { return Vec::new() };
        let first = list.tenant.as_ref().map(|it| (it.clone(), list.session.clone(), String::new()));
        let after = list.after.as_ref().map(list_key);
        let from = match (first, after) {
            (first, Some(after)) if first.as_ref().is_none_or(|it| *it <= after) => Bound::Excluded(after),
            (Some(first), _) => Bound::Included(first),
            (None, _) => Bound::Unbounded,
        };
        let is_listed = |(tenant, session, _): &ListKey| {
            list.tenant
                .as_ref()
                .is_none_or(|it| it == tenant && (list.session.is_none() || list.session == *session))
        };
        let listed =
            documents.range((from, Bound::Unbounded)).take_while(|(list_key, _)| is_listed(list_key));
        listed.take(list.max).map(|(_, document)| document.clone()).collect()
    }

    fn prune(&mut self, kind: &str, before: Timestamp, max: usize) -> usize {
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

impl Inner {
    fn write(&mut self, mut writes: Writes) -> Result<(), StoreError> {
        let sessions = &self.sessions;
        let has = |tenant: &Tenant, session: Option<&SessionId>| is_there(sessions, tenant, session);
        writes.puts.retain(|it| has(&it.key.tenant, it.key.session.as_ref()));
        writes.creates.retain(|it| has(&it.key.tenant, it.key.session.as_ref()));
        self.documents.check_creates(&writes)?;
        self.documents.check_required(&writes)?;
        let documents = &mut self.documents;
        writes.puts.into_iter().chain(writes.creates).for_each(|it| documents.put(it));
        writes.deletes.iter().for_each(|it| documents.delete(it));
        Ok(())
    }
}

fn is_there(
    sessions: &BTreeMap<SessionKey, SessionRow>,
    tenant: &Tenant,
    session: Option<&SessionId>,
) -> bool {
    session.is_none_or(|session| {
        sessions.contains_key(&SessionKey { tenant: tenant.clone(), session: session.clone() })
    })
}

impl Documents for MemoryStore {
    fn write(&self, writes: Writes) -> StoreFuture<'_, ()> {
        Box::pin(async move {
            writes.check()?;
            self.lock().write(writes)
        })
    }

    fn documents(&self, keys: Vec<DocumentKey>) -> StoreFuture<'_, Vec<Document>> {
        Box::pin(async move {
            let inner = self.lock();
            Ok(keys.iter().filter_map(|it| inner.documents.document(it).cloned()).collect())
        })
    }

    fn list(&self, list: DocumentList) -> StoreFuture<'_, Vec<Document>> {
        Box::pin(async move { Ok(self.lock().documents.list(&list)) })
    }

    fn prune(&self, kind: String, before: Timestamp, max: usize) -> StoreFuture<'_, u64> {
        Box::pin(async move { Ok(self.lock().documents.prune(&kind, before, max) as u64) })
    }
}
