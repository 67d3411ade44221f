//! A process that dies at a chosen moment: a store that is cut off from it, and models and tools that never answer.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use contexture_history::{Item, Seq, Timestamp};
use contexture_session::{
    Append, Appended, Document, DocumentKey, DocumentList, Extent, Fence, Guard, Head, KeyedTurn, NewSession,
    NewThread, Record, Records, Search, SearchHit, SessionId, SessionInfo, SessionKey, Span, Store,
    StoreError, StoreFuture, StreamKey, Tenant, ThreadInfo, ThreadKey, Usage, Writes,
};
use futures::future::pending;
use tokio::sync::watch;

/// What becomes of the write at which a process dies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Last {
    /// It is not made.
    Lost,
    /// It is made, and nobody hears of it.
    Made,
    /// It is not made; the process is told that the store is away, and lives.
    Refused,
    /// It is made; the process is told that the store is away, and lives.
    Unsure,
}

impl Last {
    fn is_death(self) -> bool {
        matches!(self, Last::Lost | Last::Made)
    }
}

/// Counts what a process does to the world outside, and ends it at the k-th such step. Clones are the same fuse.
#[derive(Clone)]
pub(crate) struct Fuse {
    left: Arc<AtomicU64>,
    last: Last,
    dead: Arc<watch::Sender<bool>>,
    /// What was done, for messages of tests.
    steps: Arc<Mutex<Vec<String>>>,
}

impl fmt::Debug for Fuse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Fuse")
    }
}

impl Default for Fuse {
    /// A fuse that never blows.
    fn default() -> Self {
        Self::at(u64::MAX, Last::Lost)
    }
}

impl Fuse {
    /// Returns a fuse that blows at the k-th step, from 1.
    pub(crate) fn at(k: u64, last: Last) -> Self {
        let (left, dead) = (Arc::new(AtomicU64::new(k)), Arc::new(watch::Sender::new(false)));
        Self { left, last, dead, steps: Arc::default() }
    }

    /// Returns what was done so far.
    pub(crate) fn steps(&self) -> Vec<String> {
        self.steps.lock().unwrap().clone()
    }

    /// Waits until the process is dead.
    pub(crate) async fn blown(&self) {
        self.dead.subscribe().wait_for(|it| *it).await.unwrap();
    }

    /// Does something that no other process notices. A dead process never gets an answer.
    async fn look<T>(&self, does: impl Future<Output = T>) -> T {
        let done = if *self.dead.borrow() { pending().await } else { does.await };
        if *self.dead.borrow() { pending().await } else { done }
    }

    /// Does something that others notice, if the process lives to do it.
    pub(crate) async fn step<T>(&self, name: &str, does: impl Future<Output = T>) -> T {
        if *self.dead.borrow() {
            return pending().await;
        }
        let is_last = self.burns(name);
        if !is_last || !self.last.is_death() {
            return self.look(does).await;
        }
        if self.last == Last::Made {
            does.await;
        }
        self.dead.send_replace(true);
        pending().await
    }

    /// Takes note of a step, and says whether it is the chosen one.
    fn burns(&self, name: &str) -> bool {
        self.steps.lock().unwrap().push(name.to_owned());
        self.left.fetch_sub(1, Ordering::Relaxed) == 1
    }

    /// Changes something in the store, if it is there.
    async fn store<T>(
        &self,
        name: &str,
        does: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        if self.last.is_death() {
            return self.step(name, does).await;
        }
        let is_last = self.burns(name);
        if is_last && self.last == Last::Refused {
            return Err(away());
        }
        let done = does.await;
        if is_last { Err(away()) } else { done }
    }
}

fn away() -> StoreError {
    StoreError::Unavailable { place: "the store".to_owned(), detail: "it is away".to_owned() }
}

/// A store as a process sees it that has a fuse.
#[derive(Clone, Debug)]
pub(crate) struct Cut<S> {
    pub(crate) store: Arc<S>,
    pub(crate) fuse: Fuse,
}

impl<S: Store> Cut<S> {
    fn look<'a, T: Send + 'a>(
        &'a self,
        does: impl Future<Output = Result<T, StoreError>> + Send + 'a,
    ) -> StoreFuture<'a, T> {
        Box::pin(self.fuse.look(does))
    }

    fn step<'a, T: Send + 'a>(
        &'a self,
        name: &'static str,
        does: impl Future<Output = Result<T, StoreError>> + Send + 'a,
    ) -> StoreFuture<'a, T> {
        Box::pin(self.fuse.store(name, does))
    }
}

impl<S: Store> Store for Cut<S> {
    fn create_session(&self, session: NewSession) -> StoreFuture<'_, ()> {
        self.step("create session", self.store.create_session(session))
    }

    fn create_thread(&self, thread: NewThread) -> StoreFuture<'_, ()> {
        self.step("create thread", self.store.create_thread(thread))
    }

    fn fork(&self, from: ThreadKey, thread: NewThread) -> StoreFuture<'_, ()> {
        self.step("fork", self.store.fork(from, thread))
    }

    fn append(&self, key: ThreadKey, append: Append) -> StoreFuture<'_, Appended> {
        self.step("append", self.store.append(key, append))
    }

    fn lease(&self, key: ThreadKey, guard: Guard) -> StoreFuture<'_, Option<Fence>> {
        self.step("lease", self.store.lease(key, guard))
    }

    fn head(&self, key: ThreadKey) -> StoreFuture<'_, Option<Head>> {
        self.look(self.store.head(key))
    }

    fn read(&self, key: ThreadKey, span: Span) -> StoreFuture<'_, Vec<Item>> {
        self.look(Store::read(&*self.store, key, span))
    }

    fn search(&self, key: ThreadKey, search: Search) -> StoreFuture<'_, Vec<SearchHit>> {
        self.look(self.store.search(key, search))
    }

    fn turn_with_key(&self, key: ThreadKey, idempotency_key: String) -> StoreFuture<'_, Option<KeyedTurn>> {
        self.look(self.store.turn_with_key(key, idempotency_key))
    }

    fn changed(&self, key: ThreadKey, after: Seq) -> StoreFuture<'_, ()> {
        self.look(self.store.changed(key, after))
    }

    fn sessions(
        &self,
        tenant: Tenant,
        after: Option<SessionId>,
        max: usize,
    ) -> StoreFuture<'_, Vec<SessionInfo>> {
        self.look(self.store.sessions(tenant, after, max))
    }

    fn threads(&self, session: SessionKey) -> StoreFuture<'_, Vec<ThreadInfo>> {
        self.look(self.store.threads(session))
    }

    fn delete_session(&self, session: SessionKey) -> StoreFuture<'_, bool> {
        self.step("delete session", self.store.delete_session(session))
    }

    fn delete_thread(&self, key: ThreadKey) -> StoreFuture<'_, bool> {
        self.step("delete thread", self.store.delete_thread(key))
    }

    fn blob(&self, tenant: Tenant, hash: String) -> StoreFuture<'_, Option<String>> {
        self.look(self.store.blob(tenant, hash))
    }

    fn usage(&self, tenant: Tenant) -> StoreFuture<'_, Usage> {
        self.look(self.store.usage(tenant))
    }

    fn vacuum(&self) -> StoreFuture<'_, ()> {
        self.look(self.store.vacuum())
    }
}

impl<S: Store + Records> Records for Cut<S> {
    fn write(&self, writes: Writes) -> StoreFuture<'_, Vec<u64>> {
        self.step("write", self.store.write(writes))
    }

    fn read(&self, stream: StreamKey, after: u64, max: usize) -> StoreFuture<'_, Vec<Record>> {
        self.look(Records::read(&*self.store, stream, after, max))
    }

    fn read_back(&self, stream: StreamKey, before: Option<u64>, max: usize) -> StoreFuture<'_, Vec<Record>> {
        self.look(self.store.read_back(stream, before, max))
    }

    fn extent(&self, stream: StreamKey) -> StoreFuture<'_, Extent> {
        self.look(self.store.extent(stream))
    }

    fn grown(&self, stream: StreamKey, after: u64) -> StoreFuture<'_, ()> {
        self.look(self.store.grown(stream, after))
    }

    fn documents(&self, keys: Vec<DocumentKey>) -> StoreFuture<'_, Vec<Document>> {
        self.look(self.store.documents(keys))
    }

    fn list(&self, list: DocumentList) -> StoreFuture<'_, Vec<Document>> {
        self.look(self.store.list(list))
    }

    fn prune(&self, kind: String, before: Timestamp, max: usize) -> StoreFuture<'_, u64> {
        self.step("prune", self.store.prune(kind, before, max))
    }
}
