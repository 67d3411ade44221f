//! A scratch copy of a thread: it starts as the thread is now, and its writes stay private.
//!
//! Nothing is copied. Existing items are read from the thread's own store, where nothing is ever overwritten; new
//! items stay in memory.

use std::sync::Arc;

use contexture_history::{Item, Seq, Timestamp, TurnNo};
use futures::FutureExt;

use super::Thread;
use crate::live::LiveThread;
use crate::search::{self, Search, SearchHit};
use crate::store::{
    Append, Appended, DueKind, FeedItem, Fence, Guard, Head, KeyedTurn, Log, LogHead, LogList, NewLog,
    NewSession, NewestTurns, SessionInfo, Span, Store, StoreFuture, ThreadInfo, UnfinishedText, Usage,
};
use crate::{
    BackwardScan, MemoryStore, SessionError, SessionId, SessionKey, State, StoreError, Tenant, ThreadId,
    ThreadKey,
};

impl Thread {
    /// Returns a thread that starts with exactly what [`get`](Thread::get) shows and whose writes are private: they
    /// disappear with its last handle. Use it for model calls that read a thread and leave no trace in it.
    ///
    /// It has the same name as the thread, so requests built from it are the same to the byte. The thread's
    /// idempotency keys are unused in it. It can't be forked. Creating one reads nothing; items older than the
    /// snapshot are read from the thread's store on demand, as long as the thread exists.
    ///
    /// ```
    /// # use contexture_message::Message;
    /// # use contexture_session::{SessionError, SessionStart, conformance};
    /// # futures::executor::block_on(async {
    /// # let sessions = conformance::sessions_in_memory();
    /// # let session = sessions.create(SessionStart::default()).await?;
    /// let thread = session.main();
    /// thread.add_message(Message::user("Where is it?")).await?;
    /// let scratch = thread.scratch()?;
    /// scratch.add_message(Message::assistant("Perhaps here.")).await?;
    /// assert_eq!(scratch.get().turns()[0].messages().len(), 2);
    /// assert_eq!(thread.get().turns()[0].messages().len(), 1);
    /// # Ok::<(), SessionError>(()) }).unwrap();
    /// ```
    pub fn scratch(&self) -> Result<Thread, SessionError> {
        let (live, snapshot) = (self.live(), self.get());
        let time = Arc::clone(&live.shared.ports.time);
        let session = self.id().as_str().split('/').next().unwrap_or_default();
        let session = SessionId::parse(session)?;
        let own = MemoryStore::continuing(time, &session, &live.key, snapshot.state());
        let state = snapshot.state().clone();
        let store = Arc::new(OverlayStore { before: Arc::clone(&live.shared.store), state, own });
        Ok(Thread::of(Arc::new(LiveThread::detached(live, store, snapshot))).with_policy(self.policy()))
    }
}

/// A store of one thread that keeps new items in memory, on top of another store.
#[derive(Debug)]
struct OverlayStore {
    before: Arc<dyn Store>,
    /// The state of the thread when the scratch copy was made.
    state: State,
    /// Items written since.
    own: MemoryStore,
}

impl OverlayStore {
    async fn read_span(&self, key: ThreadKey, span: Span) -> Result<Vec<Item>, StoreError> {
        let Some(mut backward) = BackwardScan::new(&span) else {
            let Span::After { seq, max } = span else { return Ok(Vec::new()) };
            return self.read_after(key, seq, max).await;
        };
        let own = Span::After { seq: self.state.end, max: usize::MAX };
        backward.push(self.own.read(key.clone(), own).await?);
        if !backward.is_done() {
            backward.push(self.read_before(key, span).await?);
        }
        Ok(backward.finish())
    }

    async fn read_after(&self, key: ThreadKey, seq: Seq, max: usize) -> Result<Vec<Item>, StoreError> {
        let end = self.state.end;
        let n_before = usize::try_from(end.0.saturating_sub(seq.0)).unwrap_or(usize::MAX).min(max);
        let mut items = match n_before {
            0 => Vec::new(),
            max => self.before.read(key.clone(), Span::After { seq, max }).await?,
        };
        if let Some(max) = max.checked_sub(items.len()).filter(|it| *it > 0) {
            items.extend(self.own.read(key, Span::After { seq: seq.max(end), max }).await?);
        }
        Ok(items)
    }

    /// Reads items that existed before. Other writers may have appended since, so it reads that many more and drops
    /// them.
    async fn read_before(&self, key: ThreadKey, span: Span) -> Result<Vec<Item>, StoreError> {
        let now = Head::read(&*self.before, &key).await?;
        let now = now.ok_or_else(|| StoreError::no_thread(&key.thread))?.state;
        let mut items = self.before.read(key, widened(span, &self.state, &now)).await?;
        items.retain(|it| it.seq <= self.state.end);
        Ok(items)
    }
}

/// Returns the span of the current log that contains `span` of the log as it was.
fn widened(span: Span, was: &State, now: &State) -> Span {
    let more = |was: u64, now: u64| usize::try_from(now.saturating_sub(was)).unwrap_or(usize::MAX);
    match span {
        Span::NewestItems { count, client } => {
            Span::NewestItems { count: count.saturating_add(more(was.end.0, now.end.0)), client }
        }
        Span::NewestTurns(wanted) => {
            let TurnNo(last) = now.turn;
            // Items of other writers must not use up the token limit.
            let tokens = wanted.tokens.filter(|_| was.end == now.end);
            let turns = wanted.turns.saturating_add(more(was.turn.0, last));
            Span::NewestTurns(NewestTurns { turns, tokens, ..wanted })
        }
        after @ Span::After { .. } => after,
    }
}

impl Log for OverlayStore {
    fn append(&self, key: ThreadKey, append: Append) -> StoreFuture<'_, Appended> {
        self.own.append(key, append)
    }

    fn lease(&self, key: ThreadKey, guard: Guard) -> StoreFuture<'_, Option<Fence>> {
        self.own.lease(key, guard)
    }

    fn head(&self, key: ThreadKey) -> StoreFuture<'_, Option<LogHead>> {
        self.own.head(key)
    }

    fn read(&self, key: ThreadKey, span: Span) -> StoreFuture<'_, Vec<Item>> {
        self.read_span(key, span).boxed()
    }

    fn turn_with_key(&self, key: ThreadKey, idempotency_key: String) -> StoreFuture<'_, Option<KeyedTurn>> {
        self.own.turn_with_key(key, idempotency_key)
    }

    fn changed(&self, key: ThreadKey, after: Seq) -> StoreFuture<'_, ()> {
        self.own.changed(key, after)
    }

    fn save(&self, key: ThreadKey, fence: Fence, text: UnfinishedText) -> StoreFuture<'_, ()> {
        self.own.save(key, fence, text)
    }

    fn saved(&self, session: SessionKey) -> StoreFuture<'_, Vec<(ThreadId, UnfinishedText)>> {
        self.own.saved(session)
    }

    fn feed(&self, session: SessionKey, after: u64, max: usize) -> StoreFuture<'_, Vec<FeedItem>> {
        self.own.feed(session, after, max)
    }

    fn number_at(&self, key: ThreadKey, seq: Seq) -> StoreFuture<'_, Option<u64>> {
        self.own.number_at(key, seq)
    }

    fn feed_end(&self, session: SessionKey) -> StoreFuture<'_, u64> {
        self.own.feed_end(session)
    }

    fn feed_changed(&self, session: SessionKey, after: u64) -> StoreFuture<'_, ()> {
        self.own.feed_changed(session, after)
    }

    fn due(&self, kind: DueKind, after: Option<ThreadKey>, max: usize) -> StoreFuture<'_, Vec<ThreadKey>> {
        self.own.due(kind, after, max)
    }
}

impl Store for OverlayStore {
    fn create_session(&self, session: NewSession) -> StoreFuture<'_, ()> {
        self.own.create_session(session)
    }

    fn create_log(&self, log: NewLog) -> StoreFuture<'_, ()> {
        self.own.create_log(log)
    }

    fn fork(&self, _from: ThreadKey, _log: NewLog) -> StoreFuture<'_, ()> {
        let (place, detail) = ("a scratch thread".to_owned(), "it can't be forked".to_owned());
        Box::pin(async move { Err(StoreError::Unavailable { place, detail }) })
    }

    fn search(&self, key: ThreadKey, search: Search) -> StoreFuture<'_, Vec<SearchHit>> {
        Box::pin(async move {
            if search.within == search::ranges_of(&self.state.archives) {
                return self.before.search(key, search).await;
            }
            // Items archived only in memory are in no index.
            let mut items = Vec::new();
            for (first, last) in &search.within {
                let seq = Seq(first.0.saturating_sub(1));
                let max = usize::try_from(last.0.saturating_sub(seq.0)).unwrap_or(usize::MAX);
                items.extend(self.read_after(key.clone(), seq, max).await?);
            }
            Ok(search::scan(&items, &search.within, &search))
        })
    }

    fn sessions(
        &self,
        tenant: Tenant,
        after: Option<SessionId>,
        max: usize,
    ) -> StoreFuture<'_, Vec<SessionInfo>> {
        self.own.sessions(tenant, after, max)
    }

    fn threads(&self, session: SessionKey) -> StoreFuture<'_, Vec<ThreadInfo>> {
        self.own.threads(session)
    }

    fn delete_session(&self, session: SessionKey) -> StoreFuture<'_, bool> {
        self.own.delete_session(session)
    }

    fn delete_log(&self, key: ThreadKey) -> StoreFuture<'_, bool> {
        self.own.delete_log(key)
    }

    fn blob(&self, tenant: Tenant, hash: String) -> StoreFuture<'_, Option<String>> {
        Box::pin(async move {
            match self.own.blob(tenant.clone(), hash.clone()).await? {
                Some(text) => Ok(Some(text)),
                None => self.before.blob(tenant, hash).await,
            }
        })
    }

    fn usage(&self, tenant: Tenant) -> StoreFuture<'_, Usage> {
        self.own.usage(tenant)
    }

    fn vacuum(&self) -> StoreFuture<'_, ()> {
        self.own.vacuum()
    }

    fn log_with_start_key(&self, tenant: Tenant, start_key: String) -> StoreFuture<'_, Option<ThreadKey>> {
        self.own.log_with_start_key(tenant, start_key)
    }

    fn logs(&self, list: LogList) -> StoreFuture<'_, Vec<LogHead>> {
        self.own.logs(list)
    }

    fn prune_journals(&self, name: String, before: Timestamp, max: usize) -> StoreFuture<'_, u64> {
        self.own.prune_journals(name, before, max)
    }
}
