//! The waiters of threads and streams.

use std::collections::HashMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use contexture_session::ThreadKey;
use contexture_session::records::StreamKey;
use futures::channel::oneshot;

/// A topic to wait for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Topic {
    Thread(ThreadKey),
    Stream(StreamKey),
}

impl From<ThreadKey> for Topic {
    fn from(key: ThreadKey) -> Self {
        Topic::Thread(key)
    }
}

impl From<StreamKey> for Topic {
    fn from(key: StreamKey) -> Self {
        Topic::Stream(key)
    }
}

/// The waiters, by topic.
#[derive(Debug, Default)]
pub(crate) struct Waiters {
    waiting: Mutex<WaitList>,
    /// A waiter was added, or the store is closed.
    news: Condvar,
}

#[derive(Debug, Default)]
struct WaitList {
    topics: HashMap<Topic, Vec<Waiter>>,
    next: u64,
    closed: bool,
}

#[derive(Debug)]
struct Waiter {
    no: u64,
    after: u64,
    /// Not checked yet by the thread that watches other processes.
    is_new: bool,
    notify: oneshot::Sender<()>,
}

/// An entry in the wait list. Dropping it removes the entry.
#[derive(Debug)]
pub(crate) struct Wait {
    waiters: Arc<Waiters>,
    topic: Topic,
    no: u64,
    notified: oneshot::Receiver<()>,
}

impl Wait {
    /// Waits for the next notice.
    pub(crate) async fn notified(mut self) {
        // A sender that was dropped is a notice too: waiters may be woken early.
        let _ = (&mut self.notified).await;
    }
}

impl Drop for Wait {
    fn drop(&mut self) {
        let mut waiting = self.waiters.lock();
        if let Some(waiters) = waiting.topics.get_mut(&self.topic) {
            waiters.retain(|it| it.no != self.no);
            if waiters.is_empty() {
                waiting.topics.remove(&self.topic);
            }
        }
    }
}

impl Waiters {
    fn lock(&self) -> MutexGuard<'_, WaitList> {
        // Every change of the list is a single step: a panic elsewhere leaves nothing half done.
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins to wait. Look at the log only after this: what is appended in between is then not missed.
    pub(crate) fn wait(self: &Arc<Self>, topic: Topic, after: u64) -> Wait {
        let (notify, notified) = oneshot::channel();
        let mut waiting = self.lock();
        waiting.next += 1;
        let no = waiting.next;
        waiting.topics.entry(topic.clone()).or_default().push(Waiter { no, after, is_new: true, notify });
        drop(waiting);
        self.news.notify_all();
        Wait { waiters: Arc::clone(self), topic, no, notified }
    }

    /// Wakes the waiters of a thread or a stream.
    pub(crate) fn wake(&self, topic: &Topic) {
        let waiters = self.lock().topics.remove(topic);
        notify(waiters.into_iter().flatten());
    }

    /// Wakes the waiters of a thread.
    pub(crate) fn wake_thread(&self, key: &ThreadKey) {
        // Most of the time there are no waiters.
        if !self.lock().topics.is_empty() {
            self.wake(&key.clone().into());
        }
    }

    /// Wakes the waiters of any of the streams.
    pub(crate) fn wake_streams(&self, streams: &[StreamKey]) {
        if !self.lock().topics.is_empty() {
            streams.iter().for_each(|it| self.wake(&it.clone().into()));
        }
    }

    /// Wakes all waiters.
    pub(crate) fn wake_all(&self) {
        let topics = std::mem::take(&mut self.lock().topics);
        notify(topics.into_values().flatten());
    }

    /// Ends the thread that watches other processes.
    pub(crate) fn close(&self) {
        self.lock().closed = true;
        self.news.notify_all();
    }

    /// Sleeps until there is a waiter; false once the store is closed.
    pub(crate) fn has_waiters(&self) -> bool {
        let idle = |it: &mut WaitList| it.topics.is_empty() && !it.closed;
        let waiting = self.news.wait_while(self.lock(), idle).unwrap_or_else(PoisonError::into_inner);
        !waiting.closed
    }

    /// Sleeps for a while, or until the store is closed.
    pub(crate) fn pause(&self, pause: Duration) {
        let _ = self.news.wait_timeout_while(self.lock(), pause, |it| !it.closed);
    }

    /// Returns those to look at, each with the least that it waits for.
    pub(crate) fn to_look_at(&self, everybody: bool) -> Vec<(Topic, u64)> {
        let mut waiting = self.lock();
        let wanted = waiting.topics.iter_mut().filter_map(|(topic, waiters)| {
            let is_wanted = everybody || waiters.iter().any(|it| it.is_new);
            waiters.iter_mut().for_each(|it| it.is_new = false);
            let after = waiters.iter().map(|it| it.after).min()?;
            is_wanted.then(|| (topic.clone(), after))
        });
        wanted.collect()
    }
}

/// Outside of the lock: a woken task may run right here.
fn notify(waiters: impl Iterator<Item = Waiter>) {
    for waiter in waiters {
        let _ = waiter.notify.send(());
    }
}
