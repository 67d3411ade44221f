//! All ports of the engine.

use std::fmt;
use std::sync::Arc;

use super::{
    AllowAll, Clock, ContextMemo, Counters, Diagnostics, Ignore, InMemoryMemo, ModelCounters, Policy, Sink,
    StoppedClock,
};

/// The ports that a pass uses. Cheap to clone; clones share their caches.
#[derive(Clone)]
pub struct Engine {
    /// Measures time and enforces deadlines.
    pub clock: Arc<dyn Clock>,
    /// Counts tokens.
    pub counters: Arc<dyn Counters>,
    /// Caches contributions.
    pub memo: Arc<dyn ContextMemo>,
    /// Receives events.
    pub sink: Arc<dyn Sink>,
    /// Decides which Segments a model may see.
    pub policy: Arc<dyn Policy>,
    /// Receives warnings.
    pub diagnostics: Arc<dyn Diagnostics>,
}

impl Default for Engine {
    /// Returns an engine with real token counts, a memo in memory, no clock and no listeners.
    fn default() -> Self {
        Self {
            clock: Arc::new(StoppedClock),
            counters: Arc::new(ModelCounters::default()),
            memo: Arc::new(InMemoryMemo::default()),
            sink: Arc::new(Ignore),
            policy: Arc::new(AllowAll),
            diagnostics: Arc::new(Ignore),
        }
    }
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Engine")
    }
}
