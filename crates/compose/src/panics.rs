//! Turns panics in author-supplied code (contributors, predicates, text functions) into errors.

use std::panic::{AssertUnwindSafe, catch_unwind};

use contexture_history::panic_message;
use futures::FutureExt;

use crate::BoxError;

/// Runs an author's function and turns a panic into an error.
pub(crate) fn caught<T>(function: impl FnOnce() -> Result<T, BoxError>) -> Result<T, BoxError> {
    catch_unwind(AssertUnwindSafe(function)).unwrap_or_else(|payload| Err(panicked(&*payload)))
}

/// Awaits an author's future and turns a panic into an error, even one that happens while the future is created.
pub(crate) async fn caught_in<T, F>(work: impl FnOnce() -> F) -> Result<T, BoxError>
where
    F: Future<Output = Result<T, BoxError>>,
{
    let work = AssertUnwindSafe(async move { work().await }).catch_unwind();
    work.await.unwrap_or_else(|payload| Err(panicked(&*payload)))
}

fn panicked(payload: &(dyn std::any::Any + Send)) -> BoxError {
    format!("it panicked: {}", panic_message(payload)).into()
}
