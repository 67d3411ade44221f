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
use crate::{Flow, NodeContext, NodeError, RunId, Services, Step};

/// The arguments of one attempt of a node.
pub(crate) struct Attempt {
    pub(crate) flow: Flow,
    pub(crate) idx: usize,
    pub(crate) run: RunId,
    pub(crate) active: Active,
    pub(crate) thread: ThreadId,
    pub(crate) services: Arc<Services>,
    pub(crate) events: EventSink,
    pub(crate) cancel: CancellationToken,
}

impl Attempt {
    fn node(&self) -> &FlowNode {
        &self.flow.nodes()[self.idx]
    }
}

/// Returns why the inputs of a node are invalid.
fn check_inputs(node: &FlowNode, active: &Active) -> Result<(), NodeError> {
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
fn delay(node: &FlowNode, active: &Active) -> Duration {
    match active.phase {
        Phase::Retrying => {
            let doublings = active.attempt.saturating_sub(2).min(16);
            seconds(node.definition.retry.delay_seconds).saturating_mul(1 << doublings).min(MAX_DELAY)
        }
        _ => Duration::ZERO,
    }
}

fn seconds(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds.max(0.0)).unwrap_or(Duration::MAX)
}

const MAX_DELAY: Duration = Duration::from_secs(3600);
/// How long a node that took too long may take to come to an end: a turn is closed in the store.
const LETTING_GO: Duration = Duration::from_secs(1);

/// Executes one attempt.
pub(crate) async fn attempt(it: Attempt) -> Result<Step, NodeError> {
    check_inputs(it.node(), &it.active)?;
    let delay = delay(it.node(), &it.active);
    if !delay.is_zero() {
        let pause = it.services.time.sleep(delay);
        if it.cancel.run_until_cancelled(pause).await.is_none() {
            return Err(NodeError::cancelled());
        }
    }
    let (kind, services) = (it.node().definition.kind.name(), Arc::clone(&it.services));
    let begun = services.time.now();
    let done = in_time(it).await;
    let took = services.time.now().0.saturating_sub(begun.0);
    services.library.on_worked(kind, Duration::from_millis(u64::try_from(took).unwrap_or(0)));
    done
}

/// Runs a node within its timeout.
async fn in_time(it: Attempt) -> Result<Step, NodeError> {
    let timeout = it.node().definition.timeout_seconds.map(seconds);
    let timeout = timeout.map(|timeout| (timeout, it.services.time.sleep(timeout)));
    let (cancel, time) = (it.cancel.clone(), Arc::clone(&it.services.time));
    let work = AssertUnwindSafe(work(it)).catch_unwind();
    // The panic message is not reported: it may quote anything.
    let panicked = |_| Err(NodeError::new(ErrorCode::Panicked, "the node panicked"));
    let work = Box::pin(work.map(|done| done.unwrap_or_else(panicked)));
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
    let thread = it.services.thread(&it.thread).await?;
    let node = it.node();
    let work = Arc::clone(&node.work);
    let context = NodeContext {
        flow: Arc::clone(&it.flow.0.name),
        lazy: Arc::clone(&node.lazy),
        node: Arc::clone(&node.id),
        may_repeat: node.definition.repeat == Some(true),
        run: it.run,
        firing: it.active.firing,
        attempt: it.active.attempt,
        inputs: it.active.inputs,
        snapshot: thread.get(),
        thread,
        answer: it.active.answer,
        cancel: it.cancel,
        services: it.services,
        events: it.events,
    };
    work.run(context).await
}
