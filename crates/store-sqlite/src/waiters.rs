//! The waiters of sessions.

use std::collections::HashMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use contexture_session::{SessionKey, ThreadKey};
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

/// The waiters, by session.
#[derive(Debug, Default)]
pub(crate) struct Waiters {
    waiting: Mutex<WaitList>,
    /// A waiter was added, or the store is closed.
    news: Condvar,
}

#[derive(Debug, Default)]
struct WaitList {
    sessions: HashMap<SessionKey, Vec<Waiter>>,
    next: u64,
    closed: bool,
}

#[derive(Debug)]
struct Waiter {
    no: u64,
    /// What it has seen; unknown until it has looked.
    seen: Option<FeedState>,
    /// Not checked yet by the thread that watches other processes.
    is_new: bool,
    notify: oneshot::Sender<()>,
}

/// An entry in the wait list. Dropping it removes the entry.
#[derive(Debug)]
pub(crate) struct Wait {
    waiters: Arc<Waiters>,
    session: SessionKey,
    no: u64,
    notified: oneshot::Receiver<()>,
}

impl Wait {
    /// Waits for the next notice. `seen` is what the waiter has seen since it began to wait: other processes do not
    /// notify, so the session is compared with it.
    pub(crate) async fn notified(mut self, seen: FeedState) {
        self.set_seen(seen);
        // A sender that was dropped is a notice too: waiters may be woken early.
        let _ = (&mut self.notified).await;
    }

    fn set_seen(&self, seen: FeedState) {
        let mut waiting = self.waiters.lock();
        let mut entries = waiting.sessions.get_mut(&self.session).into_iter().flatten();
        if let Some(entry) = entries.find(|it| it.no == self.no) {
            entry.seen = Some(seen);
        }
    }
}

impl Drop for Wait {
    fn drop(&mut self) {
        let mut waiting = self.waiters.lock();
        if let Some(waiters) = waiting.sessions.get_mut(&self.session) {
            waiters.retain(|it| it.no != self.no);
            if waiters.is_empty() {
                waiting.sessions.remove(&self.session);
            }
        }
    }
}

impl Waiters {
    fn lock(&self) -> MutexGuard<'_, WaitList> {
        // Every change of the list is a single step: a panic elsewhere leaves nothing half done.
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins to wait. Look at the session only after this: what is written in between is then not missed.
    pub(crate) fn wait(self: &Arc<Self>, session: SessionKey) -> Wait {
        let (notify, notified) = oneshot::channel();
        let mut waiting = self.lock();
        waiting.next += 1;
        let no = waiting.next;
        let waiter = Waiter { no, seen: None, is_new: true, notify };
        waiting.sessions.entry(session.clone()).or_default().push(waiter);
        drop(waiting);
        self.news.notify_all();
        Wait { waiters: Arc::clone(self), session, no, notified }
    }

    /// Wakes the waiters of a log's session.
    pub(crate) fn wake(&self, log: &ThreadKey) {
        let mut waiting = self.lock();
        // Most of the time there are no waiters.
        if !waiting.sessions.is_empty() {
            let waiters = waiting.sessions.remove(&log.session());
            drop(waiting);
            notify(waiters.into_iter().flatten());
        }
    }

    /// Wakes the waiters that have seen something else of a session than what is there now.
    pub(crate) fn wake_behind(&self, session: &SessionKey, now: Option<FeedState>) {
        let mut waiting = self.lock();
        let Some(waiters) = waiting.sessions.get_mut(session) else { return };
        let is_behind = |it: &mut Waiter| it.seen.is_some() && it.seen != now;
        let behind: Vec<Waiter> = waiters.extract_if(.., is_behind).collect();
        drop(waiting);
        notify(behind.into_iter());
    }

    /// Wakes all waiters.
    pub(crate) fn wake_all(&self) {
        let sessions = std::mem::take(&mut self.lock().sessions);
        notify(sessions.into_values().flatten());
    }

    /// Ends the thread that watches other processes.
    pub(crate) fn close(&self) {
        self.lock().closed = true;
        self.news.notify_all();
    }

    /// Sleeps until there is a waiter; false once the store is closed.
    pub(crate) fn has_waiters(&self) -> bool {
        let idle = |it: &mut WaitList| it.sessions.is_empty() && !it.closed;
        let waiting = self.news.wait_while(self.lock(), idle).unwrap_or_else(PoisonError::into_inner);
        !waiting.closed
    }

    /// Sleeps for a while, or until the store is closed.
    pub(crate) fn pause(&self, pause: Duration) {
        let _ = self.news.wait_timeout_while(self.lock(), pause, |it| !it.closed);
    }

    /// Returns the sessions to look at: all of them, or those of new waiters.
    pub(crate) fn to_look_at(&self, all: bool) -> Vec<SessionKey> {
        let mut waiting = self.lock();
        let mut sessions = Vec::new();
        for (session, waiters) in &mut waiting.sessions {
            let mut must_look = false;
            // A waiter that has not looked itself yet stays new.
            for waiter in waiters.iter_mut().filter(|it| it.seen.is_some()) {
                must_look |= std::mem::replace(&mut waiter.is_new, false) || all;
            }
            sessions.extend(must_look.then(|| session.clone()));
        }
        sessions
    }
}

/// Outside of the lock: a woken task may run right here.
fn notify(waiters: impl Iterator<Item = Waiter>) {
    for waiter in waiters {
        let _ = waiter.notify.send(());
    }
}
