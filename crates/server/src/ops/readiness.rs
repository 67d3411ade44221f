//! Whether the store is usable: a small write tests it, and its result is shared for a moment.

use std::time::Duration;

use contexture_session::Time;
use contexture_session::documents::Documents;
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout};

/// How long the store may take.
const TIMEOUT: Duration = Duration::from_secs(2);
/// How long a result is valid, so that frequent probes cost one write a second.
const FRESH: Duration = Duration::from_secs(1);

/// The newest result, and when the check started.
#[derive(Debug, Default)]
pub(crate) struct Readiness(Mutex<Option<(Instant, Outcome)>>);

/// The result of a readiness check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Ready,
    /// It can't be written, or its data can't be read.
    Failed,
    /// It did not answer in time.
    Late,
}

impl Readiness {
    /// Returns whether the store works, within [`TIMEOUT`].
    pub(crate) async fn ask(&self, documents: &dyn Documents, time: &dyn Time) -> Outcome {
        timeout(TIMEOUT, self.newest(documents, time)).await.unwrap_or(Outcome::Late)
    }

    async fn newest(&self, documents: &dyn Documents, time: &dyn Time) -> Outcome {
        let mut newest = self.0.lock().await;
        if let Some((_, outcome)) = newest.filter(|(at, _)| at.elapsed() < FRESH) {
            return outcome;
        }
        // If the write does not finish in time, later callers get this result.
        let at = Instant::now();
        *newest = Some((at, Outcome::Late));
        let outcome = match documents.probe(time.now()).await {
            Ok(()) => Outcome::Ready,
            Err(err) => {
                tracing::warn!(error = %err, "the store is not usable");
                Outcome::Failed
            }
        };
        *newest = Some((at, outcome));
        outcome
    }
}
