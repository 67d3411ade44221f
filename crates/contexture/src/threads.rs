//! Threads for work that takes a while, beside those that serve.

use std::sync::Arc;
use std::time::Duration;

use contexture_agent::Offload;
use contexture_compose::BoxFuture;
use tokio::runtime::Handle;
use tokio::sync::Semaphore;

/// How long work may take, the wait for a thread included.
const PATIENCE: Duration = Duration::from_secs(10);

/// Does work on threads of its own: on few at once, and with a deadline. Clones share the threads.
///
/// Work can't be stopped. What takes too long is not waited for any more, but keeps its thread until it is over, so that
/// there are never more than a few.
#[derive(Clone, Debug)]
pub struct SystemThreads {
    places: Arc<Semaphore>,
    patience: Duration,
}

impl Default for SystemThreads {
    /// Half of the machine's processors, so that the others serve.
    fn default() -> Self {
        let n_processors = std::thread::available_parallelism().map_or(1, usize::from);
        Self::new((n_processors / 2).max(1), PATIENCE)
    }
}

impl SystemThreads {
    /// Returns `most` threads that are waited for that long.
    pub fn new(most: usize, patience: Duration) -> Self {
        Self { places: Arc::new(Semaphore::new(most.max(1))), patience }
    }
}

impl Offload for SystemThreads {
    fn run(&self, work: Box<dyn FnOnce() + Send>) -> BoxFuture<'static, ()> {
        let (places, patience) = (Arc::clone(&self.places), self.patience);
        Box::pin(async move {
            // Without a runtime there is nobody else who would wait for this thread.
            let Ok(runtime) = Handle::try_current() else { return work() };
            let done = async {
                let Ok(place) = places.acquire_owned().await else { return };
                let work = runtime.spawn_blocking(move || {
                    work();
                    drop(place);
                });
                // Work that panics has not been done, which is for the caller to see.
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
