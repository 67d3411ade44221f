//! Drives a run: starts nodes whose inputs are available, executes them, and records the results.
//!
//! Everything is logged before it takes effect: a node executes after the record of its start is durable, and its
//! outputs are durable before another node uses them. The end of one node and the start of the next are one commit.

mod emitted;
mod ending;
mod outcome;
mod task;
mod wakeups;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use contexture_agent::CancellationToken;
use contexture_compose::BoxFuture;
use contexture_message::ErrorCode;
use futures::channel::mpsc::{UnboundedReceiver, UnboundedSender, unbounded};
use futures::stream::FuturesUnordered;
use tracing::Instrument;

use self::emitted::EmittedEvents;
use self::task::{Attempt, attempt, check_inputs, delay};
use super::error::RunError;
use super::record::commit::{Batch, WriteGuard};
use super::record::{RunRecord, replay};
use super::state::ready::RunContext;
use super::state::{Active, Phase, State};
use crate::node::{EmittedEvent, EventSink};
use crate::{EventContext, Flow, NodeError, PortValue, RunEvent, Services, Step};

pub(super) type Outputs = BTreeMap<String, PortValue>;
type Work = BoxFuture<'static, (usize, Result<Step, NodeError>)>;

/// Drives one run, as long as there is something to do.
pub(crate) struct Driver {
    pub(super) guard: WriteGuard,
    pub(super) flow: Flow,
    pub(super) services: Arc<Services>,
    pub(super) config: RuntimeConfig,
    pub(super) run_context: RunContext,
    pub(super) run_record: RunRecord,
    pub(super) state: State,
    /// Events and documents that are not recorded yet.
    pub(super) batch: Batch,
    pub(super) emitted: EmittedEvents,
    pub(super) tasks: FuturesUnordered<Work>,
    /// Nodes that are being executed.
    pub(super) working: BTreeSet<usize>,
    pub(super) event_sender: UnboundedSender<EmittedEvent>,
    pub(super) event_receiver: UnboundedReceiver<EmittedEvent>,
    /// Why no more nodes are started, if so.
    pub(super) ending: Option<Ending>,
    /// Cancelled when the run ends before its time.
    pub(super) cancel: CancellationToken,
}

/// Why a run ends early.
pub(super) enum Ending {
    Cancelled,
    Failed { node: String, error: NodeError },
}

/// Why a driver stops driving a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DriveOutcome {
    /// The run ended.
    Over,
    /// Everything waits for an answer.
    Waiting {
        /// How much of the inbox it had taken.
        taken: u64,
    },
    /// The driver was asked to release the run.
    Stopped,
}

impl Driver {
    /// Takes a run up where its log ends.
    pub(crate) async fn open(
        guard: WriteGuard,
        flow: Flow,
        services: Arc<Services>,
        config: RuntimeConfig,
        mut run_record: RunRecord,
        is_taken_over: bool,
    ) -> Result<Self, RunError> {
        let mut state = std::mem::take(&mut run_record.state).restored();
        if state.nodes.is_empty() {
            state = State::new(&flow);
        }
        run_record.upto = replay(&*guard.records, &guard.keys, &flow, &mut state, run_record.upto).await?;
        let run_context =
            RunContext { input: Arc::clone(&run_record.input), main: guard.keys.run.session().main() };
        let (event_sender, event_receiver) = unbounded();
        let mut driver = Self {
            emitted: EmittedEvents::default(),
            guard,
            flow,
            services,
            config,
            run_context,
            run_record,
            state,
            batch: Batch::default(),
            tasks: FuturesUnordered::new(),
            working: BTreeSet::new(),
            event_sender,
            event_receiver,
            ending: None,
            cancel: CancellationToken::new(),
        };
        if is_taken_over {
            driver.record_event(RunEvent::RunResume {});
        }
        driver.recover_orphans();
        Ok(driver)
    }

    /// Recovers nodes orphaned by a lost driver.
    pub(super) fn recover_orphans(&mut self) {
        let is_runnable =
            |idx: &usize| self.state.nodes[*idx].active.as_ref().is_some_and(Active::is_runnable);
        let lost: Vec<usize> = self.state.active.iter().copied().filter(is_runnable).collect();
        for idx in lost {
            let Some(node) = self.flow.node(idx) else { continue };
            if !node.is_repeatable {
                let message = "its process was lost while it ran, and it is not marked as repeatable";
                self.fail(idx, NodeError::new(ErrorCode::Interrupted, message));
            } else if self.phase(idx) == Some(&Phase::Running) {
                let (node, firing) = (Arc::clone(&node.id), self.state.nodes[idx].fired);
                self.record_event(RunEvent::NodeRepeat { node, firing });
            }
        }
    }

    pub(super) fn phase(&self, idx: usize) -> Option<&Phase> {
        self.state.nodes[idx].active.as_ref().map(|it| &it.phase)
    }

    /// Drives the run until it is over, waits, or is to be left.
    pub(crate) async fn drive(mut self, stop: CancellationToken) -> Result<DriveOutcome, RunError> {
        let mut sources = self.wake_sources(stop);
        self.take_messages().await?;
        // A node had failed when the previous driver was lost. Nodes also fail when a run is cancelled, so a
        // cancellation takes precedence.
        if let Some((node, error)) = self.state.failure.clone() {
            self.stop_with(Ending::Failed { node, error });
        }
        loop {
            self.begin_ready();
            if self.is_idle() {
                if self.state.active.is_empty() || self.ending.is_some() {
                    return self.end().await;
                }
                return self.release().await;
            }
            self.flush().await?;
            self.start_tasks();
            let wakeup = self.next_wakeup(&mut sources).await;
            if let Some(outcome) = self.handle_wakeup(wakeup, &mut sources).await? {
                return Ok(outcome);
            }
        }
    }

    /// Whether no node is executing and none can start.
    pub(super) fn is_idle(&self) -> bool {
        let is_runnable =
            |idx: &usize| self.state.nodes[*idx].active.as_ref().is_some_and(|it| it.is_runnable());
        self.tasks.is_empty() && (self.ending.is_some() || !self.state.active.iter().any(is_runnable))
    }

    /// Records the nodes that start now.
    pub(super) fn begin_ready(&mut self) {
        while self.ending.is_none() {
            let Some(start) = self.state.next_start(&self.flow, &self.run_context) else { return };
            let RunEvent::NodeStart { node, firing, .. } = &start else { return };
            let (node, firing) = (Arc::clone(node), *firing);
            let max = self.flow.limits().max_steps;
            if self.state.steps >= max {
                let message = format!("exceeded max_steps ({max}) since the last wait");
                let error = NodeError::new(ErrorCode::FlowMaxSteps, message);
                return self.stop_with(Ending::Failed { node: node.to_string(), error });
            }
            self.record_event(start);
            self.pull_inputs(&node, firing);
        }
    }

    /// A pulled node asks for what leads to it from other pulled nodes.
    pub(super) fn pull_inputs(&mut self, node: &Arc<str>, firing: u32) {
        let Some(idx) = self.flow.idx_of(node) else { return };
        let inputs = self.flow.nodes()[idx].inputs.iter().filter(|it| it.is_asked);
        let ports: Vec<String> = inputs.map(|it| it.port.name.clone()).collect();
        if !ports.is_empty() {
            self.record_event(RunEvent::NodePull { node: Arc::clone(node), firing, ports });
        }
    }

    pub(super) fn record_event(&mut self, event: RunEvent) {
        self.state.apply(&self.flow, &event);
        self.batch.events.push(event);
    }

    /// Makes everything durable that has happened.
    pub(super) async fn flush(&mut self) -> Result<(), RunError> {
        if self.batch.is_empty() && !self.emitted.is_due {
            return Ok(());
        }
        let batch = self.take_batch();
        if let Some(number) = self.write(batch).await? {
            self.run_record.upto = number;
        }
        Ok(())
    }

    /// Writes a batch, and reports the recorded events to the library.
    pub(super) async fn write(&mut self, batch: Batch) -> Result<Option<u64>, RunError> {
        let events = batch.events.clone();
        let library = Arc::clone(&self.services.library);
        let WriteGuard { keys, time, .. } = &self.guard;
        let about = EventContext { tenant: &keys.tenant, run: &keys.run, flow: &self.flow, at: time.now() };
        let number = self.guard.write(batch, library.extra_records(about, &events)).await?;
        events.iter().for_each(|it| library.on_event(&self.flow, it));
        Ok(number)
    }

    /// Returns what must be written, emitted events first since they happened first.
    pub(super) fn take_batch(&mut self) -> Batch {
        let mut batch = std::mem::take(&mut self.batch);
        let emitted = self.emitted.take(&self.flow);
        batch.events.splice(0..0, emitted);
        batch
    }

    /// Executes nodes that have no task yet. Several answers may arrive together, so there may be more nodes than
    /// `max_concurrency` allows.
    pub(super) fn start_tasks(&mut self) {
        if self.ending.is_some() {
            return;
        }
        let room = self.flow.limits().max_concurrency.max(1) as usize;
        let room = room.saturating_sub(self.working.len());
        let is_runnable =
            |idx: &usize| self.state.nodes[*idx].active.as_ref().is_some_and(Active::is_runnable);
        let idle = self.state.active.iter().copied().filter(|it| !self.working.contains(it));
        let next: Vec<usize> = idle.filter(is_runnable).take(room).collect();
        for idx in next {
            let (Some(node), Some(active)) = (self.flow.node(idx), &self.state.nodes[idx].active) else {
                continue;
            };
            let checked = check_inputs(node, active);
            let attempted = Attempt {
                work: Arc::clone(&node.work),
                kind: node.kind,
                flow: Arc::clone(&self.flow.0.name),
                node: Arc::clone(&node.id),
                lazy: Arc::clone(&node.lazy),
                run: self.guard.keys.run.clone(),
                active: active.clone(),
                thread: active.thread.clone().unwrap_or_else(|| self.run_context.main.clone()),
                services: Arc::clone(&self.services),
                events: EventSink { node: idx, sender: self.event_sender.clone() },
                cancel: self.cancel.child_token(),
                timeout: node.timeout,
                delay: delay(node, active),
                may_repeat: node.may_repeat,
            };
            let span = tracing::info_span!("flow_node", node = %node.id, kind = node.kind);
            self.working.insert(idx);
            let work = async move {
                match checked {
                    Ok(()) => (idx, attempt(attempted).await),
                    Err(err) => (idx, Err(err)),
                }
            };
            self.tasks.push(Box::pin(work.instrument(span)));
        }
    }

    /// Starts no more nodes; the first reason counts.
    pub(super) fn stop_with(&mut self, ending: Ending) {
        self.ending.get_or_insert(ending);
        self.cancel.cancel();
    }
}

/// How runs are driven.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RuntimeConfig {
    /// How long a driver may be silent before another one may take over.
    pub lease: Duration,
    /// How long nodes may take to come to an end when a run is cancelled or fails.
    pub grace: Duration,
}

impl Default for RuntimeConfig {
    fn default() -> Self {
        Self { lease: Duration::from_secs(30), grace: Duration::from_secs(10) }
    }
}
