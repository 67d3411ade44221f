//! Where futures run: on the one thread of the program, or on many where a server runs.

use std::future::Future;
use std::time::Duration;

use crate::error::Failure;

/// How long the end of the program waits for work that can't be stopped.
const LAST_WORK: Duration = Duration::from_secs(1);

/// Runs a future to its end, with timers and sockets.
pub(crate) fn block_on<T>(future: impl Future<Output = T>) -> Result<T, Failure> {
    run(tokio::runtime::Builder::new_current_thread(), future)
}

/// Does the same on as many threads as the machine has processors.
pub(crate) fn block_on_many<T>(future: impl Future<Output = T>) -> Result<T, Failure> {
    run(tokio::runtime::Builder::new_multi_thread(), future)
}

fn run<T>(mut builder: tokio::runtime::Builder, future: impl Future<Output = T>) -> Result<T, Failure> {
    let runtime = builder.enable_all().build();
    let runtime =
        runtime.map_err(|err| Failure::new("runtime_failed", format!("no timers are available: {err}")))?;
    let result = runtime.block_on(future);
    // Work on threads of its own, such as the check of a value, can't be stopped: the program ends without it.
    runtime.shutdown_timeout(LAST_WORK);
    Ok(result)
}
