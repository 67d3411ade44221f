//! Shared by the workspace's tests: case files, arbitrary data, probes, time, and passes as text.
//!
//! For development only; no shipped crate depends on it. A broken fixture is a broken test, so everything
//! here panics instead of returning errors.

mod arbitrary;
mod cases;
mod probe;
mod show;
mod time;

pub use arbitrary::{json, object, prose, text};
pub use cases::{Case, cases};
pub use probe::Probe;
pub use show::{budget, failure, request};
pub use time::TokioTime;

use contexture_compose::{Error, Pass, Prompt, ResolveOptions};
use serde_json::Value;

/// Resolves a prompt on a separate runtime whose timers take no real time.
pub fn resolve<In, Out>(prompt: &Prompt<In, Out>, options: ResolveOptions) -> Result<Pass, Error> {
    runtime().block_on(prompt.resolve(options))
}

/// Resolves a prompt for an input.
pub fn resolve_input<In, Out>(prompt: &Prompt<In, Out>, input: Value) -> Result<Pass, Error> {
    resolve(prompt, ResolveOptions::new(input))
}

/// Runs a test in which time passes only when everything waits for it.
pub fn timeless<T>(test: impl Future<Output = T>) -> T {
    runtime().block_on(test)
}

/// Returns a runtime whose time passes only while everything waits for it, so that a busy machine misses no deadline.
#[allow(clippy::expect_used)]
pub fn runtime() -> tokio::runtime::Runtime {
    let built = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    built.expect("a runtime on one thread needs nothing from the system but timers")
}
