//! Combines several watchers of model calls: each sees every call, in order.

use std::sync::Arc;

use contexture_agent::{Called, Calling, Watcher};

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

    fn called(&self, call: &Calling<'_>, result: &Called) {
        self.0.iter().for_each(|it| it.called(call, result));
    }
}
