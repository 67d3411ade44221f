//! Copies of a thread.

use contexture_history::Seq;
use futures::TryStreamExt as _;

use super::turn::{self, Begun, TurnConfig};
use super::{Thread, isolated_name};
use crate::config::Policy;
use crate::search::ranges_of;
use crate::store::codec::blob_hash;
use crate::store::{ForkPoint, Head, LogState, NewLog, pages};
use crate::{SessionError, SessionKey, State, StoreError, ThreadId, ThreadKey};

impl Thread {
    /// Begins a turn on the thread, or on a copy of it. A key may have begun a turn on either before.
    pub(super) async fn begin_or_fork(&self, config: TurnConfig) -> Result<Begun, SessionError> {
        let key = config.key.as_deref();
        let place = match self.place_of(key).await? {
            Some(place) => place,
            None => match turn::begin_here(&self.live, &config).await {
                // The turn that runs may have begun with the key in this moment.
                Err(SessionError::TurnInProgress { .. }) => match self.place_of(key).await? {
                    Some(place) => place,
                    None => self.fork_before_running(key).await?,
                },
                done => return done,
            },
        };
        turn::begin_here(&place.live, &TurnConfig { policy: Policy::Queue, ..config }).await
    }

    /// Returns the thread or the copy of it on which a key began a turn, or is about to.
    async fn place_of(&self, key: Option<&str>) -> Result<Option<Thread>, SessionError> {
        let Some(key) = key else { return Ok(None) };
        if self.outcome(key).await?.is_some() {
            return Ok(Some(self.clone()));
        }
        let own_copy = isolated_name(&self.id().session(), &copy_name(self.id(), key))?;
        for copy in self.copies().await? {
            if *copy.id() == own_copy || copy.outcome(key).await?.is_some() {
                return Ok(Some(copy));
            }
        }
        Ok(None)
    }

    /// Copies the thread as it was before the turn that is running. All requests with one key get one copy.
    async fn fork_before_running(&self, key: Option<&str>) -> Result<Thread, SessionError> {
        let head = self.head().await?;
        let before = head.state.open.map(|it| Seq(it.began.0.saturating_sub(1)));
        match key {
            Some(key) => self.fork_once(key, before, None).await,
            None => self.fork_at(head, before, None, self.live.shared.ports.names.next()).await,
        }
    }

    /// Lists the threads that are copies of this one.
    pub(crate) async fn copies(&self) -> Result<Vec<Thread>, SessionError> {
        let shared = &self.live.shared;
        let mut copies = Vec::new();
        for info in shared.store.threads(self.live.key.session()).await? {
            if info.base.is_some_and(|it| it.thread == *self.id()) {
                let key = ThreadKey { tenant: self.live.key.tenant.clone(), thread: info.thread };
                copies.push(Thread::of(shared.live(key).await?));
            }
        }
        Ok(copies)
    }

    /// Copies the thread, up to a position if given, into a new thread of the same session.
    pub async fn fork(&self, at: Option<Seq>, label: Option<String>) -> Result<Thread, SessionError> {
        let name = self.live.shared.ports.names.next();
        self.fork_at(self.head().await?, at, label, name).await
    }

    /// Copies the thread as [`fork`](Thread::fork) does, once: the same key again gives the same copy.
    pub async fn fork_once(
        &self,
        key: &str,
        at: Option<Seq>,
        label: Option<String>,
    ) -> Result<Thread, SessionError> {
        let (head, name) = (self.head().await?, copy_name(self.id(), key));
        let thread = isolated_name(&head.info.session, &name)?;
        match self.fork_at(head, at, label, name).await {
            Err(SessionError::Store(StoreError::Exists { .. })) => {
                let key = ThreadKey { tenant: self.live.key.tenant.clone(), thread };
                Ok(Thread::of(self.live.shared.live_now(key).await?))
            }
            copied => copied,
        }
    }

    /// Copies the thread, up to a position if given, into a new thread of the same session with a given name.
    pub(crate) async fn fork_at(
        &self,
        head: Head,
        at: Option<Seq>,
        label: Option<String>,
        name: String,
    ) -> Result<Thread, SessionError> {
        let shared = &self.live.shared;
        let end = position(&head, at)?;
        let state = self.state_at(head.state, end).await?;
        let thread = isolated_name(&head.info.session, &name)?;
        let tenant = self.live.key.tenant.clone();
        let session = SessionKey { tenant: tenant.clone(), session: head.info.session };
        let new = NewLog {
            label,
            base: Some(ForkPoint { thread: self.id().clone(), seq: end }),
            state: LogState::from(&state),
            archived: ranges_of(&state.archives),
            ..NewLog::isolated(session, thread.clone(), shared.ports.time.now())
        };
        shared.store.fork(self.live.key.clone(), new).await?;
        let key = ThreadKey { tenant, thread };
        // This process may still hold a handle to a released thread of the same name.
        Ok(Thread::of(shared.live_now(key).await?))
    }

    /// Returns the state after the item at `end`.
    async fn state_at(&self, now: State, end: Seq) -> Result<State, SessionError> {
        if now.end == end {
            return Ok(now);
        }
        let mut state = State::default();
        let mut items = pages::items_after(&*self.live.shared.store, self.live.key.clone(), state.end);
        while let Some(item) = items.try_next().await?.filter(|it| it.seq <= end) {
            state.apply(&item);
        }
        Ok(state)
    }
}

/// Returns the name of the copy of a thread that a key makes.
fn copy_name(thread: &ThreadId, key: &str) -> String {
    let hash = blob_hash(&format!("{thread}\n{key}"));
    format!("copy-{}", hash.chars().take(32).collect::<String>())
}

/// Returns the position up to which a thread is copied: its end, unless another one is given.
pub(crate) fn position(head: &Head, at: Option<Seq>) -> Result<Seq, SessionError> {
    let end = at.unwrap_or(head.state.end);
    if end > head.state.end {
        let (thread, what) = (head.info.thread.to_string(), format!("position {end}"));
        return Err(SessionError::NotInThread { thread, what });
    }
    Ok(end)
}
