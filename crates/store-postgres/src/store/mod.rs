//! The store: each operation is in the module of its name.

mod records;

use std::fmt;
use std::sync::Arc;

use contexture_history::{Item, Seq};
use contexture_session::records::StreamKey;
use contexture_session::{
    Append, Appended, Fence, Guard, Head, KeyedTurn, NewSession, NewThread, Search, SearchHit, SessionId,
    SessionInfo, SessionKey, Span, Store, StoreError, StoreFuture, Tenant, ThreadInfo, ThreadKey, Usage,
};
use tokio::task::JoinHandle;

use crate::PostgresConfig;
use crate::database::Database;
use crate::delete::{RemovedSession, thread_keys};
use crate::migrate::migrate;
use crate::notices::Notices;
use crate::waiters::Topic;

/// Threads in PostgreSQL. Clones share its connections.
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
#[derive(Clone)]
pub struct PostgresStore {
    inner: Arc<Inner>,
}

struct Inner {
    database: Arc<Database>,
    notices: Arc<Notices>,
    listener: Option<JoinHandle<()>>,
}

impl Drop for Inner {
    fn drop(&mut self) {
        if let Some(listener) = &self.listener {
            listener.abort();
        }
    }
}

impl fmt::Debug for PostgresStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresStore").field("database", &self.inner.database).finish_non_exhaustive()
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
    pub async fn connect(url: &str, config: PostgresConfig) -> Result<PostgresStore, StoreError> {
        let database = Arc::new(Database::new(url, config)?);
        database.run_first(|client| migrate(&database, client)).await?;
        let notices = Arc::new(Notices::default());
        let listener = database.config.listen.then(|| {
            let (notices, database) = (Arc::clone(&notices), Arc::clone(&database));
            tokio::spawn(async move { notices.serve(&database).await })
        });
        Ok(PostgresStore { inner: Arc::new(Inner { database, notices, listener }) })
    }

    pub(crate) fn database(&self) -> &Database {
        &self.inner.database
    }

    pub(crate) fn notices(&self) -> &Notices {
        &self.inner.notices
    }

    fn announce(&self, key: &ThreadKey) {
        self.notices().announce(Topic::new(key));
    }

    pub(crate) fn announce_stream(&self, key: &StreamKey) {
        self.notices().announce(Topic::of_stream(key));
    }
}

impl Store for PostgresStore {
    fn create_session(&self, session: NewSession) -> StoreFuture<'_, ()> {
        Box::pin(async move { self.database().create_session(&session).await })
    }

    fn create_thread(&self, thread: NewThread) -> StoreFuture<'_, ()> {
        Box::pin(async move { self.database().create_thread(&thread).await })
    }

    fn fork(&self, from: ThreadKey, thread: NewThread) -> StoreFuture<'_, ()> {
        Box::pin(async move { self.database().fork(&from, &thread).await })
    }

    fn append(&self, key: ThreadKey, append: Append) -> StoreFuture<'_, Appended> {
        Box::pin(async move {
            let appended = self.database().append(&key, &append).await?;
            self.announce(&key);
            Ok(appended)
        })
    }

    fn lease(&self, key: ThreadKey, guard: Guard) -> StoreFuture<'_, Option<Fence>> {
        Box::pin(async move { self.database().lease(&key, &guard).await })
    }

    fn head(&self, key: ThreadKey) -> StoreFuture<'_, Option<Head>> {
        Box::pin(async move { self.database().head(&key).await })
    }

    fn read(&self, key: ThreadKey, span: Span) -> StoreFuture<'_, Vec<Item>> {
        Box::pin(async move { self.database().read(&key, &span).await })
    }

    fn search(&self, key: ThreadKey, search: Search) -> StoreFuture<'_, Vec<SearchHit>> {
        Box::pin(async move { self.database().search(&key, &search).await })
    }

    fn turn_with_key(&self, key: ThreadKey, idempotency_key: String) -> StoreFuture<'_, Option<KeyedTurn>> {
        Box::pin(async move { self.database().turn_with_key(&key, &idempotency_key).await })
    }

    fn changed(&self, key: ThreadKey, after: Seq) -> StoreFuture<'_, ()> {
        Box::pin(async move { self.inner.notices.changed(self.database(), &key, after).await })
    }

    fn sessions(
        &self,
        tenant: Tenant,
        after: Option<SessionId>,
        max: usize,
    ) -> StoreFuture<'_, Vec<SessionInfo>> {
        Box::pin(async move { self.database().sessions(&tenant, after.as_ref(), max).await })
    }

    fn threads(&self, session: SessionKey) -> StoreFuture<'_, Vec<ThreadInfo>> {
        Box::pin(async move { self.database().threads(&session).await })
    }

    fn delete_session(&self, session: SessionKey) -> StoreFuture<'_, bool> {
        Box::pin(async move {
            let removed = self.database().delete_session(&session).await?;
            let was_there = removed.is_some();
            let RemovedSession { threads, kinds } = removed.unwrap_or_default();
            thread_keys(&session.tenant, threads).iter().for_each(|it| self.announce(it));
            let stream = |kind: &String| StreamKey::of_session(&session.tenant, &session.session, kind);
            kinds.iter().for_each(|it| self.announce_stream(&stream(it)));
            Ok(was_there)
        })
    }

    fn delete_thread(&self, key: ThreadKey) -> StoreFuture<'_, bool> {
        Box::pin(async move {
            let was_there = self.database().delete_thread(&key).await?;
            self.announce(&key);
            Ok(was_there)
        })
    }

    fn blob(&self, tenant: Tenant, hash: String) -> StoreFuture<'_, Option<String>> {
        Box::pin(async move { self.database().blob(&tenant, &hash).await })
    }

    fn usage(&self, tenant: Tenant) -> StoreFuture<'_, Usage> {
        Box::pin(async move { self.database().usage(&tenant).await })
    }

    fn vacuum(&self) -> StoreFuture<'_, ()> {
        Box::pin(async move { self.database().vacuum().await })
    }
}
