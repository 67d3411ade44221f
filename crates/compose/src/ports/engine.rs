//! All ports together.

use std::fmt;
use std::sync::Arc;

use super::{
    AllowAll, Clock, ContextMemo, Counters, Diagnostics, Ignore, InMemoryMemo, ModelCounters, Policy, Sink,
    StoppedClock,
};

/// The ports that a pass uses. Cheap to clone; clones share what they remember.
#[derive(Clone)]
pub struct Engine {
    /// Measures time and keeps deadlines.
    pub clock: Arc<dyn Clock>,
    /// Counts tokens.
    pub counters: Arc<dyn Counters>,
    /// Remembers contributions.
    pub memo: Arc<dyn ContextMemo>,
    /// Receives events.
    pub sink: Arc<dyn Sink>,
    /// Has the last word on Segments.
    pub policy: Arc<dyn Policy>,
    /// Receives warnings.
    pub diagnostics: Arc<dyn Diagnostics>,
}

impl Default for Engine {
    /// Real token counts, a memo in memory, no clock, nobody who listens.
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
