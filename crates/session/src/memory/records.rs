//! Streams and documents in memory.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;

use contexture_history::Timestamp;

use super::{Inner, MemoryStore, SessionRow};
use crate::records::{
    Document, DocumentKey, DocumentList, Extent, NewRecord, Record, Records, StreamKey, Writes,
};
use crate::{SessionId, SessionKey, StoreError, StoreFuture, Tenant};

/// Streams and documents of the in-memory store.
#[derive(Debug, Default)]
pub(super) struct RecordTables {
    streams: BTreeMap<StreamKey, Stream>,
    /// By kind and place: a list is a part of one of them.
    documents: BTreeMap<String, BTreeMap<ListKey, Document>>,
}

/// The sort key of a document in a list.
type ListKey = (Tenant, Option<SessionId>, String);

fn list_key(key: &DocumentKey) -> ListKey {
    (key.tenant.clone(), key.session.clone(), key.name.clone())
}

#[derive(Debug, Default)]
struct Stream {
    forgotten: u64,
    /// Their numbers follow `forgotten` without a gap.
    records: VecDeque<Record>,
}

impl Stream {
    fn extent(&self) -> Extent {
        Extent { forgotten: self.forgotten, last: self.forgotten + self.records.len() as u64 }
    }

    fn push(&mut self, at: Timestamp, data: String) -> u64 {
        let number = self.extent().last + 1;
        self.records.push_back(Record { number, at, data });
        number
    }

    /// Prunes records older than `before`, from the start.
    fn forget(&mut self, before: Timestamp, max: usize) -> usize {
        let old = self.records.iter().take(max).take_while(|it| it.at < before).count();
        self.records.drain(..old);
        self.forgotten += old as u64;
        old
    }
}

impl RecordTables {
    /// Removes what belongs to a session.
    pub(super) fn forget_session(&mut self, session: &SessionKey) {
        let is_other = |tenant: &Tenant, of: Option<&SessionId>| {
            *tenant != session.tenant || of != Some(&session.session)
        };
        self.streams.retain(|key, _| is_other(&key.tenant, key.session.as_ref()));
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

    fn extent(&self, stream: &StreamKey) -> Extent {
        self.streams.get(stream).map(Stream::extent).unwrap_or_default()
    }

    fn append(&mut self, record: NewRecord) -> u64 {
        self.streams.entry(record.stream).or_default().push(record.at, record.data)
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
        for (_, stream) in self.streams.iter_mut().filter(|(key, _)| key.kind == kind) {
            spare -= stream.forget(before, spare);
        }
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
    fn write(&mut self, mut writes: Writes) -> Result<Vec<u64>, StoreError> {
        let sessions = &self.sessions;
        let has = |tenant: &Tenant, session: Option<&SessionId>| is_there(sessions, tenant, session);
        writes.puts.retain(|it| has(&it.key.tenant, it.key.session.as_ref()));
        writes.creates.retain(|it| has(&it.key.tenant, it.key.session.as_ref()));
        self.records.check_creates(&writes)?;
        self.records.check_required(&writes)?;
        let records = &mut self.records;
        let mut append = |record: NewRecord| match has(&record.stream.tenant, record.stream.session.as_ref())
        {
            true => records.append(record),
            false => 0,
        };
        let numbers = writes.records.into_iter().map(&mut append).collect();
        writes.puts.into_iter().chain(writes.creates).for_each(|it| records.put(it));
        writes.deletes.iter().for_each(|it| records.delete(it));
        writes.drops.iter().for_each(|it| _ = records.streams.remove(it));
        Ok(numbers)
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

impl MemoryStore {
    async fn wait_for_growth(&self, stream: &StreamKey, after: u64) {
        // Subscribed before looking: what is written in between is not missed.
        let mut changes = self.changes.subscribe();
        let mut last = 0;
        loop {
            let now = self.lock().records.extent(stream).last;
            // A stream that became shorter was deleted with its session: waiting for its next record would never end.
            if now > after || now < last || changes.changed().await.is_err() {
                return;
            }
            last = now;
        }
    }
}

impl Records for MemoryStore {
    fn write(&self, writes: Writes) -> StoreFuture<'_, Vec<u64>> {
        Box::pin(async move {
            writes.check()?;
            let numbers = self.lock().write(writes)?;
            self.changes.send_replace(());
            Ok(numbers)
        })
    }

    fn read(&self, stream: StreamKey, after: u64, max: usize) -> StoreFuture<'_, Vec<Record>> {
        Box::pin(async move {
            let inner = self.lock();
            let Some(stream) = inner.records.streams.get(&stream) else { return Ok(Vec::new()) };
            let skip = usize::try_from(after.saturating_sub(stream.forgotten)).unwrap_or(usize::MAX);
            Ok(stream.records.iter().skip(skip).take(max).cloned().collect())
        })
    }

    fn read_back(&self, stream: StreamKey, before: Option<u64>, max: usize) -> StoreFuture<'_, Vec<Record>> {
        Box::pin(async move {
            let inner = self.lock();
            let Some(stream) = inner.records.streams.get(&stream) else { return Ok(Vec::new()) };
            let before = before.unwrap_or(u64::MAX);
            let newest = stream.records.iter().rev().skip_while(|it| it.number >= before);
            Ok(newest.take(max).cloned().collect())
        })
    }

    fn extent(&self, stream: StreamKey) -> StoreFuture<'_, Extent> {
        Box::pin(async move { Ok(self.lock().records.extent(&stream)) })
    }

    fn grown(&self, stream: StreamKey, after: u64) -> StoreFuture<'_, ()> {
        Box::pin(async move {
            self.wait_for_growth(&stream, after).await;
            Ok(())
        })
    }

    fn documents(&self, keys: Vec<DocumentKey>) -> StoreFuture<'_, Vec<Document>> {
        Box::pin(async move {
            let inner = self.lock();
            Ok(keys.iter().filter_map(|it| inner.records.document(it).cloned()).collect())
        })
    }

    fn list(&self, list: DocumentList) -> StoreFuture<'_, Vec<Document>> {
        Box::pin(async move { Ok(self.lock().records.list(&list)) })
    }

    fn prune(&self, kind: String, before: Timestamp, max: usize) -> StoreFuture<'_, u64> {
        Box::pin(async move { Ok(self.lock().records.prune(&kind, before, max) as u64) })
    }
}
