//! The life of a turn: it begins, items are appended, it ends or waits.

use std::sync::Arc;

use contexture_history::{Body, Change, Seq, TurnNo, TurnStatus, Visibility};
use contexture_message::Usage;
use futures::future::{Either, select};

use super::Thread;
use super::outcome::{self, TurnOutcome};
use crate::config::Policy;
use crate::live::{Backoff, LiveThread, LockUse, WriteGuard};
use crate::log::draft::{Draft, closing};
use crate::store::{Fence, Guard, UnfinishedText};
use crate::view::{NewArchive, View, archive_draft};
use crate::{NewItem, SessionError, Snapshot, State, StoreError, ThreadId};

/// How a turn begins.
#[derive(Clone, Debug, Default)]
pub struct TurnConfig {
    /// The same key again gives the outcome of the first turn, not a second one.
    pub key: Option<String>,
    /// Resume the turn of that key if it did not complete: its writer was lost, it failed or it was interrupted. See
    /// [`Begun::Resumed`].
    pub resume: bool,
    /// What to do when a turn is already running.
    pub policy: Policy,
    /// Begin only if this is still the thread's newest turn, for a request that depends on what was read up to there;
    /// otherwise [`SessionError::TurnSuperseded`].
    pub after: Option<TurnNo>,
    /// The first items: the user's message and its envelopes.
    pub items: Vec<NewItem>,
    /// Which views include what the turn says. One that is not part of the history is read by the model while it is
    /// open, and not after it has ended. An item whose writer sets a visibility keeps that.
    pub visibility: Option<Visibility>,
    /// The user who began the turn, if the application has users: the author of the item that begins it.
    pub author: Option<String>,
}

/// The result of beginning a turn.
#[derive(Debug)]
pub enum Begun {
    /// A turn that runs now.
    Running(RunningTurn),
    /// The turn that the same key began before, running again (only with [`TurnConfig::resume`]). Its earlier items
    /// are already in the log; only the record that it was resumed was appended.
    Resumed(RunningTurn),
    /// The turn that the same key began before.
    Replayed(TurnOutcome),
}

/// How a turn ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TurnEnd {
    /// The final status, or [`TurnStatus::Suspended`]; never [`TurnStatus::InFlight`].
    pub status: TurnStatus,
    /// The reason, if there is one.
    pub reason: Option<String>,
    /// The stable code of the error that ended it, if one did.
    pub code: Option<String>,
    /// The usage of its model calls, if they are known.
    pub usage: Option<Usage>,
}

impl TurnEnd {
    /// Returns the end of a turn about which no more is known.
    pub fn new(status: TurnStatus, reason: Option<&str>) -> Self {
        Self { status, reason: reason.map(str::to_owned), code: None, usage: None }
    }
}

/// A turn that runs. Its holder is the thread's one writer until the turn ends.
///
/// A turn that is dropped without an end was interrupted; the thread's next writer puts that on record.
#[derive(Debug)]
pub struct RunningTurn {
    live: Arc<LiveThread>,
    writer: WriteGuard,
    turn: TurnNo,
    fence: Fence,
    /// The number in the session of the item with which it began or was resumed.
    began: u64,
}

impl Drop for RunningTurn {
    fn drop(&mut self) {
        self.live.note_use(LockUse::Brief);
    }
}

impl RunningTurn {
    /// Returns the turn's number.
    pub fn turn(&self) -> TurnNo {
        self.turn
    }

    /// Returns the thread it runs on; with [`Policy::Fork`] it may differ from the requested one.
    pub fn thread(&self) -> Thread {
        Thread::of(Arc::clone(&self.live))
    }

    /// Returns the current state of the thread.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.live.snapshot()
    }

    /// Returns the number in the session of the item with which the turn began or was resumed.
    pub fn began(&self) -> u64 {
        self.began
    }

    /// Returns the number in the session of its newest item.
    pub fn number(&self) -> u64 {
        self.writer.number
    }

    /// Returns what saves the text of an answer that begins now.
    pub fn unfinished(&self) -> Unfinished {
        let (began, after) = (self.began, self.writer.number);
        let (turn, end) = (self.turn, self.live.snapshot().state().end);
        let text = UnfinishedText { turn, end, began, after, ..UnfinishedText::default() };
        Unfinished { live: Arc::clone(&self.live), fence: self.fence, text }
    }

    /// Appends items to the turn. When it returns they are durable.
    pub async fn append(&mut self, items: Vec<NewItem>) -> Result<Seq, SessionError> {
        let items = self.live.shared.counted(self.within(items));
        self.put(self.hold(), items.into_iter().map(|it| (self.turn, it)).collect()).await
    }

    /// Archives a range of the view. Returns [`SessionError::ViewChanged`] and writes nothing if another writer
    /// changed the view in the meantime.
    pub async fn archive(&mut self, view: &View, new: &NewArchive) -> Result<(), SessionError> {
        let thread = self.live.key.thread.to_string();
        let draft = archive_draft(self.live.snapshot().state(), &view.state, new, &thread)?;
        self.put(self.hold(), draft).await.map(|_| ())
    }

    /// Ends the turn well, with the last items.
    pub async fn complete(self, items: Vec<NewItem>) -> Result<Seq, SessionError> {
        self.end(TurnEnd::new(TurnStatus::Completed, None), items).await
    }

    /// Completes the turn early, with a reason.
    pub async fn stop(self, reason: &str, items: Vec<NewItem>) -> Result<Seq, SessionError> {
        self.end(TurnEnd::new(TurnStatus::Completed, Some(reason)), items).await
    }

    /// Ends the turn because something broke, with what there is of it.
    pub async fn fail(self, reason: &str, items: Vec<NewItem>) -> Result<Seq, SessionError> {
        self.end(TurnEnd::new(TurnStatus::Failed, Some(reason)), items).await
    }

    /// Ends the turn because it was stopped, with its partial items.
    pub async fn interrupt(self, reason: &str, items: Vec<NewItem>) -> Result<Seq, SessionError> {
        self.end(TurnEnd::new(TurnStatus::Interrupted, Some(reason)), items).await
    }

    /// Suspends the turn until an outside answer arrives; [`Thread::resume`] continues it, in any process.
    pub async fn suspend(self, reason: &str, items: Vec<NewItem>) -> Result<Seq, SessionError> {
        self.end(TurnEnd::new(TurnStatus::Suspended, Some(reason)), items).await
    }

    /// Ends or suspends the turn, with the last items.
    pub async fn end(mut self, end: TurnEnd, items: Vec<NewItem>) -> Result<Seq, SessionError> {
        let TurnEnd { status, reason, code, usage } = end;
        let ended = NewItem::of(Body::Change(Change::TurnEnded { status, reason, code, usage }));
        let items = self.live.shared.counted(self.within(items)).into_iter().chain([ended]);
        let draft = items.map(|it| (self.turn, it)).collect();
        // Others may see the end before the lock is free.
        self.live.note_use(LockUse::Brief);
        self.put(Guard::Release { fence: self.fence }, draft).await
    }

    /// Gives items the visibility of the turn.
    fn within(&self, items: Vec<NewItem>) -> Vec<NewItem> {
        let visibility = self.live.snapshot().state().open.and_then(|it| it.visibility);
        items.into_iter().map(|it| it.within(visibility)).collect()
    }

    fn hold(&self) -> Guard {
        Guard::Hold { fence: self.fence, ttl: self.live.shared.config.lease }
    }

    async fn put(&mut self, guard: Guard, draft: Draft) -> Result<Seq, SessionError> {
        let mut backoff = Backoff::new(&self.live.shared.config);
        loop {
            match self.live.try_append(&mut self.writer, guard.clone(), |_| Ok(draft.clone())).await {
                Err(SessionError::Store(StoreError::Conflict { thread, .. })) => {
                    self.catch_up(thread, &mut backoff).await?;
                }
                done => return done.map(|()| self.live.snapshot().state().end),
            }
        }
    }

    /// Reloads the log after it grew during the turn. An append of this turn whose caller stopped waiting is harmless;
    /// anything else means that another writer took over.
    async fn catch_up(&mut self, thread: String, backoff: &mut Backoff) -> Result<(), SessionError> {
        self.live.refresh(&self.writer).await?;
        let open = self.live.snapshot().state().open;
        let is_ours = open.is_some_and(|it| it.turn == self.turn && it.status == TurnStatus::InFlight);
        match backoff.next().filter(|_| is_ours) {
            Some(pause) => {
                self.live.shared.ports.time.sleep(pause).await;
                Ok(())
            }
            None => Err(StoreError::Fenced { thread, fence: self.fence }.into()),
        }
    }

    /// Renews the lease.
    pub async fn renew(&mut self) -> Result<(), SessionError> {
        self.live.shared.store.lease(self.live.key.clone(), self.hold()).await?;
        Ok(())
    }

    /// Waits for `work`, such as a model's answer, and renews the lease in the meantime. A store that can't be reached
    /// does not end the wait: whether the lease was lost shows at the next append.
    pub async fn while_alive<F: Future + Unpin>(&mut self, mut work: F) -> Result<F::Output, SessionError> {
        loop {
            let pause = self.live.shared.ports.time.sleep(self.live.shared.config.lease / 3);
            match select(work, pause).await {
                Either::Left((done, _)) => return Ok(done),
                Either::Right(((), unfinished)) => work = unfinished,
            }
            match self.renew().await {
                Err(err) if err.is_outage() => {}
                renewed => renewed?,
            }
        }
    }
}

/// The text of an answer that is not whole yet, for followers elsewhere and for the case that this process is lost.
#[derive(Clone, Debug)]
pub struct Unfinished {
    live: Arc<LiveThread>,
    fence: Fence,
    text: UnfinishedText,
}

impl Unfinished {
    /// Returns what is saved.
    pub fn text(&self) -> &UnfinishedText {
        &self.text
    }

    /// Adds text.
    pub fn push_text(&mut self, text: &str) {
        self.text.text.push_str(text);
    }

    /// Adds thinking.
    pub fn push_thinking(&mut self, text: &str) {
        self.text.thinking.push_str(text);
    }

    /// Saves the text so far, in place of what was saved before.
    pub async fn save(&self) -> Result<(), SessionError> {
        Ok(self.live.shared.store.save(self.live.key.clone(), self.fence, self.text.clone()).await?)
    }
}

/// Begins a turn on this thread, or finds the one that the same key began before.
pub(super) async fn begin_here(live: &Arc<LiveThread>, config: &TurnConfig) -> Result<Begun, SessionError> {
    let mut writer = live.lock_writer(config.policy).await?;
    let mut backoff = Backoff::new(&live.shared.config);
    loop {
        // The snapshot must not be older than the key lookup that follows.
        live.refresh_if_stale(&mut writer).await?;
        let before = match &config.key {
            Some(key) => outcome::of_key(live, key).await?,
            None => None,
        };
        let (done, begun): (_, fn(RunningTurn) -> Begun) = match before {
            Some(before) if before.is_final(config.resume) => return Ok(Begun::Replayed(before)),
            Some(before) if config.resume => (resume_keyed(live, &mut writer, &before).await, Begun::Resumed),
            Some(_) => {
                close(live, &mut writer, config.policy, &mut backoff).await?;
                continue;
            }
            None => {
                let draft = |state: &State| start_draft(state, config, &live.key.thread);
                (live.append_next(&mut writer, acquire(live), draft).await, Begun::Running)
            }
        };
        match done {
            Err(SessionError::Store(err)) => {
                live.recover(&mut writer, config.policy, &mut backoff, err).await?;
            }
            done => return done.and_then(|()| running(live, writer)).map(begun),
        }
    }
}

fn acquire(live: &LiveThread) -> Guard {
    Guard::Acquire { owner: Arc::clone(&live.shared.owner), ttl: live.shared.config.lease }
}

fn start_draft(state: &State, config: &TurnConfig, thread: &ThreadId) -> Result<Draft, SessionError> {
    if let Some(turn) = config.after.filter(|it| *it != state.turn) {
        return Err(SessionError::TurnSuperseded { thread: thread.to_string(), turn });
    }
    let turn = state.turn.next();
    let (key, visibility) = (config.key.clone(), config.visibility);
    let mut began = NewItem::of(Body::Change(Change::TurnBegan { key, visibility }));
    began.author.clone_from(&config.author);
    let own = [began].into_iter().chain(config.items.iter().cloned());
    Ok(closing(state).into_iter().chain(own.map(|it| (turn, it))).collect())
}

fn running(live: &Arc<LiveThread>, writer: WriteGuard) -> Result<RunningTurn, SessionError> {
    let snapshot = live.snapshot();
    let turn = snapshot.turn();
    let thread = || live.key.thread.to_string();
    let fence = writer.fence.ok_or_else(|| StoreError::Held { thread: thread() })?;
    // The item with which it began or was resumed is in the commit that was just written.
    let n_behind = snapshot.state().end.0.saturating_sub(snapshot.state().started.0);
    let began = writer.number.saturating_sub(n_behind);
    live.note_use(LockUse::Turn);
    Ok(RunningTurn { live: Arc::clone(live), writer, turn, fence, began })
}

/// Continues a suspended turn.
pub(crate) async fn resume(
    live: &Arc<LiveThread>,
    turn: TurnNo,
    policy: Policy,
) -> Result<RunningTurn, SessionError> {
    let mut writer = live.lock_writer(policy).await?;
    let mut backoff = Backoff::new(&live.shared.config);
    let thread = live.key.thread.to_string();
    let draft = |state: &State| match state.open {
        Some(open) if open.turn == turn && open.status == TurnStatus::Suspended => {
            Ok(vec![(turn, NewItem::of(Body::Change(Change::TurnResumed)))])
        }
        _ => Err(SessionError::NotSuspended { thread: thread.clone(), turn }),
    };
    // Another process may have suspended it: this one's snapshot need not know yet.
    live.refresh(&writer).await?;
    loop {
        match live.try_append(&mut writer, acquire(live), draft).await {
            Err(SessionError::Store(err)) => live.recover(&mut writer, policy, &mut backoff, err).await?,
            done => return done.and_then(|()| running(live, writer)),
        }
    }
}

/// Ends a turn whose writer was lost, or waits a little if it runs in another process.
async fn close(
    live: &LiveThread,
    writer: &mut WriteGuard,
    policy: Policy,
    backoff: &mut Backoff,
) -> Result<(), SessionError> {
    live.refresh(writer).await?;
    match live.append_next(writer, writer.releasing(), |_| Ok(Draft::new())).await {
        Err(SessionError::Store(err)) => live.recover(writer, policy, backoff, err).await,
        done => done,
    }
}

/// Reopens a turn that did not complete, if it is still the newest turn of the thread.
async fn resume_keyed(
    live: &LiveThread,
    writer: &mut WriteGuard,
    before: &TurnOutcome,
) -> Result<(), SessionError> {
    let thread = || live.key.thread.to_string();
    let (Some(first), Some(last)) = (before.items.first(), before.items.last()) else {
        return Err(SessionError::TurnSuperseded { thread: thread(), turn: before.turn });
    };
    let resumed = |state: &State| {
        if state.turn > before.turn || state.history_after >= first.seq {
            return Err(SessionError::TurnSuperseded { thread: thread(), turn: before.turn });
        }
        if state.end != last.seq {
            // This process knows less than was looked up, or more: to be looked up again.
            let (expected, found) = (state.end, last.seq);
            return Err(StoreError::Conflict { thread: thread(), expected, found }.into());
        }
        Ok(vec![(before.turn, NewItem::of(Body::Change(Change::TurnResumed)))])
    };
    live.try_append(writer, acquire(live), resumed).await
}
