//! Where futures run: on the one thread of the program, or on many where a server runs.

use std::future::Future;

use crate::error::Failure;

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
    Ok(runtime.block_on(future))
}
