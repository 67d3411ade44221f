//! The contract of a store: an append-only log for each thread, with one writer at a time.
//!
//! Every implementation guarantees the following, and the conformance suite checks it:
//!
//! 1. An append is all or nothing, and when it returns it survives a crash of the process and of the machine.
//! 2. An append succeeds only if the log ends where the writer expects (`expected`), and only if the writer may write
//!    (`guard`), both checked in the append's own transaction. A writer whose lease was taken over, by an append of
//!    any kind, can never write with it again.
//! 3. Items are returned as they were appended, in order, each once; no reader sees a part of an append.
//! 4. Nothing of a tenant is visible under another tenant's key, in any operation.
//! 5. A read costs what it returns: it does not grow with the length of the log.
//! 6. Archived items can be searched as soon as the append of their summary returns. Other appends pay nothing for it.
//!
//! Leases expire by the store's clock, so writers on several machines agree.

use std::sync::Arc;
use std::time::Duration;

use contexture_history::{Body, Change, Item, Seq, Timestamp, TurnNo};
use contexture_message::Tokens;
use futures::future::BoxFuture;
use serde::{Deserialize, Serialize};

pub mod codec;
pub(crate) mod error;
pub(crate) mod guard;
pub mod pages;
pub mod records;
pub mod search;
pub(crate) mod span;
mod texts;

use crate::log::notes;
use crate::{Search, SearchHit, SessionId, SessionKey, State, StoreError, Tenant, ThreadId, ThreadKey};

/// The result of a store operation.
pub type StoreFuture<'a, T> = BoxFuture<'a, Result<T, StoreError>>;

/// A place where threads are kept.
pub trait Store: std::fmt::Debug + Send + Sync + 'static {
    /// Creates a session with its main thread. A session with that name is [`StoreError::Exists`].
    fn create_session(&self, session: NewSession) -> StoreFuture<'_, ()>;

    /// Adds an isolated thread to an existing session.
    fn create_thread(&self, thread: NewThread) -> StoreFuture<'_, ()>;

    /// Adds a thread that starts with a copy of the items of `from` up to `thread.state.end`, which is not beyond its
    /// end. Both have one tenant. Idempotency keys stay with `from`.
    fn fork(&self, from: ThreadKey, thread: NewThread) -> StoreFuture<'_, ()>;

    /// Appends items as one commit. The guard is checked before the end of the log. An idempotency key that is already
    /// used moves to the new turn.
    fn append(&self, key: ThreadKey, append: Append) -> StoreFuture<'_, Appended>;

    /// Takes, extends or gives back the right to write, without appending anything.
    fn lease(&self, key: ThreadKey, guard: Guard) -> StoreFuture<'_, Option<Fence>>;

    /// Returns the current state of a thread, or `None` if it does not exist.
    fn head(&self, key: ThreadKey) -> StoreFuture<'_, Option<Head>>;

    /// Returns items, oldest first: exactly those of the span.
    fn read(&self, key: ThreadKey, span: Span) -> StoreFuture<'_, Vec<Item>>;

    /// Returns the archived items of a thread that contain any word of a query, best first: more words and rarer words
    /// first, then newer items.
    ///
    /// An item is archived once a [`Summary`](contexture_history::Summary) that covers it was appended; in a copy made
    /// by [`fork`](Store::fork), if an archive of its initial state covers it. Only items in the ranges of the search
    /// are considered. All stores return the same hits in the same order; [`contexture_history::search`] defines what
    /// a word is and which text of an item counts. A query without words finds nothing.
    fn search(&self, key: ThreadKey, search: Search) -> StoreFuture<'_, Vec<SearchHit>>;

    /// Returns where the turn with an idempotency key began.
    fn turn_with_key(&self, key: ThreadKey, idempotency_key: String) -> StoreFuture<'_, Option<KeyedTurn>>;

    /// Waits until the log may have grown beyond `after`. It may return early, and it returns immediately if the log
    /// is already longer; callers read and wait again.
    fn changed(&self, key: ThreadKey, after: Seq) -> StoreFuture<'_, ()>;

    /// Lists the sessions of a tenant whose names come after `after`, in the order of their names.
    fn sessions(
        &self,
        tenant: Tenant,
        after: Option<SessionId>,
        max: usize,
    ) -> StoreFuture<'_, Vec<SessionInfo>>;

    /// Lists the threads of a session, the main one first, then by name.
    fn threads(&self, session: SessionKey) -> StoreFuture<'_, Vec<ThreadInfo>>;

    /// Deletes a session, everything in it, and the blobs that nothing else refers to. Returns whether it existed.
    fn delete_session(&self, session: SessionKey) -> StoreFuture<'_, bool>;

    /// Deletes one isolated thread and everything in it. Returns whether it existed; a main thread is
    /// [`StoreError::IsMain`].
    fn delete_thread(&self, key: ThreadKey) -> StoreFuture<'_, bool>;

    /// Returns a large text by its hash, as hex digits.
    fn blob(&self, tenant: Tenant, hash: String) -> StoreFuture<'_, Option<String>>;

    /// Returns what the store holds of a tenant.
    fn usage(&self, tenant: Tenant) -> StoreFuture<'_, Usage>;

    /// Gives back the space of what was deleted.
    fn vacuum(&self) -> StoreFuture<'_, ()>;
}

/// A session to create.
#[derive(Clone, Debug)]
pub struct NewSession {
    /// The key of the session.
    pub key: SessionKey,
    /// A label for people.
    pub label: Option<String>,
    /// The time of creation.
    pub at: Timestamp,
}

/// An isolated or forked thread to create.
#[derive(Clone, Debug)]
pub struct NewThread {
    /// The session it belongs to.
    pub session: SessionKey,
    /// The thread's id.
    pub thread: ThreadId,
    /// A label for people.
    pub label: Option<String>,
    /// Where it was forked from.
    pub base: Option<ForkPoint>,
    /// The time of creation.
    pub at: Timestamp,
    /// The initial state: empty, or with `fork` the state after the copied items.
    pub state: State,
}

/// The place in another thread where a thread began.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ForkPoint {
    /// The thread that was forked.
    pub thread: ThreadId,
    /// The last item it shares.
    pub seq: Seq,
}

/// Items to append as one commit.
#[derive(Clone, Debug)]
pub struct Append {
    /// Where the writer expects the log to end.
    pub expected: Seq,
    /// The items; their positions follow `expected` without a gap.
    pub items: Vec<Item>,
    /// The thread's state after them.
    pub state: State,
    /// The lease that the writer must have or acquires.
    pub guard: Guard,
    /// The idempotency keys that turns beginning here take: one, or several when a log is imported.
    pub keys: Vec<(String, KeyedTurn)>,
}

/// The result of an append.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Appended {
    /// The new end of the log.
    pub end: Seq,
    /// The number of the lease that the writer holds now, if it holds one.
    pub fence: Option<Fence>,
}

/// The turn that took an idempotency key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyedTurn {
    /// The number of the turn.
    pub turn: TurnNo,
    /// The position of its first item.
    pub began: Seq,
}

/// The number of a lease. It increases with every change of the writer, so an outdated writer is recognised.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Fence(pub u64);

/// The lease that a writer must have or acquires.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Guard {
    /// No live lease exists. An expired one is taken over: its holder can't extend it any more.
    Free,
    /// The same; the writer then holds one itself, with a new number. A lease of the same owner is replaced.
    Acquire {
        /// The name of the writer.
        owner: Arc<str>,
        /// How long the lease lasts without renewal.
        ttl: Duration,
    },
    /// The writer holds the lease with this number, and it is extended. An expired lease can be extended until another
    /// writer takes it over.
    Hold {
        /// The number of the lease.
        fence: Fence,
        /// How long from now on.
        ttl: Duration,
    },
    /// The writer holds the lease with this number and releases it.
    Release {
        /// The number of the lease.
        fence: Fence,
    },
}

/// A lease as the store holds it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    /// The name of the holder.
    pub owner: Arc<str>,
    /// The number of the lease.
    pub fence: Fence,
    /// Whether it has not ended yet, by the store's clock.
    pub live: bool,
}

/// The current state of a thread.
#[derive(Clone, Debug, PartialEq)]
pub struct Head {
    /// The thread's metadata.
    pub info: ThreadInfo,
    /// The result of replaying its log.
    pub state: State,
    /// The lease, if a writer holds one.
    pub lease: Option<Lease>,
}

/// The two kinds of threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ThreadKind {
    /// The main conversation of the session.
    Main,
    /// A separate thread, which never leaks into the main one.
    Isolated,
}

/// A thread in a list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThreadInfo {
    /// The thread's id.
    pub thread: ThreadId,
    /// The session it belongs to.
    pub session: SessionId,
    /// The kind of thread.
    pub kind: ThreadKind,
    /// A label for people.
    pub label: Option<String>,
    /// Where it was forked from.
    pub base: Option<ForkPoint>,
    /// The time of creation.
    pub created: Timestamp,
    /// The time of the last append.
    pub updated: Timestamp,
    /// How many items it has.
    pub items: u64,
    /// How many turns it has.
    pub turns: u64,
}

/// A session in a list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionInfo {
    /// The thread's id.
    pub session: SessionId,
    /// A label for people.
    pub label: Option<String>,
    /// The time of creation.
    pub created: Timestamp,
    /// The time of the last append to any of its threads.
    pub updated: Timestamp,
    /// How many threads it has.
    pub threads: u64,
    /// How many items its threads have together.
    pub items: u64,
    /// How many turns its main thread has.
    pub turns: u64,
}

/// The amount of data that a store holds for a tenant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// The number of sessions.
    pub sessions: u64,
    /// The number of threads.
    pub threads: u64,
    /// The number of items.
    pub items: u64,
    /// Large texts, each counted once.
    pub blobs: u64,
    /// The total size of the large texts.
    pub blob_bytes: u64,
}

/// A selection of a thread's items.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Span {
    /// The items after a position, at most `max`.
    After {
        /// The position before the first.
        seq: Seq,
        /// How many at most.
        max: usize,
    },
    /// The newest items of the log.
    NewestItems {
        /// How many at most.
        count: usize,
        /// Only items visible to the client count; the others in between are included.
        client: bool,
    },
    /// The newest turns, whole.
    NewestTurns(NewestTurns),
}

/// The newest turns, whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewestTurns {
    /// How many turns at most, in addition to the open one.
    pub turns: usize,
    /// About how much they may cost: reading stops once the turns read cost more. A turn counted by another counter
    /// has no cost that stops anything.
    pub tokens: Option<(Arc<str>, Tokens)>,
    /// Nothing at or before this position.
    pub after: Seq,
    /// The open turn; it is included and not counted.
    pub open: Option<TurnNo>,
}

impl Append {
    /// Checks that the items continue the log where they say they do, and can be read back. Every store calls it
    /// first.
    pub fn check(&self, key: &ThreadKey) -> Result<(), StoreError> {
        let malformed = |detail: String| StoreError::Malformed { thread: key.thread.to_string(), detail };
        let Some(last) = self.items.last() else {
            return Err(malformed("it has no items".to_owned()));
        };
        if let Some(deep) = self.items.iter().find(|it| texts::is_deep(&it.body)) {
            let detail = format!("item {} is nested deeper than {} levels", deep.seq, texts::MAX_DEPTH);
            return Err(malformed(detail));
        }
        let follows = |(idx, item): (u64, &Item)| self.expected.0.checked_add(idx) == Some(item.seq.0);
        if !(1..).zip(&self.items).all(follows) {
            return Err(malformed(format!("its items do not follow {}", self.expected)));
        }
        if self.state.end != last.seq {
            return Err(malformed(format!(
                "its state ends at {}, its items at {}",
                self.state.end, last.seq
            )));
        }
        Ok(())
    }

    /// Returns the idempotency keys that the items take: of turns that begin, and of what is added once.
    pub fn keys_of(items: &[Item]) -> Vec<(String, KeyedTurn)> {
        let key = |item: &Item| match &item.body {
            Body::Change(Change::TurnBegan { key }) => key.clone(),
            Body::Change(change) => notes::key_of(change).map(str::to_owned),
            _ => None,
        };
        let keyed = |it: &Item| Some((key(it)?, KeyedTurn { turn: it.turn, began: it.seq }));
        items.iter().filter_map(keyed).collect()
    }
}

impl NewThread {
    /// Returns where the thread is going to be.
    pub fn key(&self) -> ThreadKey {
        ThreadKey { tenant: self.session.tenant.clone(), thread: self.thread.clone() }
    }
}
