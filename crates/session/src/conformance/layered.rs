//! A store with something between it and its users: replies that get lost, processes that die.

use std::sync::Arc;

use contexture_history::{Item, Seq, Timestamp};

use crate::documents::{Document, DocumentKey, Documents};
use crate::store::{
    Append, Appended, DueKind, FeedItem, Fence, Guard, KeyedTurn, Log, LogHead, LogList, NewLog, NewSession,
    SessionInfo, Span, Store, StoreFuture, UnfinishedText, Usage,
};
use crate::{Search, SearchHit, SessionId, SessionKey, Tenant, ThreadId, ThreadKey};

/// An operation of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operation {
    /// Its name, such as `append`.
    pub name: &'static str,
    /// Whether others can notice it.
    pub is_write: bool,
}

/// What is between a store and its users.
pub trait Interference: std::fmt::Debug + Send + Sync + 'static {
    /// Does an operation, or does not.
    fn around<'a, T: Send + 'a>(
        &'a self,
        operation: Operation,
        does: StoreFuture<'a, T>,
    ) -> StoreFuture<'a, T>;
}

/// A store with something between it and its users.
#[derive(Clone, Debug)]
pub struct Layered<S, I> {
    /// The store.
    pub store: Arc<S>,
    /// What is in between.
    pub interference: I,
}

macro_rules! pass_on {
    ($($is_write:literal $name:ident($($arg:ident: $of:ty),*) -> $result:ty;)*) => {
        $(
            fn $name(&self, $($arg: $of),*) -> StoreFuture<'_, $result> {
                let operation = Operation { name: stringify!($name), is_write: $is_write };
                self.interference.around(operation, self.store.$name($($arg),*))
            }
        )*
    };
}

impl<S: Store, I: Interference> Log for Layered<S, I> {
    pass_on! {
        true append(key: ThreadKey, append: Append) -> Appended;
        true lease(key: ThreadKey, guard: Guard) -> Option<Fence>;
        false head(key: ThreadKey) -> Option<LogHead>;
        false read(key: ThreadKey, span: Span) -> Vec<Item>;
        false turn_with_key(key: ThreadKey, idempotency_key: String) -> Option<KeyedTurn>;
        true save(key: ThreadKey, fence: Fence, text: UnfinishedText) -> ();
        false saved(session: SessionKey) -> Vec<(ThreadId, UnfinishedText)>;
        false feed(session: SessionKey, after: u64, max: usize) -> Vec<FeedItem>;
        false number_at(key: ThreadKey, seq: Seq) -> Option<u64>;
        false feed_end(session: SessionKey) -> u64;
        false feed_changed(session: SessionKey, after: u64) -> Arc<[FeedItem]>;
        false due(kind: DueKind, after: Option<ThreadKey>, max: usize) -> Vec<ThreadKey>;
    }
}

impl<S: Store, I: Interference> Store for Layered<S, I> {
    pass_on! {
        true create_session(session: NewSession) -> ();
        true create_log(log: NewLog) -> ();
        true fork(from: ThreadKey, log: NewLog) -> ();
        false log_with_start_key(tenant: Tenant, start_key: String) -> Option<ThreadKey>;
        false logs(list: LogList) -> Vec<LogHead>;
        true prune_journals(name: String, before: Timestamp, max: usize) -> u64;
        false search(key: ThreadKey, search: Search) -> Vec<SearchHit>;
        false sessions(tenant: Tenant, after: Option<SessionId>, max: usize) -> Vec<SessionInfo>;
        true delete_session(session: SessionKey) -> bool;
        true delete_log(key: ThreadKey) -> bool;
        true rewrite(key: ThreadKey, items: Vec<Item>) -> ();
        false usage(tenant: Tenant) -> Usage;
        true vacuum() -> ();
    }
}

impl<S: Documents, I: Interference> Documents for Layered<S, I> {
    pass_on! {
        true put(document: Document) -> ();
        true create(document: Document) -> ();
        true delete(key: DocumentKey) -> ();
        false document(key: DocumentKey) -> Option<Document>;
        false list(kind: String, after: Option<DocumentKey>, max: usize) -> Vec<Document>;
        true prune(kind: String, before: Timestamp, max: usize) -> u64;
    }
}
