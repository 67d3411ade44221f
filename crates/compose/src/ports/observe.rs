//! Ports that receive events and warnings.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::Source;

/// An event while a prompt is resolved.
#[derive(Clone, Debug, PartialEq)]
pub enum EngineEvent {
    /// A contributor has finished.
    Contributed {
        /// The contributor that finished.
        source: Source,
        /// How long it took.
        took: Duration,
        /// Whether it succeeded.
        ok: bool,
    },
    /// A pass is complete.
    Resolved {
        /// The prompt's id.
        prompt: String,
        /// Tokens of the whole request.
        total_tokens: u32,
    },
}

/// Receives events, for metrics and traces. Must return quickly and must not fail.
pub trait Sink: Send + Sync {
    /// Records one event.
    fn record(&self, event: EngineEvent);
}

/// Receives warnings, for logs.
pub trait Diagnostics: Send + Sync {
    /// Reports one warning about a prompt.
    fn warn(&self, prompt: &str, warning: &str);
}

/// Ignores all events and warnings.
#[derive(Clone, Copy, Debug, Default)]
pub struct Ignore;

impl Sink for Ignore {
    fn record(&self, _event: EngineEvent) {}
}

impl Diagnostics for Ignore {
    fn warn(&self, _prompt: &str, _warning: &str) {}
}

/// Collects all events and warnings, for tests. Clones share their collection.
#[derive(Clone, Debug, Default)]
pub struct Collected {
    events: Arc<Mutex<Vec<EngineEvent>>>,
    warnings: Arc<Mutex<Vec<String>>>,
}

impl Collected {
    /// Returns the events so far.
    pub fn events(&self) -> Vec<EngineEvent> {
        self.events.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns the warnings so far, as `prompt: warning`.
    pub fn warnings(&self) -> Vec<String> {
        self.warnings.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Sink for Collected {
    fn record(&self, event: EngineEvent) {
        self.events.lock().unwrap_or_else(PoisonError::into_inner).push(event);
    }
}

impl Diagnostics for Collected {
    fn warn(&self, prompt: &str, warning: &str) {
        self.warnings.lock().unwrap_or_else(PoisonError::into_inner).push(format!("{prompt}: {warning}"));
    }
}
