//! Threads for long-running work, separate from those that serve requests.

use std::sync::Arc;
use std::time::Duration;

use contexture_agent::Offload;
use contexture_compose::BoxFuture;
use tokio::runtime::Handle;
use tokio::sync::Semaphore;

/// The maximum time for a piece of work, including the wait for a thread.
const PATIENCE: Duration = Duration::from_secs(10);

/// Runs work on separate threads, a few at a time and with a deadline. Clones share the threads.
///
/// Work cannot be stopped. After the deadline it is no longer awaited, but keeps its thread until it finishes, so
/// that there are never more than a few threads.
#[derive(Clone, Debug)]
pub struct SystemThreads {
    places: Arc<Semaphore>,
    patience: Duration,
}

impl Default for SystemThreads {
    /// Uses half of the machine's processors, which leaves the others for serving requests.
    fn default() -> Self {
        let n_processors = std::thread::available_parallelism().map_or(1, usize::from);
        Self::new((n_processors / 2).max(1), PATIENCE)
    }
}

impl SystemThreads {
    /// Returns at most `most` threads, each with `patience` as the deadline of its work.
    pub fn new(most: usize, patience: Duration) -> Self {
        Self { places: Arc::new(Semaphore::new(most.max(1))), patience }
    }
}

impl Offload for SystemThreads {
    fn run(&self, work: Box<dyn FnOnce() + Send>) -> BoxFuture<'static, ()> {
        let (places, patience) = (Arc::clone(&self.places), self.patience);
        Box::pin(async move {
            // Without a runtime, blocking this thread delays no other task.
            let Ok(runtime) = Handle::try_current() else { return work() };
            let done = async {
                let Ok(place) = places.acquire_owned().await else { return };
                let work = runtime.spawn_blocking(move || {
                    work();
                    drop(place);
                });
                // If the work panics, its result is missing, which the caller notices.
                let _ = work.await;
            };
            let _ = tokio::time::timeout(patience, done).await;
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc;

    use super::*;

    #[tokio::test]
    async fn what_takes_too_long_is_given_up_on_and_does_not_pile_up() {
        let threads = SystemThreads::new(1, Duration::from_millis(50));
        let (release, held) = mpsc::channel::<()>();
        let n_begun = Arc::new(AtomicUsize::new(0));
        let begun = Arc::clone(&n_begun);
        threads
            .run(Box::new(move || {
                begun.fetch_add(1, Ordering::SeqCst);
                let _ = held.recv();
            }))
            .await;
        for _ in 0..10 {
            let begun = Arc::clone(&n_begun);
            threads
                .run(Box::new(move || {
                    begun.fetch_add(1, Ordering::SeqCst);
                }))
                .await;
        }
        assert_eq!(n_begun.load(Ordering::SeqCst), 1, "the one thread is still busy");
        drop(release);
        while n_begun.load(Ordering::SeqCst) < 2 {
            let begun = Arc::clone(&n_begun);
            threads
                .run(Box::new(move || {
                    begun.fetch_add(1, Ordering::SeqCst);
                }))
                .await;
        }
    }

    #[tokio::test]
    async fn work_that_panics_gives_its_place_back() {
        let threads = SystemThreads::new(1, Duration::from_secs(60));
        threads.run(Box::new(|| panic!("as it should"))).await;
        let (say, said) = mpsc::channel();
        threads
            .run(Box::new(move || {
                let _ = say.send(7);
            }))
            .await;
        assert_eq!(said.try_recv(), Ok(7));
    }
}
