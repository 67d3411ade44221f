//! Hooks, which observe passes and runs but cannot change the outcome.

use std::error::Error;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use contexture_message::Answer;

use crate::Pass;

type Hook<T> = Arc<dyn Fn(&T) + Send + Sync>;

/// Functions that observe a prompt's passes and runs. A panic in one is ignored: the outcome does not change.
#[derive(Clone, Default)]
pub struct Hooks {
    on_prepare: Vec<Hook<Pass>>,
    on_generate: Vec<Hook<Answer>>,
    on_error: Vec<Hook<dyn Error + 'static>>,
}

impl Hooks {
    /// Calls `hook` with each resolved pass.
    #[must_use]
    pub fn on_prepare(mut self, hook: impl Fn(&Pass) + Send + Sync + 'static) -> Self {
        self.on_prepare.push(Arc::new(hook));
        self
    }

    /// Calls `hook` with each answer of the model, streamed or not, before it is checked.
    #[must_use]
    pub fn on_generate(mut self, hook: impl Fn(&Answer) + Send + Sync + 'static) -> Self {
        self.on_generate.push(Arc::new(hook));
        self
    }

    /// Calls `hook` with each error that ends a pass or a run.
    #[must_use]
    pub fn on_error(mut self, hook: impl Fn(&(dyn Error + 'static)) + Send + Sync + 'static) -> Self {
        self.on_error.push(Arc::new(hook));
        self
    }

    /// Reports a resolved pass.
    pub(crate) fn prepared(&self, pass: &Pass) {
        tell(&self.on_prepare, pass);
    }

    /// Reports a model's answer. Called by code that calls models.
    pub fn generated(&self, answer: &Answer) {
        tell(&self.on_generate, answer);
    }

    /// Reports an error. Called by code that runs prompts.
    pub fn failed(&self, err: &(dyn Error + 'static)) {
        tell(&self.on_error, err);
    }
}

fn tell<T: ?Sized>(hooks: &[Hook<T>], what: &T) {
    for hook in hooks {
        // A hook only observes, so a panic can leave nothing but its own state inconsistent.
        let _ = catch_unwind(AssertUnwindSafe(|| hook(what)));
    }
}

impl fmt::Debug for Hooks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hooks")
            .field("on_prepare", &self.on_prepare.len())
            .field("on_generate", &self.on_generate.len())
            .field("on_error", &self.on_error.len())
            .finish()
    }
}
