//! Moves CPU-bound work away from the threads that run the turns.

use contexture_compose::BoxFuture;
use futures::channel::oneshot;

/// Runs CPU-bound work.
///
/// Implementations must complete the future, whether the work was done or abandoned, and must not let abandoned work
/// pile up. Callers rely on nothing else: they check themselves whether the work was done.
pub trait Offload: Send + Sync {
    /// Runs `work` and waits for it.
    fn run(&self, work: Box<dyn FnOnce() + Send>) -> BoxFuture<'static, ()>;
}

/// Offloads work and returns its result, or `None` if it was abandoned.
pub(crate) async fn offloaded<T: Send + 'static>(
    offload: &dyn Offload,
    work: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    let (say, mut said) = oneshot::channel();
    // The receiver may be gone by then, which is fine.
    offload.run(Box::new(move || drop(say.send(work())))).await;
    said.try_recv().ok().flatten()
}

/// Runs work on the current thread, for programs that have nothing else to do.
#[derive(Clone, Copy, Debug, Default)]
pub struct InPlace;

impl Offload for InPlace {
    fn run(&self, work: Box<dyn FnOnce() + Send>) -> BoxFuture<'static, ()> {
        Box::pin(async move { work() })
    }
}
