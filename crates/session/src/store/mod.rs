//! The contract of a store: append-only logs with one writer at a time.
//!
//! A thread is a log, and so are a flow's run and a journal (passes, the audit log). They differ in what their items
//! mean, not in how they are kept: see [`LogKind`].
//!
//! Every implementation guarantees the following, and the conformance suite checks it:
//!
//! 1. An append is all or nothing, and when it returns it survives a crash of the process and of the machine; one that
//!    is [lazy](Append::lazy) survives a crash of the machine once a later append that is not has returned.
//! 2. An append succeeds only if the log ends where the writer expects (`expected`), and only if the writer may write
//!    (`guard`), both checked in the append's own transaction. A writer whose lease was taken over, by an append of
//!    any kind, can never write with it again.
//! 3. An append that is repeated with the same nonce is made once: a writer that lost the reply repeats it and learns
//!    that it landed.
//! 4. The items of a session's threads and runs are numbered in the order of their commits, without a gap: a reader
//!    that has read up to a number has missed nothing before it. Copies made by a fork and journals have no numbers.
//! 5. Items are returned as they were appended, in order, each once; no reader sees a part of an append.
//! 6. Nothing of a tenant is visible under another tenant's key, in any operation.
//! 7. A read costs what it returns: it does not grow with the length of the log.
//! 8. Archived items can be searched as soon as the append of their summary returns. Other appends pay nothing for it.
//!
//! Leases expire by the store's clock, so writers on several machines agree.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use contexture_history::{Body, Change, Item, Seq, Timestamp, TurnNo, TurnStatus};
use futures::future::BoxFuture;
use serde::{Deserialize, Serialize};

pub mod codec;
pub mod documents;
pub(crate) mod error;
pub(crate) mod guard;
pub mod pages;
pub mod search;
pub mod sources;
pub(crate) mod span;
pub(crate) mod surely;
mod texts;

use crate::log::notes;
use crate::{Search, SearchHit, SessionId, SessionKey, State, StoreError, Tenant, ThreadId, ThreadKey};

/// The result of a store operation.
pub type StoreFuture<'a, T> = BoxFuture<'a, Result<T, StoreError>>;

/// Append-only logs with one writer at a time.
pub trait Log: std::fmt::Debug + Send + Sync + 'static {
    /// Appends items as one commit. An append that landed before, with the same nonce, is not made again. The guard is
    /// checked before the end of the log. An idempotency key that is already used moves to the new turn.
    fn append(&self, key: ThreadKey, append: Append) -> StoreFuture<'_, Appended>;

    /// Takes, extends or gives back the right to write, without appending anything.
    fn lease(&self, key: ThreadKey, guard: Guard) -> StoreFuture<'_, Option<Fence>>;

    /// Returns the current state of a log, or `None` if it does not exist.
    fn head(&self, key: ThreadKey) -> StoreFuture<'_, Option<LogHead>>;

    /// Returns items, oldest first: exactly those of the span.
    fn read(&self, key: ThreadKey, span: Span) -> StoreFuture<'_, Vec<Item>>;

    /// Returns where the turn with an idempotency key began.
    fn turn_with_key(&self, key: ThreadKey, idempotency_key: String) -> StoreFuture<'_, Option<KeyedTurn>>;

    /// Keeps the unfinished text of a log's writer in place of the text kept before, if the writer still holds the
    /// lease; otherwise [`StoreError::Fenced`]. It survives a crash of the process; it need not survive one of the
    /// machine.
    fn save(&self, key: ThreadKey, fence: Fence, text: UnfinishedText) -> StoreFuture<'_, ()>;

    /// Returns the unfinished texts of a session's logs that were saved last, by log. They may be outdated: the log
    /// decides.
    fn saved(&self, session: SessionKey) -> StoreFuture<'_, Vec<(ThreadId, UnfinishedText)>>;

    /// Returns the numbered items of a session after a number, in the order of their numbers: at least `max` of them,
    /// if there are so many, and at most the rest of a commit more.
    fn feed(&self, session: SessionKey, after: u64, max: usize) -> StoreFuture<'_, Vec<FeedItem>>;

    /// Returns the number in its session of the item at a position; `None` if the item has no number or does not exist.
    fn number_at(&self, key: ThreadKey, seq: Seq) -> StoreFuture<'_, Option<u64>>;

    /// Returns the number of a session's newest item, 0 if it has none.
    fn feed_end(&self, session: SessionKey) -> StoreFuture<'_, u64>;

    /// Waits until a session may have an item with a higher number than `after`, or until an unfinished text of it was
    /// saved. It may return early, and it returns immediately if there is such an item; callers read and wait again. A
    /// session that does not exist is [`StoreError::NotFound`].
    ///
    /// Returns items that were just appended, if the store has them at hand. They are the next ones to read if the first
    /// of them has the next number; none does not mean that there are none.
    fn feed_changed(&self, session: SessionKey, after: u64) -> StoreFuture<'_, Arc<[FeedItem]>>;

    /// Waits until a thread or a run has grown beyond `after`; it returns immediately if it is already longer. That
    /// another process has deleted it may go unnoticed.
    fn changed(&self, key: ThreadKey, after: Seq) -> StoreFuture<'_, ()> {
        Box::pin(async move {
            loop {
                // The number first: what is appended after the look at the log has a higher one.
                let number = self.feed_end(key.session()).await?;
                let head = self.head(key.clone()).await?;
                if head.ok_or_else(|| StoreError::no_thread(&key.thread))?.info.items > after.0 {
                    return Ok(());
                }
                match self.feed_changed(key.session(), number).await {
                    // It was deleted in between.
                    Err(StoreError::NotFound { .. }) => return Err(StoreError::no_thread(&key.thread)),
                    changed => drop(changed?),
                }
            }
        })
    }

    /// Lists threads or runs of all tenants that need a writer and have none: their last append says so
    /// ([`LogState::needs_writer`]), and no lease on them is live. They come in the order of their keys.
    fn due(&self, kind: DueKind, after: Option<ThreadKey>, max: usize) -> StoreFuture<'_, Vec<ThreadKey>>;
}

/// A place where sessions are kept: their threads, their runs and their journals.
pub trait Store: Log {
    /// Creates a session with its main thread. A session with that name is [`StoreError::Exists`].
    fn create_session(&self, session: NewSession) -> StoreFuture<'_, ()> {
        let NewSession { key, label, at } = session;
        let thread = key.session.main();
        self.create_log(NewLog { kind: LogKind::Main, label, ..NewLog::isolated(key, thread, at) })
    }

    /// Adds a log to an existing session; a main thread comes with its session. One with that name, or with that start
    /// key in the tenant, is [`StoreError::Exists`].
    fn create_log(&self, log: NewLog) -> StoreFuture<'_, ()>;

    /// Adds a thread that starts with a copy of the items of `from` up to `log.state.end`, which is not beyond its
    /// end. Both have one tenant. Idempotency keys stay with `from`.
    fn fork(&self, from: ThreadKey, log: NewLog) -> StoreFuture<'_, ()>;

    /// Returns the log of a tenant that has a start key.
    fn log_with_start_key(&self, tenant: Tenant, start_key: String) -> StoreFuture<'_, Option<ThreadKey>>;

    /// Lists logs of a kind in the order of their keys.
    fn logs(&self, list: LogList) -> StoreFuture<'_, Vec<LogHead>>;

    /// Prunes the items of journals with this name that are older than `before`, in all tenants, at most about `max`
    /// of them and from the start of a journal only. Returns how many were removed. Positions are never used again.
    fn prune_journals(&self, name: String, before: Timestamp, max: usize) -> StoreFuture<'_, u64>;

    /// Returns the archived items of a thread that have any term of a query, best first: see [`search`].
    ///
    /// An item is archived once a [`Summary`](contexture_history::Summary) that covers it was appended; in a copy made
    /// by [`fork`](Store::fork), if an archive of its initial state covers it. Only items in the ranges of the search
    /// are considered. All stores return the same hits in the same order; [`contexture_history::search`] defines which
    /// text of an item counts, [`crate::rank`] what a term is. A query without terms finds nothing.
    fn search(&self, key: ThreadKey, search: Search) -> StoreFuture<'_, Vec<SearchHit>>;

    /// Lists the sessions of a tenant whose names come after `after`, in the order of their names.
    fn sessions(
        &self,
        tenant: Tenant,
        after: Option<SessionId>,
        max: usize,
    ) -> StoreFuture<'_, Vec<SessionInfo>>;

    /// Lists the threads of a session, the main one first, then by name.
    fn threads(&self, session: SessionKey) -> StoreFuture<'_, Vec<ThreadInfo>> {
        Box::pin(async move {
            let mut threads = Vec::new();
            for kind in [LogKind::Main, LogKind::Isolated] {
                let SessionKey { tenant, session } = session.clone();
                let (tenant, session) = (Some(tenant), Some(session));
                let list = LogList { kind, tenant, session, after: None, max: usize::MAX };
                threads.extend(self.logs(list).await?.into_iter().map(|it| it.info));
            }
            Ok(threads)
        })
    }

    /// Deletes a session, everything in it, and the blobs that nothing else refers to. Returns whether it existed.
    fn delete_session(&self, session: SessionKey) -> StoreFuture<'_, bool>;

    /// Deletes one log other than a main thread and everything in it. Returns whether it existed; a main thread is
    /// [`StoreError::IsMain`].
    fn delete_log(&self, key: ThreadKey) -> StoreFuture<'_, bool>;

    /// Puts other content in the place of items, for what is forgotten: nothing else ever changes an item.
    ///
    /// Of every item that the log has at a given position, body and cost are replaced; turn, visibility, author, time
    /// and number stay. In the same transaction archived items are indexed again, large texts that no item refers to
    /// any more are removed, and so is the unfinished text of the log's writer. Neither the end of the log nor its
    /// lease matters or changes. Snapshots of a thread do not notice: [`rewrite_thread`] tells them.
    ///
    /// [`rewrite_thread`]: crate::rewrite_thread
    fn rewrite(&self, key: ThreadKey, items: Vec<Item>) -> StoreFuture<'_, ()>;

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

/// A log to create in a session.
#[derive(Clone, Debug)]
pub struct NewLog {
    /// The session it belongs to.
    pub session: SessionKey,
    /// The log's id.
    pub thread: ThreadId,
    /// What it is. A main thread is created with its session.
    pub kind: LogKind,
    /// A label for people.
    pub label: Option<String>,
    /// Where it was forked from.
    pub base: Option<ForkPoint>,
    /// The time of creation.
    pub at: Timestamp,
    /// The key by which a repeated start finds it, unique in the tenant.
    pub start_key: Option<String>,
    /// The state after its first items.
    pub state: LogState,
    /// The first items, from position 1; with `fork` there are none.
    pub items: Vec<Item>,
    /// The ranges of copied items that are archived.
    pub archived: Vec<(Seq, Seq)>,
}

/// The state of a log after an append, as a store keeps it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogState {
    /// The end of the log.
    pub end: Seq,
    /// The number of its newest turn, for lists.
    pub turns: u64,
    /// The time of its last append, for lists.
    pub updated: Timestamp,
    /// Whether a writer must continue it: a turn is in flight, or a run is not over and does not wait. Once its
    /// lease has ended it is [due](Log::due).
    pub needs_writer: bool,
    /// The state itself, as JSON: a replay of the log up to here gives the same.
    pub json: String,
}

/// The text of an answer that is not whole yet. It becomes outdated once the log has the answer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnfinishedText {
    /// The turn.
    pub turn: TurnNo,
    /// Where the log ended when the answer began.
    pub end: Seq,
    /// The number of the item with which the turn began or was resumed.
    pub began: u64,
    /// The number of the turn's newest item when the answer began.
    pub after: u64,
    /// The text so far.
    pub text: String,
    /// The thinking so far.
    pub thinking: String,
}

/// A numbered item of a session.
#[derive(Clone, Debug, PartialEq)]
pub struct FeedItem {
    /// Its number in the session, from 1.
    pub number: u64,
    /// The log that it belongs to.
    pub thread: ThreadId,
    /// The item.
    pub item: Item,
}

/// The logs that [`Log::due`] lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DueKind {
    /// Main and isolated threads.
    Threads,
    /// Runs.
    Runs,
}

/// A query for logs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogList {
    /// The kind to list.
    pub kind: LogKind,
    /// The tenant to list; `None` lists all tenants.
    pub tenant: Option<Tenant>,
    /// The session to list; `None` lists all sessions. Counts only with a tenant.
    pub session: Option<SessionId>,
    /// Only those after this one.
    pub after: Option<ThreadKey>,
    /// How many at most.
    pub max: usize,
}

impl LogList {
    /// Returns the tenant and the name that the list begins after; nothing if no log can be listed. No name is empty,
    /// so all come after an empty one.
    pub fn start(&self) -> Option<(&str, &str)> {
        let after = self.after.as_ref();
        match &self.tenant {
            Some(tenant) if after.is_some_and(|it| it.tenant > *tenant) => None,
            Some(tenant) => {
                let after = after.filter(|it| it.tenant == *tenant);
                Some((tenant.as_str(), after.map_or("", |it| it.thread.as_str())))
            }
            None => Some(after.map_or(("", ""), |it| (it.tenant.as_str(), it.thread.as_str()))),
        }
    }
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
    /// Where the writer expects the log to end. Without it the items go to the end, wherever that is, and their
    /// positions follow it; `state` and `keys` are empty then.
    pub expected: Option<Seq>,
    /// Names this append among those of its log, if it says where the log ends; see [`Log::append`]. An empty one
    /// names nothing.
    pub nonce: String,
    /// The items; their positions follow `expected` without a gap.
    pub items: Vec<Item>,
    /// The log's state after them; without it the state that is kept stays as it is, except for its end.
    pub state: Option<LogState>,
    /// The lease that the writer must have or acquires.
    pub guard: Guard,
    /// The idempotency keys that turns beginning here take: one, or several when a log is imported.
    pub keys: Vec<(String, KeyedTurn)>,
    /// Whether the writer does not wait for the disk.
    pub lazy: bool,
}

/// The result of an append.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Appended {
    /// The new end of the log.
    pub end: Seq,
    /// The number of the lease that the writer holds now, if it holds one.
    pub fence: Option<Fence>,
    /// The number of the last item in its session; 0 for a journal.
    pub number: u64,
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
    /// Anyone may write, and no lease changes. The holder of one learns of it by [`Log::changed`].
    Any,
    /// The same, and the log then needs a writer, whatever its state says, to handle what was appended.
    Call,
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

/// A log as a store keeps it.
#[derive(Clone, Debug, PartialEq)]
pub struct LogHead {
    /// The owner.
    pub tenant: Tenant,
    /// The log's metadata.
    pub info: ThreadInfo,
    /// The state that was kept last, as JSON. [`ThreadInfo::items`] is the end of the log, which may be further.
    pub state: String,
    /// The lease, if a writer holds one.
    pub lease: Option<Lease>,
}

impl LogHead {
    /// Returns the key of the log.
    pub fn key(&self) -> ThreadKey {
        ThreadKey { tenant: self.tenant.clone(), thread: self.info.thread.clone() }
    }

    /// Reads the state.
    pub fn state<T: serde::de::DeserializeOwned>(&self) -> Result<T, StoreError> {
        serde_json::from_str(&self.state).map_err(|err| StoreError::Damaged {
            place: format!("the state of `{}`", self.info.thread),
            detail: err.to_string(),
        })
    }
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

impl Head {
    /// Reads the current state of a thread, or `None` if there is no such thread; a log of another kind is none.
    pub async fn read(store: &dyn Store, key: &ThreadKey) -> Result<Option<Head>, StoreError> {
        let Some(head) = store.head(key.clone()).await?.filter(|it| it.info.kind.is_thread()) else {
            return Ok(None);
        };
        let state = head.state()?;
        Ok(Some(Head { state, info: head.info, lease: head.lease }))
    }

    /// Reads the current state of a thread that must exist.
    pub async fn existing(store: &dyn Store, key: &ThreadKey) -> Result<Head, StoreError> {
        Head::read(store, key).await?.ok_or_else(|| StoreError::no_thread(&key.thread))
    }
}

/// The kinds of logs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LogKind {
    /// The main conversation of the session.
    Main,
    /// A separate thread, which never leaks into the main one.
    Isolated,
    /// A run of a flow.
    Run,
    /// A list of records beside the conversation, which is pruned from its start: passes, the audit log.
    Journal,
}

impl LogKind {
    /// Whether it is a conversation.
    pub fn is_thread(self) -> bool {
        matches!(self, LogKind::Main | LogKind::Isolated)
    }

    /// Whether its items are numbered in their session.
    pub fn is_numbered(self) -> bool {
        self != LogKind::Journal
    }

    /// Returns its name in a database.
    pub fn as_str(self) -> &'static str {
        match self {
            LogKind::Main => "main",
            LogKind::Isolated => "isolated",
            LogKind::Run => "run",
            LogKind::Journal => "journal",
        }
    }

    /// Returns the kind with that name.
    pub fn parse(name: &str) -> Option<LogKind> {
        [LogKind::Main, LogKind::Isolated, LogKind::Run, LogKind::Journal]
            .into_iter()
            .find(|it| it.as_str() == name)
    }
}

/// A thread in a list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThreadInfo {
    /// The thread's id.
    pub thread: ThreadId,
    /// The session it belongs to.
    pub session: SessionId,
    /// The kind of log.
    pub kind: LogKind,
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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewestTurns {
    /// How many turns at most, in addition to the open one.
    pub turns: usize,
    /// Nothing at or before this position.
    pub after: Seq,
    /// The open turn; it is included and not counted.
    pub open: Option<TurnNo>,
}

impl Append {
    /// Returns an append of items that has no name and changes neither the state nor keys.
    pub fn new(expected: Option<Seq>, items: Vec<Item>, guard: Guard) -> Self {
        let (nonce, state, keys) = (String::new(), None, Vec::new());
        Self { expected, nonce, items, state, guard, keys, lazy: false }
    }

    /// Checks that the items continue the log where they say they do, and can be read back. Every store calls it
    /// first.
    pub fn check(&self, key: &ThreadKey) -> Result<(), StoreError> {
        let malformed = |detail: String| StoreError::malformed(key, detail);
        let Some(last) = self.items.last() else {
            return Err(malformed("it has no items".to_owned()));
        };
        check_rewrite(key, &self.items)?;
        let Some(expected) = self.expected else {
            if self.state.is_none() && self.keys.is_empty() {
                return Ok(());
            }
            return Err(malformed("it has a state or keys and does not say where the log ends".to_owned()));
        };
        let follows = |(idx, item): (u64, &Item)| expected.0.checked_add(idx) == Some(item.seq.0);
        if !(1..).zip(&self.items).all(follows) {
            return Err(malformed(format!("its items do not follow {expected}")));
        }
        match &self.state {
            Some(state) if state.end != last.seq => {
                Err(malformed(format!("its state ends at {}, its items at {}", state.end, last.seq)))
            }
            _ => Ok(()),
        }
    }

    /// Returns whether the log needs a writer after the append; `None` if that stays as it is.
    pub fn needs_writer(&self) -> Option<bool> {
        if self.guard == Guard::Call { Some(true) } else { self.state.as_ref().map(|it| it.needs_writer) }
    }

    /// Returns the idempotency keys that the items take: of turns that begin, and of what is added once.
    pub fn keys_of(items: &[Item]) -> Vec<(String, KeyedTurn)> {
        let key = |item: &Item| match &item.body {
            Body::Change(Change::TurnBegan { key, .. }) => key.clone(),
            Body::Change(change) => notes::key_of(change).map(str::to_owned),
            _ => None,
        };
        let keyed = |it: &Item| Some((key(it)?, KeyedTurn { turn: it.turn, began: it.seq }));
        items.iter().filter_map(keyed).collect()
    }
}

/// Checks that items can be read back. Every store calls it before a [rewrite](Store::rewrite); [`Append::check`] does
/// so for an append.
pub fn check_rewrite(key: &ThreadKey, items: &[Item]) -> Result<(), StoreError> {
    match items.iter().find(|it| texts::is_deep(&it.body)) {
        Some(deep) => {
            let detail = format!("item {} is nested deeper than {} levels", deep.seq, texts::MAX_DEPTH);
            Err(StoreError::malformed(key, detail))
        }
        None => Ok(()),
    }
}

/// Returns the items of a row with the content of others in place, if any of these belongs to it. For stores, in a
/// [rewrite](Store::rewrite).
pub fn rewritten(mut items: Vec<Item>, new: &BTreeMap<Seq, &Item>) -> Option<Vec<Item>> {
    let mut is_touched = false;
    for item in &mut items {
        if let Some(new) = new.get(&item.seq) {
            (item.body, item.cost) = (new.body.clone(), new.cost.clone());
            is_touched = true;
        }
    }
    is_touched.then_some(items)
}

impl From<&State> for LogState {
    fn from(state: &State) -> Self {
        let needs_writer = state.open.is_some_and(|it| it.status == TurnStatus::InFlight);
        // It is plain data: its maps have names as keys.
        let json = serde_json::to_string(state).unwrap_or_default();
        LogState { end: state.end, turns: state.turn.0, updated: state.updated, needs_writer, json }
    }
}

impl NewLog {
    /// Returns an empty isolated thread.
    pub fn isolated(session: SessionKey, thread: ThreadId, at: Timestamp) -> Self {
        let (kind, state) = (LogKind::Isolated, LogState::from(&State::default()));
        let (label, base, start_key) = (None, None, None);
        let (items, archived) = (Vec::new(), Vec::new());
        Self { session, thread, kind, label, base, at, start_key, state, items, archived }
    }

    /// Returns an empty journal of a session.
    pub fn journal(session: SessionKey, name: &str, at: Timestamp) -> Self {
        let thread = session.session.journal(name);
        Self { kind: LogKind::Journal, ..Self::isolated(session, thread, at) }
    }

    /// Checks that the log can be created. Every store calls it first.
    pub fn check(&self) -> Result<(), StoreError> {
        if self.items.is_empty() { Ok(()) } else { self.first_append().check(&self.key()) }
    }

    /// Checks that it can be a [copy](Store::fork) of the start of a log with this end. A log of another tenant counts as
    /// missing.
    pub fn check_copy(&self, from: &ThreadKey, end: Seq) -> Result<(), StoreError> {
        if from.tenant != self.session.tenant {
            return Err(StoreError::no_thread(&from.thread));
        }
        if self.state.end > end {
            let detail =
                format!("it copies up to {}, thread `{}` ends at {end}", self.state.end, from.thread);
            return Err(StoreError::malformed(&self.key(), detail));
        }
        Ok(())
    }

    /// Returns its first items as an append.
    pub fn first_append(&self) -> Append {
        let append = Append::new(Some(Seq(0)), self.items.clone(), Guard::Any);
        Append { state: Some(self.state.clone()), ..append }
    }

    /// Returns the error for a log that exists already, or whose session does if it is a main thread.
    pub fn exists(&self) -> StoreError {
        let what = if self.kind == LogKind::Main { "session" } else { "thread" };
        StoreError::Exists { what, id: self.thread.to_string() }
    }

    /// Returns where the log is going to be.
    pub fn key(&self) -> ThreadKey {
        ThreadKey { tenant: self.session.tenant.clone(), thread: self.thread.clone() }
    }
}
