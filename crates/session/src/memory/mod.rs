//! A store in memory: for tests, and for conversations that need not survive.

mod records;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use contexture_history::{Item, Seq, Timestamp};
use tokio::sync::watch;

use crate::codec::{self, Row};
use crate::search::{self, Search, SearchHit};
use crate::store::{
    Append, Appended, Fence, Guard, Head, KeyedTurn, Lease, NewSession, NewThread, SessionInfo, Span, Store,
    StoreFuture, ThreadInfo, ThreadKind, Usage,
};
use crate::{BackwardScan, SessionId, SessionKey, State, StoreError, Tenant, ThreadKey, Time};
use crate::{LeaseRefusal, LeaseRow};

/// A store in memory. Clones share it.
///
/// It keeps every promise of [`Store`] except that nothing survives the process.
#[derive(Clone, Debug)]
pub struct MemoryStore {
    inner: Arc<Mutex<Inner>>,
    changes: Arc<watch::Sender<()>>,
    time: Arc<dyn Time>,
}

#[derive(Debug, Default)]
struct Inner {
    sessions: BTreeMap<SessionKey, SessionRow>,
    threads: BTreeMap<ThreadKey, Log>,
    records: records::RecordTables,
}

#[derive(Debug)]
struct SessionRow {
    label: Option<String>,
    created: Timestamp,
}

#[derive(Debug)]
struct Log {
    info: ThreadInfo,
    state: State,
    lease: LeaseRow,
    items: Vec<Item>,
    /// The ranges that can be searched.
    archived: Vec<(Seq, Seq)>,
    keys: BTreeMap<String, KeyedTurn>,
}

impl MemoryStore {
    /// Returns an empty store, whose leases end by `time`.
    pub fn new(time: Arc<dyn Time>) -> Self {
        Self { inner: Arc::default(), changes: Arc::new(watch::channel(()).0), time }
    }

    /// Returns a store with one thread that has a state but whose items live elsewhere.
    pub(crate) fn continuing(
        time: Arc<dyn Time>,
        session: &SessionId,
        key: &ThreadKey,
        state: &State,
    ) -> Self {
        let info = thread_info(session, ThreadKind::Isolated, key, None, state.updated);
        let store = Self::new(time);
        store.lock().threads.insert(key.clone(), Log::new(info, state.clone(), Vec::new()));
        store
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // Every change is made after its checks, in one go: a panic elsewhere leaves nothing half done.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn append_now(&self, key: &ThreadKey, append: Append) -> Result<Appended, StoreError> {
        append.check(key)?;
        let now = self.time.now();
        let mut inner = self.lock();
        let log = inner.log_mut(key)?;
        let lease = log.lease.admit(&append.guard, now).map_err(|it| refused(key, it))?;
        if log.state.end != append.expected {
            let (expected, found) = (append.expected, log.state.end);
            return Err(StoreError::Conflict { thread: key.thread.to_string(), expected, found });
        }
        let fence = lease.fence_of(&append.guard);
        log.lease = lease;
        log.archived.extend(search::archived_ranges(&append.items));
        log.items.extend(append.items);
        log.keys.extend(append.keys);
        log.set_state(append.state);
        let end = log.state.end;
        drop(inner);
        self.changes.send_replace(());
        Ok(Appended { end, fence })
    }

    fn lease_now(&self, key: &ThreadKey, guard: &Guard) -> Result<Option<Fence>, StoreError> {
        let now = self.time.now();
        let mut inner = self.lock();
        let log = inner.log_mut(key)?;
        log.lease = log.lease.admit(guard, now).map_err(|it| refused(key, it))?;
        Ok(log.lease.fence_of(guard))
    }

    async fn wait(&self, key: &ThreadKey, after: Seq) -> Result<(), StoreError> {
        // Subscribed before looking: what is appended in between is not missed.
        let mut changes = self.changes.subscribe();
        while self.lock().log(key)?.state.end <= after {
            if changes.changed().await.is_err() {
                break;
            }
        }
        Ok(())
    }
}

fn refused(key: &ThreadKey, refused: LeaseRefusal) -> StoreError {
    let thread = key.thread.to_string();
    match refused {
        LeaseRefusal::Held => StoreError::Held { thread },
        LeaseRefusal::Fenced(fence) => StoreError::Fenced { thread, fence },
    }
}

impl Inner {
    fn log(&self, key: &ThreadKey) -> Result<&Log, StoreError> {
        self.threads.get(key).ok_or_else(|| StoreError::no_thread(&key.thread))
    }

    fn log_mut(&mut self, key: &ThreadKey) -> Result<&mut Log, StoreError> {
        self.threads.get_mut(key).ok_or_else(|| StoreError::no_thread(&key.thread))
    }

    fn create_session(&mut self, session: NewSession) -> Result<(), StoreError> {
        let NewSession { key, label, at } = session;
        let main = key.main();
        if self.sessions.contains_key(&key) || self.threads.contains_key(&main) {
            return Err(StoreError::Exists { what: "session", id: key.session.to_string() });
        }
        let info = thread_info(&key.session, ThreadKind::Main, &main, label.clone(), at);
        self.threads.insert(main, Log::new(info, State::default(), Vec::new()));
        self.sessions.insert(key, SessionRow { label, created: at });
        Ok(())
    }

    fn create_thread(&mut self, thread: NewThread, items: Vec<Item>) -> Result<(), StoreError> {
        if !self.sessions.contains_key(&thread.session) {
            return Err(StoreError::NotFound { what: "session", id: thread.session.session.to_string() });
        }
        let key = thread.key();
        if self.threads.contains_key(&key) {
            return Err(StoreError::Exists { what: "thread", id: key.thread.to_string() });
        }
        let session = &thread.session.session;
        let mut info = thread_info(session, ThreadKind::Isolated, &key, thread.label, thread.at);
        info.base = thread.base;
        self.threads.insert(key, Log::new(info, thread.state, items));
        Ok(())
    }

    fn threads_of<'a>(&'a self, session: &'a SessionKey) -> impl Iterator<Item = (&'a ThreadKey, &'a Log)> {
        let is_of = |(key, log): &(&ThreadKey, &Log)| {
            key.tenant == session.tenant && log.info.session == session.session
        };
        self.threads.iter().filter(is_of)
    }

    fn session_info(&self, key: &SessionKey, row: &SessionRow) -> SessionInfo {
        let logs: Vec<&Log> = self.threads_of(key).map(|(_, log)| log).collect();
        SessionInfo {
            session: key.session.clone(),
            label: row.label.clone(),
            created: row.created,
            updated: logs.iter().map(|it| it.info.updated).max().unwrap_or(row.created),
            threads: logs.len() as u64,
            items: logs.iter().map(|it| it.info.items).sum(),
            turns: self.threads.get(&key.main()).map_or(0, |it| it.info.turns),
        }
    }

    fn rows(&self, tenant: &Tenant) -> Vec<Row> {
        let logs = self.threads.iter().filter(|(key, _)| key.tenant == *tenant);
        logs.filter_map(|(_, log)| codec::encode(&log.items).ok()).flatten().collect()
    }

    fn usage(&self, tenant: &Tenant) -> Usage {
        let logs: Vec<&Log> =
            self.threads.iter().filter(|(key, _)| key.tenant == *tenant).map(|it| it.1).collect();
        let blobs: BTreeMap<String, u64> = self
            .rows(tenant)
            .into_iter()
            .flat_map(|row| row.blobs)
            .map(|blob| (blob.place.hash, blob.text.len() as u64))
            .collect();
        Usage {
            sessions: self.sessions.keys().filter(|it| it.tenant == *tenant).count() as u64,
            threads: logs.len() as u64,
            items: logs.iter().map(|it| it.info.items).sum(),
            blobs: blobs.len() as u64,
            blob_bytes: blobs.values().sum(),
        }
    }
}

fn thread_info(
    session: &SessionId,
    kind: ThreadKind,
    key: &ThreadKey,
    label: Option<String>,
    at: Timestamp,
) -> ThreadInfo {
    ThreadInfo {
        thread: key.thread.clone(),
        session: session.clone(),
        kind,
        label,
        base: None,
        created: at,
        updated: at,
        items: 0,
        turns: 0,
    }
}

impl Log {
    fn new(info: ThreadInfo, state: State, items: Vec<Item>) -> Self {
        let archived = search::ranges_of(&state.archives);
        let (lease, keys) = (LeaseRow::default(), BTreeMap::new());
        let mut log = Log { info, state: State::default(), lease, items, archived, keys };
        log.set_state(state);
        log
    }

    fn set_state(&mut self, state: State) {
        self.info.items = state.end.0;
        self.info.turns = state.turn.0;
        self.info.updated = self.info.updated.max(state.updated);
        self.state = state;
    }

    fn read(&self, span: &Span) -> Vec<Item> {
        let Some(mut backward) = BackwardScan::new(span) else {
            let Span::After { seq, max } = span else { return Vec::new() };
            let first = self.items.partition_point(|it| it.seq <= *seq);
            return self.items[first..].iter().take(*max).cloned().collect();
        };
        for item in self.items.iter().rev() {
            if backward.is_done() {
                break;
            }
            backward.push(vec![item.clone()]);
        }
        backward.finish()
    }

    fn head(&self, now: Timestamp) -> Head {
        let live = self.lease.is_live(now);
        let lease = self.lease.owner.as_ref().map(|owner| Lease {
            owner: Arc::clone(owner),
            fence: self.lease.fence,
            live,
        });
        Head { info: self.info.clone(), state: self.state.clone(), lease }
    }
}

impl Store for MemoryStore {
    fn create_session(&self, session: NewSession) -> StoreFuture<'_, ()> {
        Box::pin(async move { self.lock().create_session(session) })
    }

    fn create_thread(&self, thread: NewThread) -> StoreFuture<'_, ()> {
        Box::pin(async move { self.lock().create_thread(thread, Vec::new()) })
    }

    fn fork(&self, from: ThreadKey, thread: NewThread) -> StoreFuture<'_, ()> {
        Box::pin(async move {
            if from.tenant != thread.session.tenant {
                return Err(StoreError::no_thread(&from.thread));
            }
            let mut inner = self.lock();
            let log = inner.log(&from)?;
            if thread.state.end > log.state.end {
                let detail =
                    format!("a copy up to {} of a log that ends at {}", thread.state.end, log.state.end);
                return Err(StoreError::Malformed { thread: from.thread.to_string(), detail });
            }
            let items = log.items.iter().take_while(|it| it.seq <= thread.state.end).cloned().collect();
            inner.create_thread(thread, items)
        })
    }

    fn append(&self, key: ThreadKey, append: Append) -> StoreFuture<'_, Appended> {
        Box::pin(async move { self.append_now(&key, append) })
    }

    fn lease(&self, key: ThreadKey, guard: Guard) -> StoreFuture<'_, Option<Fence>> {
        Box::pin(async move { self.lease_now(&key, &guard) })
    }

    fn head(&self, key: ThreadKey) -> StoreFuture<'_, Option<Head>> {
        Box::pin(async move {
            let now = self.time.now();
            Ok(self.lock().threads.get(&key).map(|it| it.head(now)))
        })
    }

    fn read(&self, key: ThreadKey, span: Span) -> StoreFuture<'_, Vec<Item>> {
        Box::pin(async move { Ok(self.lock().log(&key)?.read(&span)) })
    }

    fn search(&self, key: ThreadKey, search: Search) -> StoreFuture<'_, Vec<SearchHit>> {
        Box::pin(async move {
            let inner = self.lock();
            let log = inner.log(&key)?;
            Ok(search::scan(&log.items, &log.archived, &search))
        })
    }

    fn turn_with_key(&self, key: ThreadKey, idempotency_key: String) -> StoreFuture<'_, Option<KeyedTurn>> {
        Box::pin(async move { Ok(self.lock().log(&key)?.keys.get(&idempotency_key).copied()) })
    }

    fn changed(&self, key: ThreadKey, after: Seq) -> StoreFuture<'_, ()> {
        Box::pin(async move { self.wait(&key, after).await })
    }

    fn sessions(
        &self,
        tenant: Tenant,
        after: Option<SessionId>,
        max: usize,
    ) -> StoreFuture<'_, Vec<SessionInfo>> {
        Box::pin(async move {
            let inner = self.lock();
            let listed = inner.sessions.iter().filter(|(key, _)| {
                key.tenant == tenant && after.as_ref().is_none_or(|after| key.session > *after)
            });
            Ok(listed.take(max).map(|(key, row)| inner.session_info(key, row)).collect())
        })
    }

    fn threads(&self, session: SessionKey) -> StoreFuture<'_, Vec<ThreadInfo>> {
        Box::pin(async move {
            let inner = self.lock();
            let mut threads: Vec<ThreadInfo> =
                inner.threads_of(&session).map(|(_, log)| log.info.clone()).collect();
            threads.sort_by_key(|it| it.kind != ThreadKind::Main);
            Ok(threads)
        })
    }

    fn delete_session(&self, session: SessionKey) -> StoreFuture<'_, bool> {
        Box::pin(async move {
            let mut inner = self.lock();
            let gone: BTreeSet<ThreadKey> = inner.threads_of(&session).map(|(key, _)| key.clone()).collect();
            inner.threads.retain(|key, _| !gone.contains(key));
            inner.records.forget_session(&session);
            let there_was = inner.sessions.remove(&session).is_some();
            drop(inner);
            self.changes.send_replace(());
            Ok(there_was)
        })
    }

    fn delete_thread(&self, key: ThreadKey) -> StoreFuture<'_, bool> {
        Box::pin(async move {
            let mut inner = self.lock();
            match inner.threads.get(&key).map(|it| it.info.kind) {
                None => return Ok(false),
                Some(ThreadKind::Main) => {
                    return Err(StoreError::IsMain { thread: key.thread.to_string() });
                }
                Some(ThreadKind::Isolated) => inner.threads.remove(&key),
            };
            drop(inner);
            self.changes.send_replace(());
            Ok(true)
        })
    }

    fn blob(&self, tenant: Tenant, hash: String) -> StoreFuture<'_, Option<String>> {
        Box::pin(async move {
            let rows = self.lock().rows(&tenant);
            let mut blobs = rows.into_iter().flat_map(|it| it.blobs);
            Ok(blobs.find(|it| it.place.hash == hash).map(|it| it.text))
        })
    }

    fn usage(&self, tenant: Tenant) -> StoreFuture<'_, Usage> {
        Box::pin(async move { Ok(self.lock().usage(&tenant)) })
    }

    fn vacuum(&self) -> StoreFuture<'_, ()> {
        Box::pin(async { Ok(()) })
    }
}
