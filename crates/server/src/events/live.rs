//! What is told before anything of it is written: the answers that models are giving on this instance, and what runs
//! tell that is never written.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};

use contexture_agent::Piece;
use contexture_flow::{RunEvent, RunId};
use contexture_session::{SessionKey, Thread, ThreadId, UnfinishedText};
use tokio::sync::{Notify, broadcast};

use crate::lock::lock;

/// How much a follower may be behind what no log has before it misses some.
const MAX_UNLOGGED: usize = 1024;

/// The answers that grow on this instance. Clones share everything.
#[derive(Clone, Debug, Default)]
pub(crate) struct LiveAnswers(Arc<Mutex<HashMap<SessionKey, LiveSession>>>);

/// A session that has followers or growing answers here.
#[derive(Debug, Default)]
struct LiveSession {
    answers: BTreeMap<ThreadId, UnfinishedText>,
    /// Notified of more text. Followers hold it too.
    grown: Arc<Notify>,
    /// What runs tell that no log has; there once a run of the session is followed.
    unlogged: Option<broadcast::Sender<(RunId, RunEvent)>>,
}

impl LiveSession {
    fn is_used(&self) -> bool {
        let has_run_followers = || self.unlogged.as_ref().is_some_and(|it| it.receiver_count() > 0);
        !self.answers.is_empty() || Arc::strong_count(&self.grown) > 1 || has_run_followers()
    }
}

impl LiveAnswers {
    /// Returns what is notified whenever an answer of a session grows.
    pub(crate) fn subscribe(&self, session: &SessionKey) -> Arc<Notify> {
        let mut sessions = lock(&self.0);
        if sessions.len() == sessions.capacity() {
            sessions.retain(|_, it| it.is_used());
        }
        Arc::clone(&sessions.entry(session.clone()).or_default().grown)
    }

    /// Returns what the runs of a session tell from now on that no log has.
    pub(crate) fn subscribe_to_runs(&self, session: &SessionKey) -> broadcast::Receiver<(RunId, RunEvent)> {
        let mut sessions = lock(&self.0);
        let unlogged = &mut sessions.entry(session.clone()).or_default().unlogged;
        unlogged.get_or_insert_with(|| broadcast::Sender::new(MAX_UNLOGGED)).subscribe()
    }

    /// Tells the followers of a run what no log has.
    pub(crate) fn tell_run(&self, session: &SessionKey, run: &RunId, event: &RunEvent) {
        let sessions = lock(&self.0);
        let Some(live) = sessions.get(session) else { return };
        if let Some(unlogged) = live.unlogged.as_ref().filter(|it| it.receiver_count() > 0) {
            let _ = unlogged.send((run.clone(), event.clone()));
            live.grown.notify_waiters();
        }
    }

    /// Shows the answers of a session to `see`.
    pub(crate) fn each(&self, session: &SessionKey, mut see: impl FnMut(&ThreadId, &UnfinishedText)) {
        let sessions = lock(&self.0);
        let answers = sessions.get(session).into_iter().flat_map(|it| &it.answers);
        answers.for_each(|(thread, answer)| see(thread, answer));
    }

    /// Notes that a model said more.
    pub(crate) fn streamed(&self, thread: &Thread, answer: &UnfinishedText, piece: Piece<'_>) {
        let mut sessions = lock(&self.0);
        let live = sessions.entry(thread.key().session()).or_default();
        match (live.answers.get_mut(thread.id()).filter(|it| is_same(it, answer)), piece) {
            (Some(grows), Piece::Text(text)) => grows.text.push_str(text),
            (Some(grows), Piece::Thinking(text)) => grows.thinking.push_str(text),
            (None, _) => _ = live.answers.insert(thread.id().clone(), answer.clone()),
        }
        live.grown.notify_waiters();
    }

    /// Forgets an answer: from here on the log is about to have it, or it never does.
    pub(crate) fn settled(&self, thread: &Thread, answer: &UnfinishedText) {
        let (mut sessions, session) = (lock(&self.0), thread.key().session());
        let Some(live) = sessions.get_mut(&session) else { return };
        if live.answers.get(thread.id()).is_some_and(|it| is_same(it, answer)) {
            live.answers.remove(thread.id());
        }
        if !live.is_used() {
            sessions.remove(&session);
        }
    }
}

fn is_same(a: &UnfinishedText, b: &UnfinishedText) -> bool {
    (a.began, a.after) == (b.began, b.after)
}

#[cfg(test)]
mod tests {
    use contexture_session::{SessionId, SessionKey, Tenant};
    use futures::FutureExt;

    use super::LiveAnswers;
    use crate::lock::lock;

    #[test]
    fn followers_are_notified_and_forgotten_once_they_are_gone() {
        let session =
            |id: &str| SessionKey { tenant: Tenant::default(), session: SessionId::parse(id).unwrap() };
        let (a, b) = (session("a"), session("b"));
        let live = LiveAnswers::default();
        let followers = [live.subscribe(&a), live.subscribe(&a), live.subscribe(&b)];
        let notified = followers.each_ref().map(|it| it.notified());
        lock(&live.0)[&a].grown.notify_waiters();
        assert_eq!(notified.map(|it| it.now_or_never().is_some()), [true, true, false]);
        assert_eq!(lock(&live.0).len(), 2);
        drop(followers);
        let kept: Vec<_> = (0..1000).map(|it| live.subscribe(&session(&format!("s{it}")))).collect();
        let sessions = lock(&live.0);
        assert!(!sessions.contains_key(&a) && !sessions.contains_key(&b));
        assert_eq!(sessions.len(), kept.len());
    }
}
