//! The store: threads that work on the file, and the contract on top of them.

mod records;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use contexture_history::{Item, Seq};
use contexture_session::search::{Search, SearchHit};
use contexture_session::{
    Append, Appended, Fence, Guard, Head, KeyedTurn, NewSession, NewThread, SessionId, SessionInfo,
    SessionKey, Span, Store, StoreError, StoreFuture, Tenant, ThreadInfo, ThreadKey, Time, Usage,
};
use rusqlite::Connection;

use crate::append::AppendItems;
use crate::delete::{DeleteSession, DeleteThread};
use crate::failure::StorePath;
use crate::file::checkpoint::Checkpoints;
use crate::file::identity::Identity;
use crate::file::open::{open_writer, probe_file};
use crate::file::readers::{Readers, Size};
use crate::file::writer::Writer;
use crate::fork::ForkThread;
use crate::guard::ChangeLease;
use crate::notices::watch;
use crate::waiters::Waiters;
use crate::{SqliteConfig, blobs, head, list, read, search};

/// Threads in one SQLite file. Clones share it.
///
/// An append is on disk before it returns. Several processes may use one file. It needs no runtime: small, quick
/// operations, which most are, run where they are polled; all others run on the store's own threads. These end, after
/// finishing the queue, when the last clone is dropped.
///
/// ```
/// # use std::sync::Arc;
/// # use contexture_session::conformance::SystemTime;
/// use contexture_session::{NewSession, SessionId, SessionKey, Store, Tenant};
/// use contexture_store_sqlite::{SqliteConfig, SqliteStore};
/// # use contexture_session::Time;
///
/// # let folder = tempfile::tempdir()?;
/// # let (path, time) = (folder.path().join("contexture.db"), SystemTime);
/// # futures::executor::block_on(async {
/// let store = SqliteStore::open(path, SqliteConfig::new(Arc::new(time)))?;
/// let key = SessionKey { tenant: Tenant::default(), session: SessionId::parse("support-1")? };
/// store.create_session(NewSession { key: key.clone(), label: None, at: time.now() }).await?;
/// assert_eq!(store.threads(key).await?.len(), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct SqliteStore {
    inner: Arc<Inner>,
}

struct Inner {
    /// `None` once the store is closing: the threads end when their queue is closed.
    writer: Option<Writer>,
    readers: Option<Readers>,
    waiters: Arc<Waiters>,
    place: StorePath,
    path: PathBuf,
    identity: Arc<Identity>,
    busy: Duration,
    time: Arc<dyn Time>,
    reading: Vec<JoinHandle<()>>,
    /// The one that writes, then the one that it asks for checkpoints.
    writing: Vec<JoinHandle<()>>,
}

impl SqliteStore {
    /// Opens a file, or makes it. Its folder must be there.
    ///
    /// A file that a newer version wrote is [`StoreError::Newer`], one of another program [`StoreError::Unavailable`];
    /// neither is touched.
    pub fn open(path: impl AsRef<Path>, config: SqliteConfig) -> Result<SqliteStore, StoreError> {
        let path = path.as_ref();
        let place = StorePath::new(path);
        let SqliteConfig { time, readers, busy, poll } = config;
        let mut conn = open_writer(path, &place, busy)?;
        let waiters = Arc::new(Waiters::default());
        let (checkpoints, copying) = Checkpoints::start(path, &place, busy, &mut conn)?;
        let (readers, mut reading) = Readers::start(path, &place, busy, readers)?;
        reading.push(watch(path, &place, busy, poll, &waiters)?);
        let identity = Arc::new(Identity::of(path));
        let (writer, writing) = Writer::start(
            conn,
            Arc::clone(&identity),
            place.clone(),
            busy,
            Arc::clone(&waiters),
            checkpoints,
        )
        .map_err(|err| place.unavailable(err))?;
        let inner = Inner {
            writer: Some(writer),
            readers: Some(readers),
            waiters,
            place,
            path: path.to_owned(),
            identity,
            busy,
            time,
            reading,
            writing: vec![writing, copying],
        };
        Ok(SqliteStore { inner: Arc::new(inner) })
    }

    pub(crate) fn writer(&self) -> Result<&Writer, StoreError> {
        self.inner.writer.as_ref().ok_or_else(|| self.inner.place.gone())
    }

    pub(crate) fn readers(&self) -> Result<&Readers, StoreError> {
        self.inner.readers.as_ref().ok_or_else(|| self.inner.place.gone())
    }

    /// Looks at the file as a program does that opens it now.
    pub(crate) async fn probe_file(&self) -> Result<(), StoreError> {
        let (path, place, busy) = (self.inner.path.clone(), self.inner.place.clone(), self.inner.busy);
        let identity = Arc::clone(&self.inner.identity);
        let query = move |_: &Connection| Ok(probe_file(&path, &identity, &place, busy)?);
        self.readers()?.ask(Size::Large, query).await
    }

    pub(crate) fn waiters(&self) -> &Arc<Waiters> {
        &self.inner.waiters
    }

    /// Returns the end of a thread.
    async fn end(&self, key: ThreadKey) -> Result<Seq, StoreError> {
        let query = move |conn: &Connection| {
            let found = head::end_of(conn, &key)?;
            found.map(|it| it.1).ok_or_else(|| StoreError::no_thread(&key.thread).into())
        };
        self.readers()?.ask(Size::Small, query).await
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        // One after the other: SQLite removes its log when the last connection closes, but not if two close
        // concurrently.
        self.readers = None;
        self.waiters.close();
        join(&mut self.reading);
        self.writer = None;
        join(&mut self.writing);
    }
}

fn join(threads: &mut Vec<JoinHandle<()>>) {
    let current = std::thread::current().id();
    for thread in threads.drain(..) {
        // The last clone may be dropped on one of these threads, by a waker.
        if thread.thread().id() != current {
            let _ = thread.join();
        }
    }
}

impl fmt::Debug for SqliteStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SqliteStore").field("path", &self.inner.path).finish_non_exhaustive()
    }
}

impl Store for SqliteStore {
    fn create_session(&self, session: NewSession) -> StoreFuture<'_, ()> {
        Box::pin(async move { self.writer()?.make(|| Ok(session)).await })
    }

    fn create_thread(&self, thread: NewThread) -> StoreFuture<'_, ()> {
        Box::pin(async move { self.writer()?.make(|| Ok(thread)).await })
    }

    fn fork(&self, from: ThreadKey, thread: NewThread) -> StoreFuture<'_, ()> {
        let place = self.inner.place.clone();
        Box::pin(async move { self.writer()?.make(|| Ok(ForkThread { from, thread, place })).await })
    }

    fn append(&self, key: ThreadKey, append: Append) -> StoreFuture<'_, Appended> {
        let (place, time) = (self.inner.place.clone(), Arc::clone(&self.inner.time));
        Box::pin(async move { self.writer()?.make(|| AppendItems::new(key, append, time, place)).await })
    }

    fn lease(&self, key: ThreadKey, guard: Guard) -> StoreFuture<'_, Option<Fence>> {
        let time = Arc::clone(&self.inner.time);
        Box::pin(async move { self.writer()?.make(|| Ok(ChangeLease { key, guard, time })).await })
    }

    fn head(&self, key: ThreadKey) -> StoreFuture<'_, Option<Head>> {
        let (place, time) = (self.inner.place.clone(), Arc::clone(&self.inner.time));
        let query = move |conn: &Connection| head::head(conn, &place, &key, time.now());
        Box::pin(async move { self.readers()?.ask(Size::Small, query).await })
    }

    fn read(&self, key: ThreadKey, span: Span) -> StoreFuture<'_, Vec<Item>> {
        let place = self.inner.place.clone();
        let size = read::size_of(&span);
        let query = move |conn: &Connection| read::read(conn, &place, &key, &span);
        Box::pin(async move { self.readers()?.ask(size, query).await })
    }

    fn search(&self, key: ThreadKey, search: Search) -> StoreFuture<'_, Vec<SearchHit>> {
        let place = self.inner.place.clone();
        let query = move |conn: &Connection| search::search(conn, &place, &key, &search);
        Box::pin(async move { self.readers()?.ask(Size::Large, query).await })
    }

    fn turn_with_key(&self, key: ThreadKey, idempotency_key: String) -> StoreFuture<'_, Option<KeyedTurn>> {
        let query = move |conn: &Connection| head::turn_with_key(conn, &key, &idempotency_key);
        Box::pin(async move { self.readers()?.ask(Size::Small, query).await })
    }

    fn changed(&self, key: ThreadKey, after: Seq) -> StoreFuture<'_, ()> {
        Box::pin(async move {
            // In the list before looking: what is appended in between is not missed.
            let wait = self.waiters().wait(key.clone().into(), after.0);
            if self.end(key).await? <= after {
                wait.notified().await;
            }
            Ok(())
        })
    }

    fn sessions(
        &self,
        tenant: Tenant,
        after: Option<SessionId>,
        max: usize,
    ) -> StoreFuture<'_, Vec<SessionInfo>> {
        let query = move |conn: &Connection| list::sessions(conn, &tenant, after.as_ref(), max);
        Box::pin(async move { self.readers()?.ask(Size::Large, query).await })
    }

    fn threads(&self, session: SessionKey) -> StoreFuture<'_, Vec<ThreadInfo>> {
        Box::pin(
            async move { self.readers()?.ask(Size::Large, move |conn| list::threads(conn, &session)).await },
        )
    }

    fn delete_session(&self, session: SessionKey) -> StoreFuture<'_, bool> {
        Box::pin(async move { self.writer()?.make(|| Ok(DeleteSession(session))).await })
    }

    fn delete_thread(&self, key: ThreadKey) -> StoreFuture<'_, bool> {
        Box::pin(async move { self.writer()?.make(|| Ok(DeleteThread(key))).await })
    }

    fn blob(&self, tenant: Tenant, hash: String) -> StoreFuture<'_, Option<String>> {
        let query = move |conn: &Connection| Ok(blobs::blob(conn, tenant.as_str(), &hash)?);
        Box::pin(async move { self.readers()?.ask(Size::Large, query).await })
    }

    fn usage(&self, tenant: Tenant) -> StoreFuture<'_, Usage> {
        Box::pin(
            async move { self.readers()?.ask(Size::Large, move |conn| list::usage(conn, &tenant)).await },
        )
    }

    fn vacuum(&self) -> StoreFuture<'_, ()> {
        Box::pin(async move { self.writer()?.vacuum().await })
    }
}
