//! The handle of a thread.

use std::sync::Arc;

use contexture_history::{Body, Change, Item, Limit, Seq, Turn, TurnNo};
use contexture_message::{Message, TokenCounter};
use futures::TryStreamExt as _;
use futures::stream::{self, Stream};

pub(crate) mod archives;
pub(crate) mod artifacts;
pub(crate) mod fork;
mod once;
pub(crate) mod outcome;
mod prepend;
pub(crate) mod turn;

use self::outcome::TurnOutcome;
use self::turn::{Begun, RunningTurn, TurnConfig};
use crate::config::Policy;
use crate::live::LiveThread;
use crate::log::draft::{Draft, draft_items};
use crate::log::notes::{is_stop_request, stop_request};
use crate::search::{self, Search, SearchHit};
use crate::store::{Head, Span, Store};
use crate::{
    IdInvalid, MemoryStore, NewItem, SessionError, SessionId, Snapshot, State, StoreError, ThreadId,
    ThreadKey, ids,
};

/// How many items a subscriber reads at once.
const PAGE: usize = 256;

/// The handle of a thread. All writes go through it; clones share one queue of writers.
///
/// A write returns once it is durable. Writes of one process queue; a turn holds the queue until it ends, so
/// do not wait for a write to a thread while you hold its [`RunningTurn`]: append to the turn instead.
#[derive(Clone, Debug)]
pub struct Thread {
    live: Arc<LiveThread>,
    policy: Policy,
}

impl Thread {
    pub(crate) fn of(live: Arc<LiveThread>) -> Self {
        Self { live, policy: Policy::Queue }
    }

    /// Returns a handle with another policy for writes during a running turn: wait (the default) or fail immediately.
    /// [`Policy::Fork`] applies to turns; other writes fail immediately with it.
    #[must_use]
    pub fn with_policy(mut self, policy: Policy) -> Self {
        self.policy = policy;
        self
    }

    /// Returns where the thread is.
    pub fn key(&self) -> &ThreadKey {
        &self.live.key
    }

    /// Returns the thread's name.
    pub fn id(&self) -> &ThreadId {
        &self.live.key.thread
    }

    /// Returns the store that holds the thread.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.live.shared.store
    }

    /// Whether its writes are private, see [`scratch`](Thread::scratch).
    pub fn is_scratch(&self) -> bool {
        self.live.is_scratch
    }

    /// Returns the counter used for appended items.
    pub fn counter(&self) -> Arc<dyn TokenCounter> {
        Arc::clone(&self.live.shared.ports.counter)
    }

    /// Caches a value for the thread in this process for as long as a handle to the thread exists. Replaces the
    /// previous value.
    pub fn remember<T: Send + Sync + 'static>(&self, value: Arc<T>) {
        self.live.set_memory(value);
    }

    /// Returns what this process keeps about the thread, if it is of that type.
    pub fn remembered<T: Send + Sync + 'static>(&self) -> Option<Arc<T>> {
        self.live.memory()?.downcast().ok()
    }

    /// Returns how many turns of history are loaded.
    pub fn history_window(&self) -> usize {
        self.live.shared.config.history_window
    }

    /// Returns the thread as this process knows it. It costs the same for a thread of any age.
    pub fn get(&self) -> Arc<Snapshot> {
        self.live.snapshot()
    }

    /// Returns the current state of the thread; other processes may have written to it.
    pub async fn refresh(&self) -> Result<Arc<Snapshot>, SessionError> {
        self.live.refresh_if_idle().await?;
        Ok(self.live.snapshot())
    }

    /// Appends a message as one commit.
    pub async fn add_message(&self, message: Message) -> Result<Arc<Snapshot>, SessionError> {
        self.add_messages(vec![message]).await
    }

    /// Appends messages as one commit. Each user message begins a turn; others belong to the newest one.
    pub async fn add_messages(&self, messages: Vec<Message>) -> Result<Arc<Snapshot>, SessionError> {
        self.add(messages.into_iter().map(NewItem::from).collect()).await
    }

    /// Appends messages if the thread still ends at a position, for a caller that has read it up to there; otherwise
    /// [`SessionError::TurnSuperseded`].
    pub async fn add_at(&self, end: Seq, messages: Vec<Message>) -> Result<Arc<Snapshot>, SessionError> {
        let items = self.live.shared.counted(messages.into_iter().map(NewItem::from).collect());
        self.write(|state| match state.end == end {
            true => Ok(draft_items(state, &items)),
            false => Err(SessionError::TurnSuperseded { thread: self.id().to_string(), turn: state.turn }),
        })
        .await
    }

    /// Appends items of any kind as one commit.
    pub async fn add(&self, items: Vec<NewItem>) -> Result<Arc<Snapshot>, SessionError> {
        let items = self.live.shared.counted(items);
        self.write(|state| Ok(draft_items(state, &items))).await
    }

    /// Sets the instructions, or takes them away.
    pub async fn set_system_instructions(&self, text: Option<&str>) -> Result<Arc<Snapshot>, SessionError> {
        self.change(Change::Instructions { text: text.map(str::to_owned) }).await
    }

    /// Sets the model of the thread.
    pub async fn set_provider_model(
        &self,
        provider: &str,
        model: &str,
    ) -> Result<Arc<Snapshot>, SessionError> {
        self.change(Change::Model { provider: provider.to_owned(), model: model.to_owned() }).await
    }

    /// Starts a new history. Nothing is deleted: the other views still show everything.
    pub async fn reset_history(&self) -> Result<Arc<Snapshot>, SessionError> {
        self.change(Change::HistoryReset).await
    }

    async fn change(&self, change: Change) -> Result<Arc<Snapshot>, SessionError> {
        self.write(|state| Ok(vec![(state.turn, NewItem::of(Body::Change(change.clone())))])).await
    }

    pub(crate) async fn write(
        &self,
        draft: impl Fn(&State) -> Result<Draft, SessionError>,
    ) -> Result<Arc<Snapshot>, SessionError> {
        let mut writer = self.live.lock_writer(self.policy).await?;
        self.live.write(&mut writer, self.policy, None, draft).await?;
        Ok(self.live.snapshot())
    }

    /// Begins a turn, or finds the one that the same idempotency key began before.
    pub async fn begin(&self, config: TurnConfig) -> Result<Begun, SessionError> {
        if let Some(key) = &config.key {
            ids::check("idempotency key", key)?;
        }
        let items = config.items.into_iter().map(|it| it.within(config.visibility)).collect();
        let items = self.live.shared.counted(items);
        let config = TurnConfig { items, ..config };
        match config.policy {
            Policy::Fork => self.begin_or_fork(config).await,
            Policy::Queue | Policy::Reject => turn::begin_here(&self.live, &config).await,
        }
    }

    /// Records the in-flight turn as interrupted if its writer was lost, that is, if its lease has expired. Returns
    /// that turn, or `None` without waiting if there is no such turn or it is still being written.
    pub async fn close_lost(&self) -> Result<Option<TurnNo>, SessionError> {
        self.live.close_lost().await
    }

    /// Asks the writer of a turn to stop it, in any process. Whether it does is in the log.
    pub async fn request_stop(&self, turn: TurnNo) -> Result<(), SessionError> {
        self.live.note(turn, stop_request()).await
    }

    /// Whether there is a recent request to stop a turn of this thread, or of a copy of it. The turn of a thread that was
    /// deleted is to stop too.
    pub async fn is_stop_requested(&self, thread: &ThreadId, turn: TurnNo) -> Result<bool, SessionError> {
        const NEWEST: usize = 64;
        let key = ThreadKey { tenant: self.live.key.tenant.clone(), thread: thread.clone() };
        let span = Span::NewestItems { count: NEWEST, client: false };
        match self.live.shared.store.read(key, span).await {
            Err(StoreError::NotFound { .. }) => Ok(true),
            newest => Ok(newest?.iter().any(|it| it.turn == turn && is_stop_request(&it.body))),
        }
    }

    /// Continues a suspended turn.
    pub async fn resume(&self, turn: TurnNo) -> Result<RunningTurn, SessionError> {
        turn::resume(&self.live, turn, self.policy).await
    }

    /// Returns the outcome of the turn that used an idempotency key, if there is one.
    pub async fn outcome(&self, key: &str) -> Result<Option<TurnOutcome>, SessionError> {
        outcome::of_key(&self.live, key).await
    }

    /// Returns what the model sees of the thread: the newest whole turns within a limit. Reads turns that are not
    /// loaded from the store.
    pub async fn history(&self, limit: Option<Limit>) -> Result<Vec<Arc<Turn>>, SessionError> {
        let snapshot = self.get();
        let wanted = match limit {
            Some(Limit::Turns(turns)) if turns > self.history_window() => turns,
            _ => return Ok(kept(&snapshot, limit, &*self.live.shared.ports.counter)),
        };
        let items = self.live.stored().view(wanted).await?.items;
        let leading = snapshot.turns().iter().filter(|it| it.is_leading()).cloned();
        Ok(leading.chain(contexture_history::turns(&items).into_iter().map(Arc::new)).collect())
    }

    /// Returns the newest items that a user interface shows.
    pub async fn client(&self, limit: Option<Limit>) -> Result<Vec<Item>, SessionError> {
        self.newest(limit, true).await
    }

    /// Returns the newest items of the log, regardless of their visibility.
    pub async fn all(&self, limit: Option<Limit>) -> Result<Vec<Item>, SessionError> {
        self.newest(limit, false).await
    }

    async fn newest(&self, limit: Option<Limit>, client: bool) -> Result<Vec<Item>, SessionError> {
        let count = match limit {
            Some(Limit::Turns(count)) => count,
            Some(Limit::Tokens(_)) | None => usize::MAX,
        };
        let mut items = self.read(Span::NewestItems { count, client }).await?;
        items.retain(|it| !client || it.visibility.client);
        // A number was kept to by the store.
        if matches!(limit, Some(Limit::Tokens(_))) {
            let kept = contexture_history::all(&items, limit).len();
            items.drain(..items.len() - kept);
        }
        Ok(items)
    }

    /// Returns items after a position, oldest first.
    pub async fn after(&self, seq: Seq, max: usize) -> Result<Vec<Item>, SessionError> {
        self.read(Span::After { seq, max }).await
    }

    /// Returns the newest items before a position, oldest first; for a `client` only those that a user interface
    /// shows. Also returns the position before which there are more, if there are any.
    pub async fn before(
        &self,
        seq: Seq,
        max: usize,
        client: bool,
    ) -> Result<(Vec<Item>, Option<Seq>), SessionError> {
        let (mut end, mut found) = (seq.0.min(self.get().state().end.0.saturating_add(1)), Vec::new());
        // Reads one item more than requested to find out whether there are earlier ones.
        while found.len() <= max && end > 1 {
            // Positions have no gaps, so a backward page is a forward page that starts further back.
            let page = u64::try_from(max.clamp(64, 1_000)).unwrap_or(1_000).min(end - 1);
            let span =
                Span::After { seq: Seq(end - 1 - page), max: usize::try_from(page).unwrap_or(usize::MAX) };
            let items = self.read(span).await?.into_iter().rev();
            let seen = items.filter(|it| it.seq.0 < end && (!client || it.visibility.client));
            found.extend(seen.take(max.saturating_add(1) - found.len()));
            end -= page;
        }
        let more = found.len() > max;
        found.truncate(max);
        found.reverse();
        let first = found.first().map(|it| it.seq).filter(|_| more);
        Ok((found, first))
    }

    pub(crate) async fn read(&self, span: Span) -> Result<Vec<Item>, SessionError> {
        Ok(self.live.shared.store.read(self.live.key.clone(), span).await?)
    }

    /// Returns the archived items that contain any word of a query, best first.
    pub async fn search(&self, query: &str, max: usize) -> Result<Vec<SearchHit>, SessionError> {
        let within = search::ranges_of(&self.head().await?.state.archives);
        let search = Search { query: query.to_owned(), within, max };
        Ok(self.live.shared.store.search(self.live.key.clone(), search).await?)
    }

    /// Follows the thread: every item after a position, each once and in order, now and as they come.
    pub fn subscribe(&self, after: Seq) -> impl Stream<Item = Result<Item, StoreError>> + Send + use<> {
        let (store, key) = (Arc::clone(&self.live.shared.store), self.live.key.clone());
        let pages = stream::try_unfold((store, key, after), |(store, key, seq)| async move {
            loop {
                // Items are always read after the last one that was returned; notices only trigger the next read.
                let items = store.read(key.clone(), Span::After { seq, max: PAGE }).await?;
                if let Some(last) = items.last().map(|it| it.seq) {
                    let items = stream::iter(items.into_iter().map(Ok));
                    return Ok::<_, StoreError>(Some((items, (store, key, last))));
                }
                store.changed(key.clone(), seq).await?;
            }
        });
        pages.try_flatten()
    }

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
    /// let scratch = thread.scratch();
    /// scratch.add_message(Message::assistant("Perhaps here.")).await?;
    /// assert_eq!(scratch.get().turns()[0].messages().len(), 2);
    /// assert_eq!(thread.get().turns()[0].messages().len(), 1);
    /// # Ok::<(), SessionError>(()) }).unwrap();
    /// ```
    pub fn scratch(&self) -> Thread {
        let (live, snapshot) = (&self.live, self.get());
        let (time, before) = (Arc::clone(&live.shared.ports.time), Arc::clone(&live.shared.store));
        let store = Arc::new(MemoryStore::continuing(time, &live.key, snapshot.state(), before));
        Thread::of(Arc::new(LiveThread::detached(live, store, snapshot))).with_policy(self.policy)
    }

    pub(crate) async fn head(&self) -> Result<Head, SessionError> {
        Ok(Head::existing(&*self.live.shared.store, &self.live.key).await?)
    }
}

fn kept(snapshot: &Snapshot, limit: Option<Limit>, counter: &dyn TokenCounter) -> Vec<Arc<Turn>> {
    let window = snapshot.history(limit, counter);
    let turns = snapshot.turns().iter().enumerate();
    turns.filter(|(idx, _)| window.is_kept(*idx)).map(|(_, turn)| Arc::clone(turn)).collect()
}

/// Returns the name of an isolated thread: its session's, and its own.
pub(crate) fn isolated_name(session: &SessionId, name: &str) -> Result<ThreadId, SessionError> {
    if name.starts_with('/') {
        return Err(IdInvalid::new("thread name", name, "it begins with a `/`").into());
    }
    Ok(ThreadId::parse(format!("{session}/{name}"))?)
}
