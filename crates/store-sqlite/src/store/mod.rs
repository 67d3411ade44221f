//! The store: threads that work on the file, and the contract on top of them.

mod documents;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use contexture_history::{Item, Seq, Timestamp};
use contexture_session::search::{Search, SearchHit};
use contexture_session::{
    Append, Appended, DueKind, FeedItem, Fence, Guard, KeyedTurn, Log, LogHead, LogList, NewLog, NewSession,
    SessionId, SessionInfo, SessionKey, Span, Store, StoreError, StoreFuture, Tenant, ThreadId, ThreadInfo,
    ThreadKey, Time, UnfinishedText, Usage,
};
use rusqlite::Connection;

use crate::append::AppendItems;
use crate::create::CreateLog;
use crate::delete::{DeleteLog, DeleteSession};
use crate::failure::StorePath;
use crate::file::checkpoint::Checkpoints;
use crate::file::identity::Identity;
use crate::file::open::{open_writer, probe_file};
use crate::file::readers::{Readers, Size};
use crate::file::writer::Writer;
use crate::fork::ForkThread;
use crate::guard::ChangeLease;
use crate::journal::PruneJournals;
use crate::notices::{progress, watch};
use crate::unfinished::SaveText;
use crate::waiters::{Progress, Subject, Waiters};
use crate::{SqliteConfig, blobs, due, feed, head, list, logs, read, search, unfinished};

/// Reads of more items, logs or documents are left to the threads that read.
const SMALL: usize = 128;

fn size_of(count: usize) -> Size {
    if count <= SMALL { Size::Small } else { Size::Large }
}

/// Sessions in one SQLite file. Clones share it.
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

    /// Waits until a subject may be further than a waiter has read.
    async fn wait(
        &self,
        subject: Subject,
        is_news: impl FnOnce(Progress) -> Result<bool, StoreError>,
    ) -> Result<(), StoreError> {
        // In the list before looking: what is written in between is not missed.
        let wait = self.inner.waiters.wait(subject.clone());
        let query = move |conn: &Connection| Ok(progress(conn, &subject)?);
        let progress = self.readers()?.ask(Size::Small, query).await?;
        if !is_news(progress)? {
            wait.notified(progress).await;
        }
        Ok(())
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

impl Log for SqliteStore {
    fn append(&self, key: ThreadKey, append: Append) -> StoreFuture<'_, Appended> {
        let (place, time) = (self.inner.place.clone(), Arc::clone(&self.inner.time));
        Box::pin(async move { self.writer()?.make(|| AppendItems::new(key, append, time, place)).await })
    }

    fn lease(&self, key: ThreadKey, guard: Guard) -> StoreFuture<'_, Option<Fence>> {
        let time = Arc::clone(&self.inner.time);
        Box::pin(async move { self.writer()?.make(|| Ok(ChangeLease { key, guard, time })).await })
    }

    fn head(&self, key: ThreadKey) -> StoreFuture<'_, Option<LogHead>> {
        let time = Arc::clone(&self.inner.time);
        let query = move |conn: &Connection| head::head(conn, &key, time.now());
        Box::pin(async move { self.readers()?.ask(Size::Small, query).await })
    }

    fn read(&self, key: ThreadKey, span: Span) -> StoreFuture<'_, Vec<Item>> {
        let place = self.inner.place.clone();
        let size = read::size_of(&span);
        let query = move |conn: &Connection| read::read(conn, &place, &key, &span);
        Box::pin(async move { self.readers()?.ask(size, query).await })
    }

    fn turn_with_key(&self, key: ThreadKey, idempotency_key: String) -> StoreFuture<'_, Option<KeyedTurn>> {
        let query = move |conn: &Connection| head::turn_with_key(conn, &key, &idempotency_key);
        Box::pin(async move { self.readers()?.ask(Size::Small, query).await })
    }

    fn changed(&self, key: ThreadKey, after: Seq) -> StoreFuture<'_, ()> {
        Box::pin(async move {
            let missing = StoreError::no_thread(&key.thread);
            let is_news = |progress: Progress| match progress {
                Progress::Log(end) => Ok(end > after),
                _ => Err(missing),
            };
            self.wait(Subject::Log(key), is_news).await
        })
    }

    fn save(&self, key: ThreadKey, fence: Fence, text: UnfinishedText) -> StoreFuture<'_, ()> {
        Box::pin(async move { self.writer()?.make(|| SaveText::new(key, fence, &text)).await })
    }

    fn saved(&self, session: SessionKey) -> StoreFuture<'_, Vec<(ThreadId, UnfinishedText)>> {
        let place = self.inner.place.clone();
        let query = move |conn: &Connection| unfinished::saved(conn, &place, &session);
        Box::pin(async move { self.readers()?.ask(Size::Small, query).await })
    }

    fn feed(&self, session: SessionKey, after: u64, max: usize) -> StoreFuture<'_, Vec<FeedItem>> {
        let place = self.inner.place.clone();
        let query = move |conn: &Connection| feed::feed(conn, &place, &session, after, max);
        Box::pin(async move { self.readers()?.ask(size_of(max), query).await })
    }

    fn number_at(&self, key: ThreadKey, seq: Seq) -> StoreFuture<'_, Option<u64>> {
        let query = move |conn: &Connection| Ok(feed::number_at(conn, &key, seq)?);
        Box::pin(async move { self.readers()?.ask(Size::Small, query).await })
    }

    fn feed_end(&self, session: SessionKey) -> StoreFuture<'_, u64> {
        let query = move |conn: &Connection| Ok(feed::feed_state(conn, &session)?.map_or(0, |it| it.end));
        Box::pin(async move { self.readers()?.ask(Size::Small, query).await })
    }

    fn feed_changed(&self, session: SessionKey, after: u64) -> StoreFuture<'_, ()> {
        let is_news =
            move |progress: Progress| Ok(matches!(progress, Progress::Feed(state) if state.end > after));
        Box::pin(async move { self.wait(Subject::Feed(session), is_news).await })
    }

    fn due(&self, kind: DueKind, after: Option<ThreadKey>, max: usize) -> StoreFuture<'_, Vec<ThreadKey>> {
        let time = Arc::clone(&self.inner.time);
        let query = move |conn: &Connection| due::due(conn, kind, after.as_ref(), time.now(), max);
        Box::pin(async move { self.readers()?.ask(size_of(max), query).await })
    }
}

impl Store for SqliteStore {
    fn create_session(&self, session: NewSession) -> StoreFuture<'_, ()> {
        Box::pin(async move { self.writer()?.make(|| Ok(session)).await })
    }

    fn create_log(&self, log: NewLog) -> StoreFuture<'_, ()> {
        let place = self.inner.place.clone();
        Box::pin(async move { self.writer()?.make(|| CreateLog::new(log, place)).await })
    }

    fn fork(&self, from: ThreadKey, log: NewLog) -> StoreFuture<'_, ()> {
        let place = self.inner.place.clone();
        Box::pin(async move { self.writer()?.make(|| Ok(ForkThread { from, log, place })).await })
    }

    fn log_with_start_key(&self, tenant: Tenant, start_key: String) -> StoreFuture<'_, Option<ThreadKey>> {
        let query = move |conn: &Connection| logs::log_with_start_key(conn, &tenant, &start_key);
        Box::pin(async move { self.readers()?.ask(Size::Small, query).await })
    }

    fn logs(&self, list: LogList) -> StoreFuture<'_, Vec<LogHead>> {
        let time = Arc::clone(&self.inner.time);
        let size = size_of(list.max);
        let query = move |conn: &Connection| logs::logs(conn, &list, time.now());
        Box::pin(async move { self.readers()?.ask(size, query).await })
    }

    fn prune_journals(&self, name: String, before: Timestamp, max: usize) -> StoreFuture<'_, u64> {
        Box::pin(async move { self.writer()?.make(|| Ok(PruneJournals { name, before, max })).await })
    }

    fn search(&self, key: ThreadKey, search: Search) -> StoreFuture<'_, Vec<SearchHit>> {
        let place = self.inner.place.clone();
        let query = move |conn: &Connection| search::search(conn, &place, &key, &search);
        Box::pin(async move { self.readers()?.ask(Size::Large, query).await })
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
        let query = move |conn: &Connection| list::threads(conn, &session);
        Box::pin(async move { self.readers()?.ask(Size::Large, query).await })
    }

    fn delete_session(&self, session: SessionKey) -> StoreFuture<'_, bool> {
        Box::pin(async move { self.writer()?.make(|| Ok(DeleteSession(session))).await })
    }

    fn delete_log(&self, key: ThreadKey) -> StoreFuture<'_, bool> {
        Box::pin(async move { self.writer()?.make(|| Ok(DeleteLog(key))).await })
    }

    fn blob(&self, tenant: Tenant, hash: String) -> StoreFuture<'_, Option<String>> {
        let query = move |conn: &Connection| Ok(blobs::blob(conn, tenant.as_str(), &hash)?);
        Box::pin(async move { self.readers()?.ask(Size::Large, query).await })
    }

    fn usage(&self, tenant: Tenant) -> StoreFuture<'_, Usage> {
        let query = move |conn: &Connection| list::usage(conn, &tenant);
        Box::pin(async move { self.readers()?.ask(Size::Large, query).await })
    }

    fn vacuum(&self) -> StoreFuture<'_, ()> {
        Box::pin(async move { self.writer()?.vacuum().await })
    }
}
