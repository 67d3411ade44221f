//! A thread as this process knows it: one queue of writers, one snapshot.
//!
//! All handles to a thread share one [`LiveThread`]. Writers take its lock, so they queue in order of arrival; across
//! processes the store decides. A write takes the newest snapshot, makes items from it, and appends them where the
//! snapshot ends. If the log has grown in the meantime, the snapshot is reloaded and the items are made again.

pub(crate) mod lost_turns;

use std::any::Any;
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex as StdMutex, PoisonError, RwLock, Weak};
use std::time::Duration;

use contexture_history::{Cost, Item, Seq, Timestamp, TurnNo, item_cost};
use contexture_message::Tokens;
use futures::future::{Either, select};
use tokio::sync::{Mutex, OwnedMutexGuard, Semaphore, watch};

use crate::config::{Policy, Ports, SessionConfig};
use crate::log::draft::Draft;
use crate::store::surely::{append_beside, append_surely};
use crate::store::{Append, Fence, Guard, LogState, Store};
use crate::view::changes_view;
use crate::view::load::StoredThread;
use crate::{NewItem, SessionError, SessionKey, Snapshot, State, StoreError, ThreadKey};

/// Longer conversations are not kept in memory for their next use.
const MAX_KEPT_TOKENS: Tokens = Tokens(100_000);
/// How long a writer that is no turn is waited for, and an append of a turn.
const SETTLE: Duration = Duration::from_secs(1);

/// State shared by all sessions of one store.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) ports: Ports,
    pub(crate) config: SessionConfig,
    /// The name of this writer among all processes.
    pub(crate) owner: Arc<str>,
    /// The counter's name, shared by all items.
    pub(crate) counter: Arc<str>,
    /// The threads with a handle in this process: one queue of writers each.
    pub(crate) live: StdMutex<HashMap<ThreadKey, Weak<LiveThread>>>,
    /// Threads that were used last. Their turns need not be read again.
    pub(crate) recent: StdMutex<VecDeque<Arc<LiveThread>>>,
}

impl Shared {
    pub(crate) fn new(store: Arc<dyn Store>, ports: Ports, config: SessionConfig, owner: Arc<str>) -> Self {
        let counter = Arc::from(ports.counter.profile().name);
        let (live, recent) = (StdMutex::default(), StdMutex::default());
        Self { store, ports, config, owner, counter, live, recent }
    }

    /// Returns a thread as this process knows it; it is loaded from the store if this process has no handle to it.
    pub(crate) async fn live(self: &Arc<Self>, key: ThreadKey) -> Result<Arc<LiveThread>, StoreError> {
        if let Some(live) = self.open_thread(&key) {
            return Ok(live);
        }
        let stored = StoredThread { store: &*self.store, key: &key };
        let snapshot = Arc::new(stored.snapshot(self.config.history_window).await?);
        Ok(self.remember(Arc::new(LiveThread::new(Arc::clone(self), key, snapshot))))
    }

    /// Returns a thread in its current state, read once from the store.
    pub(crate) async fn live_now(self: &Arc<Self>, key: ThreadKey) -> Result<Arc<LiveThread>, StoreError> {
        let live = match self.open_thread(&key) {
            Some(live) => {
                live.refresh_if_idle().await?;
                live
            }
            None => self.live(key).await?,
        };
        self.keep(&live);
        Ok(live)
    }

    /// Keeps a thread for its next use, in place of the one that was not used for longest.
    fn keep(&self, live: &Arc<LiveThread>) {
        let mut recent = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
        let known = recent.iter().rposition(|it| Arc::ptr_eq(it, live));
        match known.and_then(|it| recent.remove(it)) {
            Some(live) => recent.push_back(live),
            None if live.snapshot().tokens() > MAX_KEPT_TOKENS => {}
            None => {
                recent.push_back(Arc::clone(live));
                let n_surplus = recent.len().saturating_sub(self.config.kept_threads);
                recent.drain(..n_surplus);
            }
        }
    }

    /// Keeps nothing of a session any more.
    pub(crate) fn forget(&self, session: &SessionKey) {
        let mut recent = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
        let is_of = |key: &ThreadKey| key.tenant == session.tenant && key.thread.session() == session.session;
        recent.retain(|it| !is_of(&it.key));
    }

    fn open_thread(&self, key: &ThreadKey) -> Option<Arc<LiveThread>> {
        self.known().get(key).and_then(Weak::upgrade)
    }

    /// Makes all handles to a thread share one queue, regardless of which was opened first.
    fn remember(&self, live: Arc<LiveThread>) -> Arc<LiveThread> {
        let mut known = self.known();
        if let Some(first) = known.get(&live.key).and_then(Weak::upgrade) {
            return first;
        }
        if known.len() == known.capacity() {
            known.retain(|_, it| it.strong_count() > 0);
        }
        known.insert(live.key.clone(), Arc::downgrade(&live));
        live
    }

    fn known(&self) -> std::sync::MutexGuard<'_, HashMap<ThreadKey, Weak<LiveThread>>> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts what is going to be appended: once, before anyone waits for anything.
    pub(crate) fn counted(&self, items: Vec<NewItem>) -> Vec<NewItem> {
        items.into_iter().map(|it| NewItem { tokens: Some(self.tokens(&it)), ..it }).collect()
    }

    fn tokens(&self, item: &NewItem) -> Tokens {
        item_cost(&*self.ports.counter, &item.body, item.seen_by())
    }
}

/// A thread as this process knows it.
pub(crate) struct LiveThread {
    pub(crate) shared: Arc<Shared>,
    pub(crate) key: ThreadKey,
    writer: Arc<Mutex<Writer>>,
    /// What the holder of the lock does.
    lock_use: watch::Sender<LockUse>,
    /// The places in the queue of writers.
    slots: Semaphore,
    /// Whether its writes are private.
    pub(crate) is_scratch: bool,
    snapshot: RwLock<Arc<Snapshot>>,
    memory: RwLock<Option<ThreadMemory>>,
}

/// What the holder of a thread's lock does with it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum LockUse {
    /// It reads or writes, and is done soon. Others may see its items in the store before the snapshot has them.
    #[default]
    Brief,
    /// It is a turn, and no append of it is on its way.
    Turn,
    /// It waits for the turn of another process.
    Waits,
}

/// A use of the lock for a while. Then it is what it was before.
struct BriefUse<'a> {
    live: &'a LiveThread,
    before: LockUse,
}

impl Drop for BriefUse<'_> {
    fn drop(&mut self) {
        self.live.note_use(self.before);
    }
}

/// A value that this process caches for a thread.
pub(crate) type ThreadMemory = Arc<dyn Any + Send + Sync>;

impl std::fmt::Debug for LiveThread {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Live").field("key", &self.key).finish_non_exhaustive()
    }
}

/// State that only the holder of the lock may touch.
#[derive(Debug, Default)]
pub(crate) struct Writer {
    /// The lease that this process holds, or held when a turn was dropped without an end.
    pub(crate) fence: Option<Fence>,
    /// The number in the session of the last item that was written here.
    pub(crate) number: u64,
    /// The caller of an append stopped waiting for its result: the snapshot may be outdated.
    is_stale: bool,
}

impl Writer {
    /// Returns the guard of a write after which this process holds no lease.
    pub(crate) fn releasing(&self) -> Guard {
        self.fence.map_or(Guard::Free, |fence| Guard::Release { fence })
    }
}

/// The right to write to a thread from this process.
pub(crate) type WriteGuard = OwnedMutexGuard<Writer>;

impl LiveThread {
    fn new(shared: Arc<Shared>, key: ThreadKey, snapshot: Arc<Snapshot>) -> LiveThread {
        let (snapshot, memory) = (RwLock::new(snapshot), RwLock::default());
        let slots = Semaphore::new(shared.config.queue.min(Semaphore::MAX_PERMITS));
        let (writer, lock_use, is_scratch) = (Arc::default(), watch::Sender::default(), false);
        LiveThread { shared, key, writer, lock_use, slots, is_scratch, snapshot, memory }
    }

    /// Returns a private thread that starts with this snapshot of another one.
    pub(crate) fn detached(of: &LiveThread, store: Arc<dyn Store>, snapshot: Arc<Snapshot>) -> LiveThread {
        let Shared { ports, config, owner, .. } = &*of.shared;
        let shared = Shared::new(store, ports.clone(), config.clone(), Arc::clone(owner));
        LiveThread {
            is_scratch: true,
            memory: RwLock::new(of.memory()),
            ..LiveThread::new(Arc::new(shared), of.key.clone(), snapshot)
        }
    }

    /// Returns the thread as its store has it.
    pub(crate) fn stored(&self) -> StoredThread<'_> {
        StoredThread { store: &*self.shared.store, key: &self.key }
    }

    /// Returns the newest snapshot.
    pub(crate) fn snapshot(&self) -> Arc<Snapshot> {
        Arc::clone(&self.snapshot.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn set_snapshot(&self, snapshot: Snapshot) {
        *self.snapshot.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(snapshot);
    }

    pub(crate) fn memory(&self) -> Option<ThreadMemory> {
        self.memory.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn set_memory(&self, memory: ThreadMemory) {
        *self.memory.write().unwrap_or_else(PoisonError::into_inner) = Some(memory);
    }

    /// Reloads the thread. Only the holder of the writer lock may call it; otherwise an append of this process would
    /// be lost from the snapshot.
    pub(crate) async fn refresh(&self, _writer: &WriteGuard) -> Result<(), StoreError> {
        let window = self.shared.config.history_window;
        if let Some(newer) = self.stored().newer(&self.snapshot(), window).await? {
            self.set_snapshot(newer);
        }
        Ok(())
    }

    /// Reloads the thread, unless a turn in this process holds the lock: then no other process writes, and the snapshot
    /// is current. While the store is away and the lock is held, the snapshot stays as it is.
    pub(crate) async fn refresh_if_idle(&self) -> Result<(), StoreError> {
        loop {
            if let Some(writer) = self.lock_unless_turn().await {
                return self.refresh(&writer).await;
            }
            if *self.lock_use.borrow() != LockUse::Waits {
                return Ok(());
            }
            match self.stored().newer(&self.snapshot(), self.shared.config.history_window).await {
                Ok(Some(newer)) => {
                    if self.set_while_waiting(newer) {
                        return Ok(());
                    }
                }
                Ok(None) | Err(StoreError::Unavailable { .. }) => return Ok(()),
                Err(err) => return Err(err),
            }
        }
    }

    /// Replaces the snapshot for readers, unless the writer waits no longer: from then on only it may. Returns whether
    /// the snapshot is as new as this one.
    fn set_while_waiting(&self, snapshot: Snapshot) -> bool {
        let mut newest = self.snapshot.write().unwrap_or_else(PoisonError::into_inner);
        let is_waiting = *self.lock_use.borrow() == LockUse::Waits;
        if is_waiting && snapshot.state().end > newest.state().end {
            *newest = Arc::new(snapshot);
        }
        is_waiting
    }

    /// Takes the writer lock, unless a turn holds it or is waited for. Others hold it shortly, unless the store is away:
    /// then nothing is returned either.
    async fn lock_unless_turn(&self) -> Option<WriteGuard> {
        if let Some(writer) = self.try_lock_writer() {
            return Some(writer);
        }
        let mut lock_use = self.lock_use.subscribe();
        let held = async {
            let held = std::pin::pin!(lock_use.wait_for(|it| *it != LockUse::Brief));
            select(held, self.shared.ports.time.sleep(SETTLE)).await;
        };
        let (lock, held) = (Arc::clone(&self.writer).lock_owned(), held);
        match select(std::pin::pin!(lock), std::pin::pin!(held)).await {
            Either::Left((writer, _)) => Some(writer),
            Either::Right(((), _)) => None,
        }
    }

    /// Notes what the lock is used for.
    pub(crate) fn note_use(&self, lock_use: LockUse) {
        self.lock_use.send_replace(lock_use);
    }

    /// Notes another use for a while.
    fn note_briefly(&self, lock_use: LockUse) -> BriefUse<'_> {
        BriefUse { live: self, before: self.lock_use.send_replace(lock_use) }
    }

    /// Takes the writer lock if it is free.
    pub(crate) fn try_lock_writer(&self) -> Option<WriteGuard> {
        Arc::clone(&self.writer).try_lock_owned().ok()
    }

    /// Waits for the writer lock, or fails if it is taken.
    pub(crate) async fn lock_writer(&self, policy: Policy) -> Result<WriteGuard, SessionError> {
        let thread = || self.key.thread.to_string();
        if policy != Policy::Queue {
            let free = self.lock_unless_turn().await;
            return free.ok_or_else(|| SessionError::TurnInProgress { thread: thread() });
        }
        if let Some(writer) = self.try_lock_writer() {
            return Ok(writer);
        }
        let queue = self.shared.config.queue;
        let _slot =
            self.slots.try_acquire().map_err(|_| SessionError::QueueFull { thread: thread(), queue })?;
        Ok(Arc::clone(&self.writer).lock_owned().await)
    }

    /// Appends the items that `draft` makes from the newest state, waiting for writers of other processes; nothing if
    /// the key was used before. Returns whether they were written now.
    pub(crate) async fn write(
        &self,
        writer: &mut WriteGuard,
        policy: Policy,
        key: Option<&str>,
        draft: impl Fn(&State) -> Result<Draft, SessionError>,
    ) -> Result<bool, SessionError> {
        let mut backoff = Backoff::new(&self.shared.config);
        loop {
            if let Some(key) = key {
                // The snapshot must not be older than the key lookup that follows.
                self.refresh_if_stale(writer).await?;
                if self.shared.store.turn_with_key(self.key.clone(), key.to_owned()).await?.is_some() {
                    // Another process may have written it; the caller expects to see it.
                    self.refresh(writer).await?;
                    return Ok(false);
                }
            }
            match self.append_next(writer, writer.releasing(), &draft).await {
                Err(SessionError::Store(err)) => self.recover(writer, policy, &mut backoff, err).await?,
                done => return done.map(|()| true),
            }
        }
    }

    /// Makes the next attempt possible after an append was refused, or gives up.
    pub(crate) async fn recover(
        &self,
        writer: &mut WriteGuard,
        policy: Policy,
        backoff: &mut Backoff,
        err: StoreError,
    ) -> Result<(), SessionError> {
        let waits = matches!(err, StoreError::Held { .. }).then(|| self.note_briefly(LockUse::Waits));
        match err {
            StoreError::Conflict { .. } => {}
            StoreError::Fenced { .. } => writer.fence = None,
            StoreError::Held { thread } if policy != Policy::Queue => {
                return Err(SessionError::TurnInProgress { thread });
            }
            StoreError::Held { .. } => {}
            other => return Err(other.into()),
        }
        let pause = backoff
            .next()
            .ok_or_else(|| SessionError::TurnInProgress { thread: self.key.thread.to_string() })?;
        if !pause.is_zero() {
            self.shared.ports.time.sleep(pause).await;
        }
        // What readers have loaded until here is not newer than what is loaded now.
        drop(waits);
        Ok(self.refresh(writer).await?)
    }

    /// Makes sure that the snapshot contains every append from here. Call it before a lookup that decides what to
    /// append: if the log grows after that, the append is refused.
    pub(crate) async fn refresh_if_stale(&self, writer: &mut WriteGuard) -> Result<(), StoreError> {
        if writer.is_stale {
            self.refresh(writer).await?;
            writer.is_stale = false;
        }
        Ok(())
    }

    /// Appends once, after ending a turn whose writer was lost: `draft` never sees a turn in flight.
    pub(crate) async fn append_next(
        &self,
        writer: &mut WriteGuard,
        guard: Guard,
        draft: impl Fn(&State) -> Result<Draft, SessionError>,
    ) -> Result<(), SessionError> {
        let guard = self.guard_after_lost(writer, guard).await?;
        let releases = matches!(guard, Guard::Release { .. });
        let done = self.try_append(writer, guard, draft).await;
        // There was nothing to say, or nothing that can be said: the lease must not stay for that.
        if releases && !matches!(done, Err(SessionError::Store(_))) {
            self.release_lease(writer).await?;
        }
        done
    }

    /// Appends once, where the newest snapshot ends.
    pub(crate) async fn try_append(
        &self,
        writer: &mut WriteGuard,
        guard: Guard,
        draft: impl Fn(&State) -> Result<Draft, SessionError>,
    ) -> Result<(), SessionError> {
        self.refresh_if_stale(writer).await?;
        let snapshot = self.snapshot();
        let items = self.items(snapshot.state().end, draft(snapshot.state())?);
        if items.is_empty() {
            return Ok(());
        }
        // Items that change the view of older ones are rare, and the older ones are not loaded one by one.
        let must_reload = items.iter().any(|it| changes_view(it, snapshot.state()));
        let next = snapshot.with(&items, self.shared.config.history_window);
        let append = Append {
            nonce: self.shared.ports.names.next(),
            state: Some(LogState::from(next.state())),
            keys: Append::keys_of(&items),
            ..Append::new(Some(snapshot.state().end), items, guard)
        };
        writer.is_stale = true;
        let _on_its_way = self.note_briefly(LockUse::Brief);
        let Shared { store, ports, .. } = &*self.shared;
        let appended = append_surely(&**store, &*ports.time, &self.key, append).await;
        writer.is_stale = matches!(appended, Err(StoreError::Unavailable { .. }));
        let appended = appended?;
        (writer.fence, writer.number) = (appended.fence, appended.number);
        if !must_reload {
            self.set_snapshot(next);
            return Ok(());
        }
        writer.is_stale = true;
        Ok(self.refresh(writer).await?)
    }

    /// Appends an item to a turn without being its writer.
    pub(crate) async fn note(&self, turn: TurnNo, item: NewItem) -> Result<(), SessionError> {
        let Shared { store, ports, .. } = &*self.shared;
        let item = |state: &State| self.item(state.end.next(), turn, ports.time.now(), item.clone());
        Ok(append_beside(&**store, &self.key, &ports.names.next(), item).await?)
    }

    fn items(&self, end: Seq, draft: Draft) -> Vec<Item> {
        let at = self.shared.ports.time.now();
        let positions = (1..).map(|it| end.plus(it));
        positions.zip(draft).map(|(seq, (turn, new))| self.item(seq, turn, at, new)).collect()
    }

    fn item(&self, seq: Seq, turn: TurnNo, at: Timestamp, new: NewItem) -> Item {
        let visibility = new.seen_by();
        let tokens = new.tokens.unwrap_or_else(|| self.shared.tokens(&new));
        let cost = Cost { counter: Arc::clone(&self.shared.counter), tokens };
        Item { seq, turn, visibility, cost, author: new.author, at, body: new.body }
    }
}

/// How often and how long a writer tries again: soon at first, then every quarter of a second.
#[derive(Debug)]
pub(crate) struct Backoff {
    left: Duration,
    pause: Duration,
}

impl Backoff {
    const FIRST: Duration = Duration::from_millis(2);
    const LONGEST: Duration = Duration::from_millis(250);

    pub(crate) fn new(config: &SessionConfig) -> Self {
        Self { left: config.wait, pause: Duration::ZERO }
    }

    /// Returns how long to wait before the next attempt, or nothing when it was long enough.
    pub(crate) fn next(&mut self) -> Option<Duration> {
        let pause = self.pause;
        self.left = self.left.checked_sub(pause).filter(|it| !it.is_zero())?;
        self.pause = (pause * 2).clamp(Self::FIRST, Self::LONGEST);
        Some(pause)
    }
}
