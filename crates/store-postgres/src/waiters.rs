//! The waiters of sessions.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use contexture_session::{SessionKey, codec};
use tokio::sync::Notify;
use tokio::sync::futures::Notified;

/// The name of a session in notifications: the same in every process, short and opaque.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Topic(pub(crate) String);

impl Topic {
    pub(crate) fn new(key: &SessionKey) -> Topic {
        // Names have no control characters.
        let mut name = codec::blob_hash(&format!("{}\n{}", key.tenant, key.session));
        name.truncate(32);
        Topic(name)
    }
}

/// The waiters. A waiter is removed when it is dropped.
#[derive(Debug, Default)]
pub(crate) struct Waiters(Mutex<HashMap<Topic, Arc<Notify>>>);

/// A waiter of one topic.
#[derive(Debug)]
pub(crate) struct Waiter<'a> {
    waiters: &'a Waiters,
    topic: Topic,
    notify: Arc<Notify>,
}

impl Waiter<'_> {
    /// Returns what ends at the next wake, counted from now and not from the first time it is polled.
    pub(crate) fn woken(&self) -> Notified<'_> {
        self.notify.notified()
    }
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        let mut waiters = self.waiters.lock();
        // Released under the lock, so that of several waiters that leave together the last one sees that it is the
        // last.
        self.notify = Arc::default();
        if waiters.get(&self.topic).is_some_and(|it| Arc::strong_count(it) == 1) {
            waiters.remove(&self.topic);
        }
    }
}

impl Waiters {
    pub(crate) fn wait(&self, topic: Topic) -> Waiter<'_> {
        let notify = Arc::clone(self.lock().entry(topic.clone()).or_default());
        Waiter { waiters: self, topic, notify }
    }

    pub(crate) fn wake(&self, topic: &Topic) {
        if let Some(notify) = self.lock().get(topic) {
            notify.notify_waiters();
        }
    }

    /// Wakes everyone: something may have been missed.
    pub(crate) fn wake_all(&self) {
        self.lock().values().for_each(|it| it.notify_waiters());
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Topic, Arc<Notify>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use contexture_session::{SessionId, SessionKey, Tenant};
    use futures::FutureExt;

    use super::{Topic, Waiters};

    fn topic(name: &str) -> Topic {
        let session = SessionId::parse(name).unwrap();
        Topic::new(&SessionKey { tenant: Tenant::default(), session })
    }

    #[test]
    fn a_wake_between_looking_and_waiting_is_not_missed() {
        let waiters = Waiters::default();
        let waiter = waiters.wait(topic("a"));
        let woken = waiter.woken();
        waiters.wake(&topic("b"));
        assert_eq!(waiter.woken().now_or_never(), None);
        waiters.wake(&topic("a"));
        assert_eq!(woken.now_or_never(), Some(()));
    }

    #[test]
    fn a_dropped_waiter_is_forgotten() {
        let waiters = Waiters::default();
        let (one, other) = (waiters.wait(topic("a")), waiters.wait(topic("a")));
        drop(one);
        assert_eq!(waiters.lock().len(), 1);
        let woken = other.woken();
        waiters.wake_all();
        assert_eq!(woken.now_or_never(), Some(()));
        drop(other);
        assert_eq!(waiters.lock().len(), 0);
    }
}
