//! The threads that serve connections, one for each processor.
//!
//! A connection and everything that its requests start stay on one thread. The tasks of a turn wake each other for
//! every piece of an answer; on the threads of one pool, much of a turn's processor time goes into waking threads.
//! Work that keeps a processor busy for long belongs on other threads: `spawn_blocking`, `SystemThreads`.

use std::sync::Arc;

use hyper::rt::Executor;
use tokio::runtime::{Builder, Handle};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// The threads that serve connections, each with a runtime of its own. Clones share them.
#[derive(Clone, Debug)]
pub(super) struct ServingThreads {
    runtimes: Arc<[Handle]>,
    ending: Arc<Ending>,
}

#[derive(Debug, Default)]
struct Ending {
    end: CancellationToken,
    running: TaskTracker,
}

impl Drop for Ending {
    fn drop(&mut self) {
        self.end.cancel();
    }
}

impl ServingThreads {
    /// Starts one thread for each processor.
    pub(super) fn start() -> std::io::Result<Self> {
        let n_processors = std::thread::available_parallelism().map_or(1, usize::from);
        let ending = Arc::<Ending>::default();
        let runtimes = (0..n_processors).map(|_| start_one(&ending)).collect::<std::io::Result<_>>()?;
        Ok(Self { runtimes, ending })
    }

    /// Returns the runtime with the fewest tasks.
    pub(super) fn least_busy(&self) -> Handle {
        let found = self.runtimes.iter().min_by_key(|it| it.metrics().num_alive_tasks());
        // There is at least one.
        found.cloned().unwrap_or_else(Handle::current)
    }

    /// Ends the threads, with what still runs on them.
    pub(super) async fn end(&self) {
        self.ending.end.cancel();
        self.ending.running.close();
        self.ending.running.wait().await;
    }
}

fn start_one(ending: &Ending) -> std::io::Result<Handle> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let (handle, end, running) = (runtime.handle().clone(), ending.end.clone(), ending.running.token());
    let serve = move || {
        runtime.block_on(end.cancelled());
        // Blocking work cannot be stopped, and nobody waits for it any more.
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
        let threads = ServingThreads::start().unwrap();
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
