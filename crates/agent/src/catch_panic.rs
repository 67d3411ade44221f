//! Runs work of others whose panic must not end more than the work.

use std::panic::AssertUnwindSafe;

use futures::FutureExt;

use crate::AgentError;

/// Waits for work, and makes a panic in it an error like any other.
pub(crate) async fn catch_panic<T, E: From<AgentError>>(
    work: impl Future<Output = Result<T, E>>,
) -> Result<T, E> {
    let result = AssertUnwindSafe(work).catch_unwind().await;
    result.unwrap_or_else(|_| Err(AgentError::Panicked.into()))
}
