//! Where futures run: on the one thread of the program.

use std::future::Future;

use crate::error::Failure;

/// Runs a future to its end, with timers and sockets.
pub(crate) fn block_on<T>(future: impl Future<Output = T>) -> Result<T, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime =
        runtime.map_err(|err| Failure::new("runtime_failed", format!("no timers are available: {err}")))?;
    Ok(runtime.block_on(future))
}
