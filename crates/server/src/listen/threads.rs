//! The threads that serve connections, one for each processor.
//!
//! A connection and the turns that its requests start stay on one thread. The tasks of a turn wake each other for every
//! piece of an answer; on the threads of one pool, much of a turn's processor time goes into waking threads. Work that
//! keeps a processor busy for long belongs on other threads: `spawn_blocking`, `SystemThreads`. Flow runs are driven on
//! the server's own runtime.

use std::sync::Arc;

use hyper::rt::Executor;
use tokio::runtime::{Builder, Handle};
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TaskTrackerToken;

/// The threads that serve connections, each with a runtime of its own. Clones share them.
#[derive(Clone, Debug)]
pub(super) struct ServingThreads {
    runtimes: Arc<[Handle]>,
    end: CancellationToken,
    running: TaskTracker,
}

impl ServingThreads {
    /// Starts one thread for each processor. They end when the guard is dropped, with what runs on them.
    pub(super) fn start() -> std::io::Result<(Self, DropGuard)> {
        let n_processors = std::thread::available_parallelism().map_or(1, usize::from);
        let (end, running) = (CancellationToken::new(), TaskTracker::new());
        let guard = end.clone().drop_guard();
        let start = |_| start_one(end.clone(), running.token());
        let runtimes = (0..n_processors).map(start).collect::<std::io::Result<_>>()?;
        Ok((Self { runtimes, end, running }, guard))
    }

    /// Returns the runtime with the fewest tasks.
    pub(super) fn least_busy(&self) -> Handle {
        let found = self.runtimes.iter().min_by_key(|it| it.metrics().num_alive_tasks());
        // There is at least one.
        found.cloned().unwrap_or_else(Handle::current)
    }

    /// Ends the threads, with what still runs on them.
    pub(super) async fn end(&self) {
        self.end.cancel();
        self.running.close();
        self.running.wait().await;
    }
}

fn start_one(end: CancellationToken, running: TaskTrackerToken) -> std::io::Result<Handle> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let handle = runtime.handle().clone();
    let serve = move || {
        runtime.block_on(end.cancelled());
        // Blocking work cannot be cancelled. It is abandoned.
        runtime.shutdown_background();
        drop(running);
    };
    std::thread::Builder::new().name("contexture-serve".to_owned()).spawn(serve)?;
    Ok(handle)
}

/// Spreads the requests of one HTTP/2 connection over the threads: a proxy may send all of its requests on one.
impl<F> Executor<F> for ServingThreads
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    fn execute(&self, request: F) {
        self.least_busy().spawn(request);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use tokio::sync::mpsc;

    use super::*;

    #[tokio::test]
    async fn work_is_spread_and_ends_with_the_threads() {
        let (threads, _end) = ServingThreads::start().unwrap();
        let (sender, mut began) = mpsc::unbounded_channel();
        for _ in 0..threads.runtimes.len() * 3 {
            let sender = sender.clone();
            threads.execute(async move {
                sender.send(std::thread::current().id()).unwrap();
                std::future::pending::<()>().await;
                drop(sender);
            });
        }
        drop(sender);
        let mut used = Vec::new();
        while used.len() < threads.runtimes.len() * 3 {
            used.push(began.recv().await.unwrap());
        }
        let names: BTreeSet<String> = used.iter().map(|it| format!("{it:?}")).collect();
        assert_eq!(names.len(), threads.runtimes.len());
        threads.end().await;
        assert_eq!(began.recv().await, None, "nothing runs any more");
    }
}
