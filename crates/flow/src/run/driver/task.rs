//! One attempt of a node: its inputs are checked, its time is kept, and a panic is an error.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use contexture_agent::CancellationToken;
use contexture_message::ErrorCode;
use contexture_session::ThreadId;
use futures::FutureExt;
use futures::future::{Either, select};

use crate::node::EventSink;
use crate::node::flow::FlowNode;
use crate::run::state::{Active, Phase};
use crate::{Node, NodeContext, NodeError, RunId, Services, Step};

/// The arguments of one attempt of a node.
pub(crate) struct Attempt {
    pub(crate) work: Arc<dyn Node>,
    pub(crate) kind: &'static str,
    pub(crate) flow: Arc<str>,
    pub(crate) node: Arc<str>,
    pub(crate) lazy: Arc<[String]>,
    pub(crate) run: RunId,
    pub(crate) active: Active,
    pub(crate) thread: ThreadId,
    pub(crate) services: Arc<Services>,
    pub(crate) events: EventSink,
    pub(crate) cancel: CancellationToken,
    pub(crate) timeout: Option<Duration>,
    pub(crate) delay: Duration,
    pub(crate) may_repeat: bool,
}

/// Returns why the inputs of a node are invalid.
pub(crate) fn check_inputs(node: &FlowNode, active: &Active) -> Result<(), NodeError> {
    for input in &node.inputs {
        let Some(value) = active.inputs.get(&input.port.name) else { continue };
        if let Err(why) = value.check(&input.port.of) {
            let message = format!("input `{}`: {why}", input.port.name);
            return Err(NodeError::new(ErrorCode::FlowTypeMismatch, message));
        }
    }
    Ok(())
}

/// Returns how long to wait before an attempt: twice as long each time.
pub(crate) fn delay(node: &FlowNode, active: &Active) -> Duration {
    match active.phase {
        Phase::Retrying => {
            let doublings = active.attempt.saturating_sub(2).min(16);
            node.retry_delay.saturating_mul(1 << doublings).min(MAX_DELAY)
        }
        _ => Duration::ZERO,
    }
}

const MAX_DELAY: Duration = Duration::from_secs(3600);
/// How long a node that took too long may take to come to an end: a turn is closed in the store.
const LETTING_GO: Duration = Duration::from_secs(1);

/// Executes one attempt.
pub(crate) async fn attempt(it: Attempt) -> Result<Step, NodeError> {
    if !it.delay.is_zero() {
        let pause = it.services.time.sleep(it.delay);
        if it.cancel.run_until_cancelled(pause).await.is_none() {
            return Err(cancelled());
        }
    }
    let (kind, services) = (it.kind, Arc::clone(&it.services));
    let begun = services.time.now();
    let done = in_time(it).await;
    let took = services.time.now().0.saturating_sub(begun.0);
    services.library.on_worked(kind, Duration::from_millis(u64::try_from(took).unwrap_or(0)));
    done
}

/// Runs a node within its timeout.
async fn in_time(it: Attempt) -> Result<Step, NodeError> {
    let timeout = it.timeout.map(|timeout| (timeout, it.services.time.sleep(timeout)));
    let (cancel, time) = (it.cancel.clone(), Arc::clone(&it.services.time));
    let work = AssertUnwindSafe(work(it)).catch_unwind();
    let work = Box::pin(work.map(|done| done.unwrap_or_else(|_| Err(panicked()))));
    let Some((timeout, sleep)) = timeout else { return work.await };
    match select(work, sleep).await {
        Either::Left((done, _)) => done,
        Either::Right(((), work)) => {
            // The node is cancelled first, so that it leaves its thread in good order, and then dropped.
            cancel.cancel();
            select(work, time.sleep(LETTING_GO)).await;
            let message = format!("it took longer than {} s", timeout.as_secs_f64());
            Err(NodeError::new(ErrorCode::Timeout, message))
        }
    }
}

async fn work(it: Attempt) -> Result<Step, NodeError> {
    let thread = it.services.thread(&it.thread).await;
    let thread = thread.map_err(|err| NodeError::new(err.code(), err.to_string()))?;
    let context = NodeContext {
        run: it.run,
        flow: it.flow,
        lazy: it.lazy,
        node: it.node,
        firing: it.active.firing,
        attempt: it.active.attempt,
        inputs: it.active.inputs,
        snapshot: thread.get(),
        thread,
        answer: it.active.answer,
        may_repeat: it.may_repeat,
        cancel: it.cancel,
        services: it.services,
        events: it.events,
    };
    it.work.run(context).await
}

pub(crate) fn cancelled() -> NodeError {
    NodeError::new(ErrorCode::Cancelled, "the run was cancelled")
}

fn panicked() -> NodeError {
    // The panic message is not reported: it may quote anything.
    NodeError::new(ErrorCode::Panicked, "the node panicked")
}
