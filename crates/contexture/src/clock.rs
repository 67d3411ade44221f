//! The clock of the machine, for deadlines, timings and remembered contributions.

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
    /// Starts at zero.
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

/// Returns an engine with the machine's clock: deadlines are kept and timings are measured.
///
/// Make one and keep it: token counts and remembered contributions live in it.
pub fn engine() -> Engine {
    Engine { clock: Arc::new(SystemClock::start()), ..Engine::default() }
}
