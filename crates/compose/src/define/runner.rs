//! Carries the code that runs a tool, a check or middleware from the author to the agent.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

/// The code that runs a tool, a check or middleware. The engine carries it without looking inside; the agent asks for
/// the type that it knows how to run. Only clones of the same runner are equal.
#[derive(Clone)]
pub struct Runner(Arc<dyn Any + Send + Sync>);

impl Runner {
    /// Wraps a value of the type that the agent will ask for.
    pub fn new(runner: impl Any + Send + Sync) -> Self {
        Self(Arc::new(runner))
    }

    /// Returns the runner, if it has that type.
    pub fn get<T: Any>(&self) -> Option<&T> {
        self.0.downcast_ref()
    }
}

impl PartialEq for Runner {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Runner {}

impl fmt::Debug for Runner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Runner")
    }
}
