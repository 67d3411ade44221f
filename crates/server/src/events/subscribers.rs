//! Subscribers to the answers of sessions.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use contexture_session::SessionKey;
use tokio::sync::Notify;
use tokio::sync::futures::Notified;

/// All subscribers, by session. Clones share everything.
#[derive(Clone, Debug, Default)]
pub(crate) struct Subscribers(Arc<Mutex<BTreeMap<SessionKey, SessionSubscribers>>>);

#[derive(Debug, Default)]
struct SessionSubscribers {
    n_subscribers: usize,
    notify: Arc<Notify>,
}

/// A subscription to a session.
#[derive(Debug)]
pub(crate) struct Subscription {
    subscribers: Subscribers,
    session: SessionKey,
    notify: Arc<Notify>,
}

impl Subscribers {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<SessionKey, SessionSubscribers>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Listens to a session.
    pub(crate) fn subscribe(&self, session: &SessionKey) -> Subscription {
        let mut all = self.lock();
        let listening = all.entry(session.clone()).or_default();
        listening.n_subscribers += 1;
        let notify = Arc::clone(&listening.notify);
        drop(all);
        Subscription { subscribers: self.clone(), session: session.clone(), notify }
    }

    /// Wakes the subscribers of a session.
    pub(crate) fn wake(&self, session: &SessionKey) {
        if let Some(listening) = self.lock().get(session) {
            listening.notify.notify_waiters();
        }
    }
}

impl Subscription {
    /// Completes at the next event after this call. Read the existing events only after calling it.
    pub(crate) fn notified(&self) -> Notified<'_> {
        self.notify.notified()
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        let mut all = self.subscribers.lock();
        if let Some(listening) = all.get_mut(&self.session) {
            listening.n_subscribers -= 1;
            if listening.n_subscribers == 0 {
                all.remove(&self.session);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use contexture_session::{SessionId, SessionKey, Tenant};
    use futures::FutureExt;

    use super::Subscribers;

    #[test]
    fn who_listens_is_woken_and_who_is_gone_is_forgotten() {
        let session =
            |id: &str| SessionKey { tenant: Tenant::default(), session: SessionId::parse(id).unwrap() };
        let (a, b) = (session("a"), session("b"));
        let subscribers = Subscribers::default();
        let (one, other, third) =
            (subscribers.subscribe(&a), subscribers.subscribe(&a), subscribers.subscribe(&b));
        let notify = [one.notified(), other.notified(), third.notified()];
        subscribers.wake(&a);
        assert_eq!(notify.map(|it| it.now_or_never().is_some()), [true, true, false]);
        drop(one);
        assert_eq!(subscribers.lock().len(), 2);
        drop((other, third));
        assert!(subscribers.lock().is_empty());
    }
}
