//! The answers that models are giving on this instance: told before anything of them is written.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use contexture_agent::{Called, Calling, Piece, Watcher};
use contexture_session::{SessionKey, Thread, ThreadId, ThreadKey, UnfinishedText};

use super::subscribers::{Subscribers, Subscription};

/// The answers that grow on this instance. Clones share everything.
#[derive(Clone, Debug, Default)]
pub(crate) struct LiveAnswers {
    answers: Arc<Mutex<BTreeMap<ThreadKey, LiveAnswer>>>,
    subscribers: Subscribers,
}

#[derive(Debug)]
struct LiveAnswer {
    session: SessionKey,
    text: UnfinishedText,
}

impl LiveAnswers {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<ThreadKey, LiveAnswer>> {
        self.answers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Subscribes to the answers of a session.
    pub(crate) fn subscribe(&self, session: &SessionKey) -> Subscription {
        self.subscribers.subscribe(session)
    }

    /// Shows the answers of a session to `see`.
    pub(crate) fn each(&self, session: &SessionKey, mut see: impl FnMut(&ThreadId, &UnfinishedText)) {
        let (answers, first) = (self.lock(), session.main());
        // The threads of a session have names that begin with its own.
        let of_session = answers.range(first..).take_while(|(key, _)| {
            key.tenant == session.tenant && key.thread.as_str().starts_with(session.session.as_str())
        });
        for (key, answer) in of_session.filter(|(_, it)| it.session == *session) {
            see(&key.thread, &answer.text);
        }
    }
}

impl Watcher for LiveAnswers {
    fn calling(&self, _call: &Calling<'_>) {}

    fn streamed(&self, thread: &Thread, answer: &UnfinishedText, piece: Piece<'_>) {
        let mut answers = self.lock();
        let live = match answers.get_mut(thread.key()) {
            Some(live) => live,
            None => {
                let ThreadKey { tenant, thread: id } = thread.key().clone();
                let session = SessionKey { tenant, session: id.session() };
                let live = LiveAnswer { session, text: UnfinishedText::default() };
                answers.entry(thread.key().clone()).or_insert(live)
            }
        };
        if (live.text.began, live.text.after) == (answer.began, answer.after) {
            match piece {
                Piece::Text(text) => live.text.text.push_str(text),
                Piece::Thinking(text) => live.text.thinking.push_str(text),
            }
        } else {
            live.text = answer.clone();
        }
        self.subscribers.wake(&live.session);
    }

    /// From here on the log is about to have the answer, or it never does.
    fn settled(&self, thread: &Thread, answer: &UnfinishedText) {
        let mut answers = self.lock();
        let is_it = |it: &LiveAnswer| (it.text.began, it.text.after) == (answer.began, answer.after);
        if answers.get(thread.key()).is_some_and(is_it) {
            answers.remove(thread.key());
        }
    }

    fn called(&self, _call: &Calling<'_>, _result: &Called) {}
}
