//! The machine's clock, for deadlines, timings and cached contributions.

use std::sync::Arc;
use std::time::{Duration, Instant};

use contexture_compose::ports::Clock;
use contexture_compose::{BoxFuture, Engine};

/// The machine's monotonic clock; sleeps on the current tokio runtime, whose timers must be enabled.
#[derive(Clone, Copy, Debug)]
pub struct SystemClock {
    started: Instant,
}

impl SystemClock {
    /// Returns a clock that starts at zero.
    pub fn start() -> Self {
        Self { started: Instant::now() }
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Duration {
        self.started.elapsed()
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        Box::pin(tokio::time::sleep(duration))
    }
}

/// Returns an engine with the machine's clock: deadlines are enforced and timings are measured.
///
/// Create one and keep it: it caches token counts and contributions.
pub fn engine() -> Engine {
    Engine { clock: Arc::new(SystemClock::start()), ..Engine::default() }
}
