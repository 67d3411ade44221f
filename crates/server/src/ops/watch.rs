//! Combines several watchers of model calls: each sees every call, in order.

use std::sync::Arc;

use contexture_agent::{Called, Calling, Piece, Watcher};
use contexture_session::{Thread, UnfinishedText};

/// Combines several watchers.
#[derive(Clone, Default)]
pub(crate) struct Watchers(Vec<Arc<dyn Watcher>>);

impl Watchers {
    /// Adds a watcher.
    #[must_use]
    pub(crate) fn and(mut self, watcher: Arc<dyn Watcher>) -> Self {
        self.0.push(watcher);
        self
    }
}

impl Watcher for Watchers {
    fn calling(&self, call: &Calling<'_>) {
        self.0.iter().for_each(|it| it.calling(call));
    }

    fn streamed(&self, thread: &Thread, answer: &UnfinishedText, piece: Piece<'_>) {
        self.0.iter().for_each(|it| it.streamed(thread, answer, piece));
    }

    fn settled(&self, thread: &Thread, answer: &UnfinishedText) {
        self.0.iter().for_each(|it| it.settled(thread, answer));
    }

    fn called(&self, call: &Calling<'_>, result: &Called) {
        self.0.iter().for_each(|it| it.called(call, result));
    }
}
