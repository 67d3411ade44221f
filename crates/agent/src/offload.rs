//! Work that keeps a thread busy, away from the threads on which all turns make progress.

use contexture_compose::BoxFuture;
use futures::channel::oneshot;

/// Runs work that keeps a thread busy.
///
/// Implementors promise that the future comes to its end, with the work done or given up on, and that work which is
/// given up on does not pile up. Callers rely on nothing but that: they find out themselves whether the work was done.
pub trait Offload: Send + Sync {
    /// Runs `work`, and waits for it.
    fn run(&self, work: Box<dyn FnOnce() + Send>) -> BoxFuture<'static, ()>;
}

/// Runs work elsewhere and returns what came of it; nothing if it was given up on.
pub(crate) async fn offloaded<T: Send + 'static>(
    offload: &dyn Offload,
    work: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    let (say, mut said) = oneshot::channel();
    // Nobody may be waiting any more.
    offload.run(Box::new(move || drop(say.send(work())))).await;
    said.try_recv().ok().flatten()
}

/// Runs work where it is: for programs that have nothing else to do.
#[derive(Clone, Copy, Debug, Default)]
pub struct InPlace;

impl Offload for InPlace {
    fn run(&self, work: Box<dyn FnOnce() + Send>) -> BoxFuture<'static, ()> {
        Box::pin(async move { work() })
    }
}
