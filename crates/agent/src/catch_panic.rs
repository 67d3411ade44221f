//! Contains panics of models, checks and entries.

use std::panic::AssertUnwindSafe;

use futures::FutureExt;

use crate::AgentError;

/// Awaits work and turns a panic in it into an error.
pub(crate) async fn catch_panic<T, E: From<AgentError>>(
    work: impl Future<Output = Result<T, E>>,
) -> Result<T, E> {
    let result = AssertUnwindSafe(work).catch_unwind().await;
    result.unwrap_or_else(|_| Err(AgentError::Panicked.into()))
}
