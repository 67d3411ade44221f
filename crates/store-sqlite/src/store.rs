//! The store: threads that work on the file, and the contract on top of them.

use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;

use contexture_history::{Item, Seq, Timestamp};
use contexture_session::documents::{Document, DocumentKey, Documents};
use contexture_session::rank::RankQuery;
use contexture_session::search::{Search, SearchHit};
use contexture_session::sources::{
    BaseHits, BaseInfo, BaseSettings, ChunkNo, ChunkSelection, ChunkVector, SourceChange, SourceIndex,
    SourceInfo, SourcesChanged, StoredChunk,
};
use contexture_session::{
    Append, Appended, BaseId, BaseKey, DueKind, FeedItem, Fence, Guard, KeyedTurn, Log, LogHead, LogList,
    NewLog, SessionId, SessionInfo, SessionKey, SourceId, Span, Store, StoreError, StoreFuture, Tenant,
    ThreadId, ThreadKey, UnfinishedText, Usage, check_rewrite,
};
use rusqlite::Connection;

use crate::append::AppendItems;
use crate::config::Context;
use crate::failure::StorePath;
use crate::file::checkpoint::Checkpoints;
use crate::file::commit::Change;
use crate::file::identity::Identity;
use crate::file::open::{open_writer, probe_file};
use crate::file::readers::{Readers, Size};
use crate::file::writer::Writer;
use crate::notices::watch;
use crate::sources::base::BaseRows;
use crate::waiters::Waiters;
use crate::{
    SqliteConfig, archive, create, delete, documents, due, feed, fork, guard, head, journal, list, logs,
    read, rewrite, search, sources, unfinished,
};

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
#[derive(Clone, Debug)]
pub struct SqliteStore {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    /// `None` once the store is closing: the threads end when their queue is closed.
    writer: Option<Writer>,
    readers: Option<Readers>,
    waiters: Arc<Waiters>,
    cx: Context,
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
        let SqliteConfig { time, readers, busy, poll } = config;
        let place = StorePath::new(path.as_ref(), busy);
        let mut conn = open_writer(&place)?;
        archive::refresh(&mut conn, &place).map_err(|err| place.failure(err))?;
        let waiters = Arc::new(Waiters::default());
        let (checkpoints, copying) = Checkpoints::start(&place, &mut conn)?;
        let identity = Arc::new(Identity::of(&place.path));
        let (writer, writing) =
            Writer::start(conn, Arc::clone(&identity), place.clone(), Arc::clone(&waiters), checkpoints)?;
        let (readers, mut reading) = Readers::start(&place, readers, writer.file())?;
        reading.push(watch(&place, poll, &waiters, &writer)?);
        let (writer, readers, writing) = (Some(writer), Some(readers), vec![writing, copying]);
        let cx = Context { place, identity, searches: Arc::default(), time };
        let inner = Inner { writer, readers, waiters, cx, reading, writing };
        Ok(SqliteStore { inner: Arc::new(inner) })
    }

    pub(crate) fn writer(&self) -> Result<&Writer, StoreError> {
        self.inner.writer.as_ref().ok_or_else(|| self.inner.cx.place.gone())
    }

    pub(crate) fn readers(&self) -> Result<&Readers, StoreError> {
        self.inner.readers.as_ref().ok_or_else(|| self.inner.cx.place.gone())
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

/// Makes methods that ask a question of the file.
macro_rules! reads {
    ($cx:ident, $conn:ident; $($name:ident($($arg:ident: $of:ty),*) -> $result:ty, $size:expr, $query:expr;)*) => {
        $(
            fn $name(&self, $($arg: $of),*) -> StoreFuture<'_, $result> {
                let ($cx, size) = (self.inner.cx.clone(), $size);
                let query = move |$conn: &Connection| {
                    let _ = &$cx;
                    $query
                };
                Box::pin(async move { self.readers()?.ask(size, query).await })
            }
        )*
    };
}

/// Makes methods that change the file.
macro_rules! writes {
    ($cx:ident; $($name:ident($($arg:ident: $of:ty),*) -> $result:ty, $change:expr;)*) => {
        $(
            fn $name(&self, $($arg: $of),*) -> StoreFuture<'_, $result> {
                let $cx = self.inner.cx.clone();
                Box::pin(async move {
                    let prepare = || {
                        let _ = &$cx;
                        $change
                    };
                    self.writer()?.make(prepare).await
                })
            }
        )*
    };
}

impl Log for SqliteStore {
    writes! { cx;
        append(key: ThreadKey, append: Append) -> Appended, AppendItems::change(key, append, cx);
        lease(key: ThreadKey, guard: Guard) -> Option<Fence>,
            {
                let make = move |conn: &Connection| guard::change_lease(conn, &key, &guard, cx.time.now());
                Ok(Change { is_small: true, ..Change::new(make) })
            };
        save(key: ThreadKey, fence: Fence, text: UnfinishedText) -> (), unfinished::save(key, fence, text);
    }

    reads! { cx, conn;
        head(key: ThreadKey) -> Option<LogHead>, Size::Single, head::head(conn, &key, cx.time.now());
        read(key: ThreadKey, span: Span) -> Vec<Item>, read::size_of(&span),
            read::read(conn, &cx.place, &key, &span);
        turn_with_key(key: ThreadKey, idempotency_key: String) -> Option<KeyedTurn>, Size::Small,
            head::turn_with_key(conn, &key, &idempotency_key);
        saved(session: SessionKey) -> Vec<(ThreadId, UnfinishedText)>, Size::Single,
            unfinished::saved(conn, &cx.place, &session);
        feed(session: SessionKey, after: u64, max: usize) -> Vec<FeedItem>, size_of(max),
            feed::feed(conn, &cx.place, &session, after, max);
        number_at(key: ThreadKey, seq: Seq) -> Option<u64>, Size::Single, Ok(feed::number_at(conn, &key, seq)?);
        feed_end(session: SessionKey) -> u64, Size::Single,
            Ok(feed::feed_end(conn, &session)?.map_or(0, |(_, end)| end));
    }

    fn due(&self, kind: DueKind, after: Option<ThreadKey>, max: usize) -> StoreFuture<'_, Vec<ThreadKey>> {
        let now = self.inner.cx.time.now();
        let find = move |conn: &Connection| {
            // A look at the whole list: only with the first page.
            let has_resting = after.is_none() && due::has_resting(conn, now)?;
            Ok((due::due(conn, kind, after.as_ref(), now, max)?, has_resting))
        };
        Box::pin(async move {
            let (found, mut has_resting) = self.readers()?.ask(Size::Large, find).await?;
            while has_resting {
                let unlist = move |conn: &Connection| due::unlist(conn, now);
                let change = || Ok(Change { is_lazy: true, ..Change::new(unlist) });
                // A list that stays too long costs time, and nothing else.
                let n_unlisted = self.writer()?.make(change).await.unwrap_or(0);
                has_resting = n_unlisted == due::UNLISTED_AT_ONCE;
            }
            Ok(found)
        })
    }

    fn feed_changed(&self, session: SessionKey, after: u64) -> StoreFuture<'_, Arc<[FeedItem]>> {
        Box::pin(async move {
            // In the list before looking: what is written in between is not missed.
            let (seen, woken) = self.inner.waiters.wait(session.clone());
            let missing = StoreError::no_session(&session.session);
            let query = move |conn: &Connection| Ok(feed::feed_state(conn, &session)?);
            let state = self.readers()?.ask(Size::Single, query).await?.ok_or(missing)?;
            if state.end > after {
                return Ok(Arc::default());
            }
            // Commits of other processes are compared with it. A waiter that was dropped is woken, with nothing.
            let _ = seen.set(state);
            Ok(woken.await.unwrap_or_default())
        })
    }
}

impl Store for SqliteStore {
    writes! { cx;
        create_log(log: NewLog) -> (), create::create_log(log, cx.place);
        fork(from: ThreadKey, log: NewLog) -> (),
            Ok(Change::new(move |conn| fork::fork(conn, &cx.place, &from, &log)));
        prune_journals(name: String, before: Timestamp, max: usize) -> u64,
            Ok(Change::new(move |conn| journal::prune_journals(conn, &name, before, max)));
        delete_session(session: SessionKey) -> bool, {
            let main = session.main();
            Ok(Change { touched: Some(main), ..Change::new(move |conn| delete::delete_session(conn, &session)) })
        };
        delete_log(key: ThreadKey) -> bool, {
            let log = key.clone();
            Ok(Change { touched: Some(log), ..Change::new(move |conn| delete::delete_log(conn, &key)) })
        };
        rewrite(key: ThreadKey, items: Vec<Item>) -> (), {
            check_rewrite(&key, &items)?;
            Ok(Change::new(move |conn| rewrite::rewrite(conn, &cx.place, &key, &items)))
        };
    }

    reads! { cx, conn;
        log_with_start_key(tenant: Tenant, start_key: String) -> Option<ThreadKey>, Size::Small,
            logs::log_with_start_key(conn, &tenant, &start_key);
        logs(list: LogList) -> Vec<LogHead>, size_of(list.max), logs::logs(conn, &list, cx.time.now());
        sessions(tenant: Tenant, after: Option<SessionId>, max: usize) -> Vec<SessionInfo>, Size::Large,
            list::sessions(conn, &tenant, after.as_ref(), max);
        usage(tenant: Tenant) -> Usage, Size::Large, list::usage(conn, &tenant);
        search(key: ThreadKey, search: Search) -> Vec<SearchHit>, Size::Large,
            search::search(conn, &cx.place, &cx.searches.analyzers, &key, &search);
    }

    fn vacuum(&self) -> StoreFuture<'_, ()> {
        Box::pin(async move { self.writer()?.vacuum().await })
    }
}

impl Documents for SqliteStore {
    writes! { cx;
        put(document: Document) -> (), documents::write(document, false);
        create(document: Document) -> (), documents::write(document, true);
        delete(key: DocumentKey) -> (), Ok(Change::new(move |conn| documents::delete(conn, &key)));
        prune(kind: String, before: Timestamp, max: usize) -> u64,
            Ok(Change::new(move |conn| documents::prune(conn, &kind, before, max)));
    }

    reads! { cx, conn;
        document(key: DocumentKey) -> Option<Document>, Size::Single, documents::document(conn, &key);
        list(kind: String, after: Option<DocumentKey>, max: usize) -> Vec<Document>, size_of(max),
            documents::list(conn, &kind, after.as_ref(), max);
    }

    fn probe(&self, at: Timestamp) -> StoreFuture<'_, ()> {
        Box::pin(async move {
            // First: a file that is not well is left alone.
            // As a program does that opens the file now.
            let cx = self.inner.cx.clone();
            self.readers()?.ask(Size::Large, move |_| probe_file(&cx.identity, &cx.place)).await?;
            self.put(Document::probe(at)).await
        })
    }
}

impl SourceIndex for SqliteStore {
    writes! { cx;
        put_base(key: BaseKey, settings: BaseSettings, at: Timestamp) -> BaseInfo,
            Ok(Change::new(move |conn| sources::base::put_base(conn, &key, &settings, at)));
        delete_base(key: BaseKey) -> bool,
            Ok(Change::new(move |conn| sources::base::delete_base(conn, &key)));
        change_sources(key: BaseKey, change: SourceChange) -> SourcesChanged,
            Ok(Change::new(move |conn| BaseRows::existing(conn, &key)?.change_sources(&change)));
        put_vectors(key: BaseKey, model: String, vectors: Vec<ChunkVector>) -> (),
            Ok(Change::new(move |conn| BaseRows::existing(conn, &key)?.put_vectors(&model, &vectors)));
    }

    reads! { cx, conn;
        base(key: BaseKey) -> Option<BaseInfo>, Size::Small,
            Ok(BaseRows::find(conn, &key)?.map(|it| it.info));
        bases(tenant: Tenant, after: Option<BaseId>, max: usize) -> Vec<BaseInfo>, size_of(max),
            sources::base::list(conn, &tenant, after.as_ref(), max);
        sources(key: BaseKey, after: Option<SourceId>, max: usize) -> Vec<SourceInfo>, size_of(max),
            BaseRows::existing(conn, &key)?.sources(after.as_ref(), max);
        sources_with(key: BaseKey, ids: Vec<SourceId>) -> Vec<SourceInfo>, size_of(ids.len()),
            BaseRows::existing(conn, &key)?.sources_with(&ids);
        chunks(key: BaseKey, selection: ChunkSelection) -> Vec<StoredChunk>, Size::Large,
            BaseRows::existing(conn, &key)?.select(&selection);
        without_vector(key: BaseKey, model: String, after: ChunkNo, max: usize) -> Vec<StoredChunk>, Size::Large,
            BaseRows::existing(conn, &key)?.without_vector(&model, after, max);
        vectors(key: BaseKey, model: String, after: ChunkNo, max: usize) -> Vec<ChunkVector>, Size::Large,
            BaseRows::existing(conn, &key)?.vectors(&model, after, max);
        search_base(key: BaseKey, query: RankQuery, max: usize) -> BaseHits, Size::Large,
            sources::search::search_base(&BaseRows::existing(conn, &key)?, &cx.searches, &query, max);
    }

    fn erase_removed(&self) -> StoreFuture<'_, ()> {
        self.vacuum()
    }
}
