//! A store whose answers get lost: what was written is there, and nobody heard of it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use contexture_history::{Item, Seq};
use contexture_message::Message;
use contexture_session::{
    Append, Appended, Begun, Fence, Guard, Head, IsolatedStart, KeyedTurn, MemoryStore, NewSession,
    NewThread, Ports, Search, SearchHit, SessionConfig, SessionId, SessionInfo, SessionKey, SessionStart,
    Sessions, Span, Store, StoreError, StoreFuture, Tenant, ThreadInfo, ThreadKey, TurnConfig, Usage,
};
use futures::executor::block_on;

use crate::resuming::said;
use crate::threads::{Counting, Ticking, words};

/// Does what it is asked for, and says once that it is not available.
#[derive(Debug)]
struct Deaf {
    store: MemoryStore,
    loses_next: AtomicBool,
}

impl Deaf {
    fn heard<T>(&self, done: T) -> Result<T, StoreError> {
        match self.loses_next.swap(false, Ordering::Relaxed) {
            true => Err(StoreError::Unavailable { place: "the store".into(), detail: "gone".into() }),
            false => Ok(done),
        }
    }
}

impl Store for Deaf {
    fn create_session(&self, session: NewSession) -> StoreFuture<'_, ()> {
        self.store.create_session(session)
    }

    fn create_thread(&self, thread: NewThread) -> StoreFuture<'_, ()> {
        Box::pin(async move { self.store.create_thread(thread).await.and_then(|it| self.heard(it)) })
    }

    fn fork(&self, from: ThreadKey, thread: NewThread) -> StoreFuture<'_, ()> {
        self.store.fork(from, thread)
    }

    fn append(&self, key: ThreadKey, append: Append) -> StoreFuture<'_, Appended> {
        Box::pin(async move { self.store.append(key, append).await.and_then(|it| self.heard(it)) })
    }

    fn lease(&self, key: ThreadKey, guard: Guard) -> StoreFuture<'_, Option<Fence>> {
        self.store.lease(key, guard)
    }

    fn head(&self, key: ThreadKey) -> StoreFuture<'_, Option<Head>> {
        self.store.head(key)
    }

    fn read(&self, key: ThreadKey, span: Span) -> StoreFuture<'_, Vec<Item>> {
        self.store.read(key, span)
    }

    fn search(&self, key: ThreadKey, search: Search) -> StoreFuture<'_, Vec<SearchHit>> {
        self.store.search(key, search)
    }

    fn turn_with_key(&self, key: ThreadKey, idempotency_key: String) -> StoreFuture<'_, Option<KeyedTurn>> {
        self.store.turn_with_key(key, idempotency_key)
    }

    fn changed(&self, key: ThreadKey, after: Seq) -> StoreFuture<'_, ()> {
        self.store.changed(key, after)
    }

    fn sessions(
        &self,
        tenant: Tenant,
        after: Option<SessionId>,
        max: usize,
    ) -> StoreFuture<'_, Vec<SessionInfo>> {
        self.store.sessions(tenant, after, max)
    }

    fn threads(&self, session: SessionKey) -> StoreFuture<'_, Vec<ThreadInfo>> {
        self.store.threads(session)
    }

    fn delete_session(&self, session: SessionKey) -> StoreFuture<'_, bool> {
        self.store.delete_session(session)
    }

    fn delete_thread(&self, key: ThreadKey) -> StoreFuture<'_, bool> {
        self.store.delete_thread(key)
    }

    fn blob(&self, tenant: Tenant, hash: String) -> StoreFuture<'_, Option<String>> {
        self.store.blob(tenant, hash)
    }

    fn usage(&self, tenant: Tenant) -> StoreFuture<'_, Usage> {
        self.store.usage(tenant)
    }

    fn vacuum(&self) -> StoreFuture<'_, ()> {
        self.store.vacuum()
    }
}

fn deaf() -> (Arc<Deaf>, Sessions) {
    let time = Arc::new(Ticking::default());
    let store = Arc::new(Deaf { store: MemoryStore::new(time.clone()), loses_next: AtomicBool::new(false) });
    let ports = Ports { time, names: Arc::new(Counting::default()), counter: Arc::new(words) };
    (Arc::clone(&store), Sessions::new(store, ports, SessionConfig::default()))
}

#[test]
fn what_was_written_unheard_is_not_written_again() {
    let (store, sessions) = deaf();
    let session = block_on(sessions.create(SessionStart::default())).unwrap();
    let main = session.main();
    let lose = || store.loses_next.store(true, Ordering::Relaxed);

    let add = || block_on(main.add_once("a", vec![Message::user("added").into()]));
    lose();
    assert_eq!(add().unwrap_err().code(), "store_unavailable");
    assert!(!add().unwrap());

    let prepend = || block_on(main.prepend_once("p", vec![Message::user("first")]));
    lose();
    assert_eq!(prepend().unwrap_err().code(), "store_unavailable");
    assert!(!prepend().unwrap());

    let begin = |resume| {
        let (key, items) = (Some("k".to_owned()), vec![Message::user("asked").into()]);
        block_on(main.begin(TurnConfig { key, resume, items, ..TurnConfig::default() }))
    };
    for _ in 0..2 {
        lose();
        assert_eq!(begin(true).unwrap_err().code(), "store_unavailable");
    }
    let Begun::Resumed(turn) = begin(true).unwrap() else { panic!("it goes on") };
    block_on(turn.complete(vec![])).unwrap();
    assert_eq!(said(main), ["first", "added", "asked"]);
}

#[test]
fn a_thread_that_was_made_unheard_is_made_once() {
    let (store, sessions) = deaf();
    let session = block_on(sessions.create(SessionStart::default())).unwrap();
    let start = || IsolatedStart {
        name: Some("side".to_owned()),
        initial_messages: vec![Message::user("begin")],
        ..IsolatedStart::default()
    };
    // First its creation is not heard of, then its beginning.
    for _ in 0..2 {
        store.loses_next.store(true, Ordering::Relaxed);
        assert_eq!(block_on(session.create_isolated(start())).unwrap_err().code(), "store_unavailable");
    }
    assert_eq!(said(&block_on(session.create_isolated(start())).unwrap()), ["begin"]);
}
