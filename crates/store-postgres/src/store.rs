//! The store: each operation is in the module of its name.

use std::panic::resume_unwind;
use std::sync::Arc;

use contexture_history::{Item, Seq, Timestamp};
use contexture_session::documents::{Document, DocumentKey, Documents};
use contexture_session::rank::RankQuery;
use contexture_session::sources::{
    BaseHits, BaseInfo, BaseSettings, ChunkNo, ChunkSelection, ChunkVector, SourceChange, SourceIndex,
    SourceInfo, SourcesChanged, StoredChunk,
};
use contexture_session::{
    Append, Appended, BaseId, BaseKey, DueKind, FeedItem, Fence, Guard, KeyedTurn, Log, LogHead, LogList,
    NewLog, Search, SearchHit, SessionId, SessionInfo, SessionKey, SourceId, Span, Store, StoreError,
    StoreFuture, Tenant, ThreadId, ThreadKey, UnfinishedText, Usage,
};
use tokio::runtime::Handle;
use tokio::task::{JoinError, JoinHandle};

use crate::PostgresConfig;
use crate::database::Database;
use crate::failure::{Failure, unavailable};
use crate::migrate::migrate;
use crate::notices::Notices;

/// Sessions in PostgreSQL: their threads, runs and journals. Clones share its connections.
///
/// ```no_run
/// use contexture_session::{Store, Tenant};
/// use contexture_store_postgres::{PostgresConfig, PostgresStore};
///
/// # async fn example() -> Result<(), contexture_session::StoreError> {
/// let url = "postgres://contexture:secret@db.example.com/contexture?sslmode=require";
/// let store = PostgresStore::connect(url, PostgresConfig::default()).await?;
/// println!("{:?}", store.usage(Tenant::default()).await?);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct PostgresStore {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    database: Arc<Database>,
    notices: Arc<Notices>,
    listener: Option<JoinHandle<()>>,
    /// Runs the operations. The connections are read by its tasks: an operation on another runtime would wake its
    /// threads for every statement.
    runtime: Handle,
}

impl Drop for Inner {
    fn drop(&mut self) {
        if let Some(listener) = &self.listener {
            listener.abort();
        }
    }
}

impl PostgresStore {
    /// Connects to a database, whose tables are created or brought up to date if need be.
    ///
    /// The URL is PostgreSQL's, such as `postgres://user:password@host:5432/database?sslmode=require`. With
    /// `sslmode=require` the server's certificate must be valid for its name; `prefer`, the default, encrypts if the
    /// server supports it and does not verify the server; `disable` does not encrypt.
    ///
    /// A server that is starting is waited for; an unreachable one is an error immediately. Tables of a newer version
    /// are [`StoreError::Newer`], and nothing is written. Neither errors nor logs show the password.
    ///
    /// The store works as long as the runtime that it was connected on, from any other one too.
    pub async fn connect(url: &str, config: PostgresConfig) -> Result<PostgresStore, StoreError> {
        let database = Arc::new(Database::new(url, config)?);
        database.repeat(|client, _| migrate(&database, client), Failure::is_starting).await?;
        let notices = Arc::new(Notices::default());
        let listener = database.config.listen.then(|| {
            let (notices, database) = (Arc::clone(&notices), Arc::clone(&database));
            tokio::spawn(async move { notices.serve(&database).await })
        });
        let inner = Inner { database, notices, listener, runtime: Handle::current() };
        Ok(PostgresStore { inner: Arc::new(inner) })
    }
}

/// Runs an operation as a task of its own, on the store's runtime, when it is first polled.
///
/// A caller may stop polling an operation while it waits for another one, as `select` does. Such an operation must not
/// keep its connection: as many of them as the pool has connections would wait for each other forever.
async fn as_task<T: Send + 'static>(
    runtime: Handle,
    operation: impl Future<Output = Result<T, StoreError>> + Send + 'static,
) -> Result<T, StoreError> {
    let lost = |err: JoinError| match err.try_into_panic() {
        Ok(panic) => resume_unwind(panic),
        Err(err) => Err(unavailable(err)),
    };
    runtime.spawn(operation).await.unwrap_or_else(lost)
}

/// Makes methods that the module of their name carries out. What they change of a session is then announced to those
/// that wait for it.
macro_rules! pass_on {
    ($($name:ident($($arg:ident: $of:ty),*) -> $result:ty = ($($given:expr),*) $(announcing $session:expr)?;)*) => {
        $(
            fn $name(&self, $($arg: $of),*) -> StoreFuture<'_, $result> {
                let inner = Arc::clone(&self.inner);
                Box::pin(as_task(inner.runtime.clone(), async move {
                    let done = inner.database.$name($($given),*).await?;
                    $(inner.notices.announce(&$session);)?
                    Ok(done)
                }))
            }
        )*
    };
}

impl Log for PostgresStore {
    pass_on! {
        append(key: ThreadKey, append: Append) -> Appended = (&key, &append) announcing key.session();
        lease(key: ThreadKey, guard: Guard) -> Option<Fence> = (&key, &guard);
        head(key: ThreadKey) -> Option<LogHead> = (&key);
        read(key: ThreadKey, span: Span) -> Vec<Item> = (&key, &span);
        turn_with_key(key: ThreadKey, idempotency_key: String) -> Option<KeyedTurn> = (&key, &idempotency_key);
        save(key: ThreadKey, fence: Fence, text: UnfinishedText) -> () = (&key, fence, &text) announcing key.session();
        saved(session: SessionKey) -> Vec<(ThreadId, UnfinishedText)> = (&session);
        feed(session: SessionKey, after: u64, max: usize) -> Vec<FeedItem> = (&session, after, max);
        number_at(key: ThreadKey, seq: Seq) -> Option<u64> = (&key, seq);
        feed_end(session: SessionKey) -> u64 = (&session);
        due(kind: DueKind, after: Option<ThreadKey>, max: usize) -> Vec<ThreadKey> = (kind, after.as_ref(), max);
    }

    fn feed_changed(&self, session: SessionKey, after: u64) -> StoreFuture<'_, Arc<[FeedItem]>> {
        let (inner, key) = (Arc::clone(&self.inner), session.clone());
        let has_newer =
            as_task(inner.runtime.clone(), async move { inner.database.has_newer(&key, after).await });
        let Inner { notices, database, .. } = &*self.inner;
        Box::pin(async move {
            notices.feed_changed(&database.config, &session, has_newer).await?;
            Ok(Arc::default())
        })
    }
}

impl Store for PostgresStore {
    pass_on! {
        create_log(log: NewLog) -> () = (&log) announcing log.session;
        fork(from: ThreadKey, log: NewLog) -> () = (&from, &log);
        log_with_start_key(tenant: Tenant, start_key: String) -> Option<ThreadKey> = (&tenant, &start_key);
        logs(list: LogList) -> Vec<LogHead> = (&list);
        prune_journals(name: String, before: Timestamp, max: usize) -> u64 = (&name, before, max);
        search(key: ThreadKey, search: Search) -> Vec<SearchHit> = (&key, &search);
        sessions(tenant: Tenant, after: Option<SessionId>, max: usize) -> Vec<SessionInfo>
            = (&tenant, after.as_ref(), max);
        delete_session(session: SessionKey) -> bool = (&session) announcing session;
        delete_log(key: ThreadKey) -> bool = (&key) announcing key.session();
        rewrite(key: ThreadKey, items: Vec<Item>) -> () = (&key, &items);
        usage(tenant: Tenant) -> Usage = (&tenant);
        vacuum() -> () = ();
    }
}

impl Documents for PostgresStore {
    pass_on! {
        put(document: Document) -> () = (&document);
        create(document: Document) -> () = (&document);
        delete(key: DocumentKey) -> () = (&key);
        document(key: DocumentKey) -> Option<Document> = (&key);
        list(kind: String, after: Option<DocumentKey>, max: usize) -> Vec<Document>
            = (&kind, after.as_ref(), max);
        prune(kind: String, before: Timestamp, max: usize) -> u64 = (&kind, before, max);
    }
}

impl SourceIndex for PostgresStore {
    fn erase_removed(&self) -> StoreFuture<'_, ()> {
        self.vacuum()
    }

    pass_on! {
        put_base(key: BaseKey, settings: BaseSettings, at: Timestamp) -> BaseInfo = (&key, &settings, at);
        base(key: BaseKey) -> Option<BaseInfo> = (&key);
        bases(tenant: Tenant, after: Option<BaseId>, max: usize) -> Vec<BaseInfo> = (&tenant, after.as_ref(), max);
        delete_base(key: BaseKey) -> bool = (&key);
        change_sources(key: BaseKey, change: SourceChange) -> SourcesChanged = (&key, &change);
        sources(key: BaseKey, after: Option<SourceId>, max: usize) -> Vec<SourceInfo> = (&key, after.as_ref(), max);
        sources_with(key: BaseKey, ids: Vec<SourceId>) -> Vec<SourceInfo> = (&key, &ids);
        chunks(key: BaseKey, selection: ChunkSelection) -> Vec<StoredChunk> = (&key, &selection);
        search_base(key: BaseKey, query: RankQuery, max: usize) -> BaseHits = (&key, &query, max);
        put_vectors(key: BaseKey, model: String, vectors: Vec<ChunkVector>) -> () = (&key, &model, &vectors);
        without_vector(key: BaseKey, model: String, after: ChunkNo, max: usize) -> Vec<StoredChunk>
            = (&key, &model, after, max);
        vectors(key: BaseKey, model: String, after: ChunkNo, max: usize) -> Vec<ChunkVector>
            = (&key, &model, after, max);
    }
}
