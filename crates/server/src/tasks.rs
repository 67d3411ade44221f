//! Tasks that the end of the server waits for.

use std::time::Duration;

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// Tasks of one kind. Clones share them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tasks {
    pub(crate) running: TaskTracker,
    /// Interrupts all of them.
    pub(crate) stop: CancellationToken,
}

impl Tasks {
    /// Whether no more are started, because the server stops.
    pub(crate) fn is_closed(&self) -> bool {
        self.running.is_closed()
    }

    /// Returns how many run.
    pub(crate) fn len(&self) -> usize {
        self.running.len()
    }

    /// Waits until all are done. Others can be started later.
    pub(crate) async fn flush(&self) {
        self.running.close();
        self.running.wait().await;
        self.running.reopen();
    }

    /// Closes them, gives running ones some time, and then interrupts them. They have `last` to end.
    pub(crate) async fn end(&self, grace: Duration, last: Duration) {
        self.running.close();
        if tokio::time::timeout(grace, self.running.wait()).await.is_err() {
            self.stop.cancel();
            let _ = tokio::time::timeout(last, self.running.wait()).await;
        }
    }
}
