//! The waiters of sessions.

use std::collections::HashMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use contexture_session::{FeedItem, SessionKey, ThreadKey};
use futures::channel::oneshot;

/// How far a session is. Any difference is news.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FeedState {
    pub(crate) session: i64,
    /// The number of its newest item.
    pub(crate) end: u64,
    /// How often unfinished texts were saved.
    pub(crate) saves: u64,
}

/// Numbered items that were just appended.
#[derive(Debug)]
pub(crate) struct NewItems {
    /// The row of their session.
    pub(crate) session: i64,
    pub(crate) items: Arc<[FeedItem]>,
}

/// The waiters, by session.
#[derive(Debug, Default)]
pub(crate) struct Waiters {
    waiting: Mutex<WaitList>,
    /// There is a first waiter, or the store is closed.
    news: Condvar,
    /// The store is closed.
    closing: Condvar,
}

#[derive(Debug, Default)]
struct WaitList {
    sessions: HashMap<SessionKey, Vec<Waiter>>,
    /// Whether the thread that watches other processes sleeps until there is a waiter.
    is_asleep: bool,
    closed: bool,
}

/// A waiter is woken by sending on this or dropping it. That happens without the lock: a waker may drop the last clone
/// of the store.
#[derive(Debug)]
struct Waiter {
    /// What it has seen since it began to wait; unknown until it has looked. Other processes do not notify, so the
    /// session is compared with it.
    seen: Arc<OnceLock<FeedState>>,
    woken: oneshot::Sender<Arc<[FeedItem]>>,
}

impl Waiter {
    fn has_seen(&self, now: Option<FeedState>) -> bool {
        self.seen.get().is_some_and(|it| Some(*it) == now)
    }
}

impl Waiters {
    fn lock(&self) -> MutexGuard<'_, WaitList> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a waiter, before it looks at the session: it stores what it sees, and waits until the receiver ends.
    pub(crate) fn wait(
        &self,
        session: SessionKey,
    ) -> (Arc<OnceLock<FeedState>>, oneshot::Receiver<Arc<[FeedItem]>>) {
        let (seen, (woken, ended)) = (Arc::default(), oneshot::channel());
        let waiter = Waiter { seen: Arc::clone(&seen), woken };
        let mut waiting = self.lock();
        let must_wake = std::mem::take(&mut waiting.is_asleep);
        waiting.sessions.entry(session).or_default().push(waiter);
        drop(waiting);
        if must_wake {
            self.news.notify_all();
        }
        (seen, ended)
    }

    /// Wakes the waiters of a log's session and hands them the items that were appended.
    pub(crate) fn wake(&self, log: &ThreadKey, appended: impl FnOnce() -> Option<NewItems>) {
        let mut waiting = self.lock();
        let woken = if waiting.sessions.is_empty() { None } else { waiting.sessions.remove(&log.session()) };
        drop(waiting);
        let Some(woken) = woken else { return };
        let Some(NewItems { session, items }) = appended() else { return };
        // A log that was recovered may be in another session than the one it is named after.
        let is_of = |it: &Waiter| it.seen.get().is_some_and(|it| it.session == session);
        for waiter in woken.into_iter().filter(is_of) {
            // It may be gone.
            let _ = waiter.woken.send(Arc::clone(&items));
        }
    }

    /// Wakes the waiters of a session that have not seen its current state, or have not looked yet.
    pub(crate) fn wake_behind(&self, session: &SessionKey, now: Option<FeedState>) {
        let mut waiting = self.lock();
        let Some(waiters) = waiting.sessions.get_mut(session) else { return };
        let behind: Vec<Waiter> = waiters.extract_if(.., |it| !it.has_seen(now)).collect();
        drop((waiting, behind));
    }

    pub(crate) fn wake_all(&self) {
        let woken = std::mem::take(&mut self.lock().sessions);
        drop(woken);
    }

    /// Ends the thread that watches other processes.
    pub(crate) fn close(&self) {
        self.lock().closed = true;
        self.news.notify_all();
        self.closing.notify_all();
    }

    /// Waits until there is a waiter; returns `false` once the store is closed.
    pub(crate) fn has_waiters(&self) -> bool {
        let idle = |it: &mut WaitList| {
            it.is_asleep = it.sessions.is_empty() && !it.closed;
            it.is_asleep
        };
        let waiting = self.news.wait_while(self.lock(), idle).unwrap_or_else(PoisonError::into_inner);
        !waiting.closed
    }

    /// Waits for a while, or until the store is closed.
    pub(crate) fn pause(&self, pause: Duration) {
        let _ = self.closing.wait_timeout_while(self.lock(), pause, |it| !it.closed);
    }

    /// Returns the sessions that are waited for, and forgets waiters that have gone.
    pub(crate) fn sessions(&self) -> Vec<SessionKey> {
        let mut waiting = self.lock();
        waiting.sessions.retain(|_, waiters| {
            waiters.retain(|it| !it.woken.is_canceled());
            !waiters.is_empty()
        });
        waiting.sessions.keys().cloned().collect()
    }
}
