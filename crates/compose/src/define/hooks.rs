//! Hooks: they observe, and can't change an outcome.

use std::fmt;
use std::sync::Arc;

use crate::{Error, Pass};

type OnPrepare = dyn Fn(&Pass) + Send + Sync;
type OnError = dyn Fn(&Error) + Send + Sync;

/// Functions that are told what happens to a prompt.
#[derive(Clone, Default)]
pub struct Hooks {
    pub(crate) on_prepare: Vec<Arc<OnPrepare>>,
    pub(crate) on_error: Vec<Arc<OnError>>,
}

impl Hooks {
    /// Calls `hook` with each pass that was resolved.
    #[must_use]
    pub fn on_prepare(mut self, hook: impl Fn(&Pass) + Send + Sync + 'static) -> Self {
        self.on_prepare.push(Arc::new(hook));
        self
    }

    /// Calls `hook` with each error.
    #[must_use]
    pub fn on_error(mut self, hook: impl Fn(&Error) + Send + Sync + 'static) -> Self {
        self.on_error.push(Arc::new(hook));
        self
    }
}

impl fmt::Debug for Hooks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hooks")
            .field("on_prepare", &self.on_prepare.len())
            .field("on_error", &self.on_error.len())
            .finish()
    }
}
