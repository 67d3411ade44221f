//! A panic of what authors bring along (contributors, predicates, text functions) is an error that names its owner.

use std::panic::{AssertUnwindSafe, catch_unwind};

use contexture_history::panic_message;
use futures::FutureExt;

use crate::BoxError;

/// Runs a function of an author. A panic is an error.
pub(crate) fn caught<T>(function: impl FnOnce() -> Result<T, BoxError>) -> Result<T, BoxError> {
    catch_unwind(AssertUnwindSafe(function)).unwrap_or_else(|payload| Err(panicked(&*payload)))
}

/// Waits for work of an author. A panic is an error, also one before the work can be waited for.
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
