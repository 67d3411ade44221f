//! Runs futures: on the current thread, or on a thread pool for the server.

use contexture_message::ErrorCode;
use std::future::Future;
use std::time::Duration;

use crate::error::Failure;

/// How long to wait at exit for work that cannot be cancelled.
const LAST_WORK: Duration = Duration::from_secs(1);

/// Runs a future to completion, with timers and I/O enabled.
pub(crate) fn block_on<T>(future: impl Future<Output = T>) -> Result<T, Failure> {
    run(tokio::runtime::Builder::new_current_thread(), future)
}

/// Like `block_on`, with as many threads as the machine has processors.
pub(crate) fn block_on_many<T>(future: impl Future<Output = T>) -> Result<T, Failure> {
    run(tokio::runtime::Builder::new_multi_thread(), future)
}

fn run<T>(mut builder: tokio::runtime::Builder, future: impl Future<Output = T>) -> Result<T, Failure> {
    let runtime = builder.enable_all().build();
    let runtime = runtime
        .map_err(|err| Failure::new(ErrorCode::RuntimeFailed, format!("no timers are available: {err}")))?;
    let result = runtime.block_on(future);
    // Blocking work on other threads, such as the check of a value, cannot be cancelled: the program exits without it.
    runtime.shutdown_timeout(LAST_WORK);
    Ok(result)
}
