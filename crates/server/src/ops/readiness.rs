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

/// Why the store is not usable. Its location and error are logged only: the route needs no key.
type Outcome = Result<(), &'static str>;
const LATE: Outcome = Err("the store does not answer in time");

/// The newest result, and when the check started.
#[derive(Debug, Default)]
pub(crate) struct Readiness(Mutex<Option<(Instant, Outcome)>>);

impl Readiness {
    /// Returns whether the store works, within [`TIMEOUT`].
    pub(crate) async fn ask(&self, documents: &dyn Documents, time: &dyn Time) -> Outcome {
        timeout(TIMEOUT, self.newest(documents, time)).await.unwrap_or(LATE)
    }

    async fn newest(&self, documents: &dyn Documents, time: &dyn Time) -> Outcome {
        let mut newest = self.0.lock().await;
        if let Some((_, outcome)) = newest.filter(|(at, _)| at.elapsed() < FRESH) {
            return outcome;
        }
        // If the write does not finish in time, later callers get this result.
        let at = Instant::now();
        *newest = Some((at, LATE));
        let outcome = documents.probe(time.now()).await.map_err(|err| {
            tracing::warn!(error = %err, "the store is not usable");
            "the store can't be written"
        });
        *newest = Some((at, outcome));
        outcome
    }
}
