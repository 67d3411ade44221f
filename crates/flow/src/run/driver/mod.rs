//! Drives a run: starts nodes whose inputs are available, executes them, and records the results.
//!
//! Everything is logged before it takes effect: a node executes after the record of its start is durable, and its
//! outputs are durable before another node uses them. The end of one node and the start of the next are one commit.
//!
//! The driver holds the lease of the log, so no other process drives the run. Others may append answers and a cancellation;
//! the driver takes them in before it appends anything itself.

mod ending;
mod outcome;
mod task;
mod wakeups;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use contexture_agent::CancellationToken;
use contexture_compose::BoxFuture;
use contexture_history::Seq;
use contexture_message::ErrorCode;
use contexture_session::{Append, Fence, Guard, LogState};
use futures::channel::mpsc::{UnboundedReceiver, UnboundedSender, unbounded};
use futures::stream::FuturesUnordered;
use tracing::Instrument;

use self::task::{Attempt, attempt};
use super::error::RunError;
use super::record::log::{Entry, RunLog};
use super::record::{RunRecord, StoredRun};
use super::state::ready::RunContext;
use super::state::{Phase, State};
use crate::node::{EmittedEvent, EventSink};
use crate::{EventContext, Flow, NodeError, RunEvent, RunStatus, Services, Step};

type Work = BoxFuture<'static, (usize, Result<Step, NodeError>)>;

/// The state is written after so many events at the latest: a replay starts from it.
const STATE_EVERY: u64 = 256;

/// Drives one run, as long as there is something to do.
pub(crate) struct Driver {
    pub(super) log: RunLog,
    /// The lease that it holds.
    pub(super) fence: Fence,
    /// The end of the log, as far as it is in the state.
    pub(super) end: Seq,
    pub(super) flow: Flow,
    pub(super) services: Arc<Services>,
    pub(super) config: RuntimeConfig,
    pub(super) run_context: RunContext,
    pub(super) run_record: RunRecord,
    /// Whether the stored record does not say that the run is running.
    must_save: bool,
    pub(super) state: State,
    /// Events that are not recorded yet.
    pub(super) batch: Vec<RunEvent>,
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

impl Driver {
    /// Takes a run up where its log ends; `before` is the run as it was before the lease was held. Returns `None` if it
    /// is over.
    pub(crate) async fn open(
        log: RunLog,
        flow: Flow,
        services: Arc<Services>,
        config: RuntimeConfig,
        before: &StoredRun,
    ) -> Result<Option<Self>, RunError> {
        let is_left = before.is_left();
        let owner = log.names.next().into();
        let fence = log.lease(Guard::Acquire { owner, ttl: config.lease }).await?;
        // Another driver may have had the run since it was read, and have left another record of it.
        let StoredRun { record: mut run_record, end, events, .. } = log.load().await?;
        if run_record.status.is_over() {
            log.lease(Guard::Release { fence }).await?;
            return Ok(None);
        }
        let must_save = run_record.status != RunStatus::Running;
        run_record.status = RunStatus::Running;
        let mut state = std::mem::take(&mut run_record.state).restored(&flow);
        events.iter().for_each(|it| state.apply(&flow, it));
        let run_context = RunContext { input: Arc::clone(&run_record.input), main: log.run.session().main() };
        let (event_sender, event_receiver) = unbounded();
        let mut driver = Self {
            log,
            fence,
            end,
            flow,
            services,
            config,
            run_context,
            run_record,
            must_save,
            state,
            batch: Vec::new(),
            tasks: FuturesUnordered::new(),
            working: BTreeSet::new(),
            event_sender,
            event_receiver,
            ending: None,
            cancel: CancellationToken::new(),
        };
        if is_left {
            driver.record_event(RunEvent::RunResume {});
        }
        driver.recover_orphans();
        Ok(Some(driver))
    }

    /// Recovers nodes orphaned by a lost driver.
    pub(super) fn recover_orphans(&mut self) {
        for idx in self.state.runnable().collect::<Vec<_>>() {
            let Some(node) = self.flow.node(idx) else { continue };
            if !node.definition.repeat.unwrap_or(node.traits.is_repeatable) {
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
    pub(crate) async fn drive(mut self, stop: CancellationToken) -> Result<(), RunError> {
        let mut sources = self.wake_sources(stop);
        // A node had failed when the previous driver was lost. Nodes also fail when a run is cancelled, so a
        // cancellation takes precedence.
        if self.state.cancelled {
            self.stop_with(Ending::Cancelled);
        } else if let Some((node, error)) = self.state.failure.clone() {
            self.stop_with(Ending::Failed { node, error });
        }
        loop {
            self.begin_ready();
            if self.is_idle() {
                if self.state.active.is_empty() || self.ending.is_some() {
                    return self.end_run().await;
                }
                if self.release().await? {
                    return Ok(());
                }
                continue;
            }
            self.flush().await?;
            self.start_tasks();
            let wakeup = self.next_wakeup(&mut sources).await;
            if self.handle_wakeup(wakeup, &mut sources).await? {
                return Ok(());
            }
        }
    }

    /// Whether no node is executing and none can start.
    pub(super) fn is_idle(&self) -> bool {
        self.tasks.is_empty() && (self.ending.is_some() || self.state.runnable().next().is_none())
    }

    /// Records the nodes that continue or start now.
    pub(super) fn begin_ready(&mut self) {
        self.resume_answered();
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

    /// Records that nodes continue with their answers: one that is not repeatable does so once.
    fn resume_answered(&mut self) {
        let is_answered = |idx: &usize| self.ending.is_none() && self.phase(*idx) == Some(&Phase::Answered);
        let answered: Vec<usize> = self.state.active.iter().copied().filter(is_answered).collect();
        for idx in answered {
            let Some(node) = self.flow.node(idx).map(|it| Arc::clone(&it.id)) else { continue };
            let firing = self.state.nodes[idx].fired;
            self.record_event(RunEvent::NodeResume { node, firing });
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
        self.batch.push(event);
    }

    /// Makes everything durable that has happened.
    pub(super) async fn flush(&mut self) -> Result<(), RunError> {
        let guard = Guard::Hold { fence: self.fence, ttl: self.config.lease };
        while !self.batch.is_empty() && !self.append(guard.clone()).await? {}
        Ok(())
    }

    /// Appends the batch, and tells the library of it. If others have appended something, takes that in instead and
    /// returns false.
    pub(super) async fn append(&mut self, guard: Guard) -> Result<bool, RunError> {
        let upto = self.end.plus(u64::try_from(self.batch.len()).unwrap_or(u64::MAX));
        let is_old = upto.0.saturating_sub(self.run_record.upto) >= STATE_EVERY;
        let is_due = self.must_save || is_old || matches!(guard, Guard::Release { .. });
        let state = is_due.then(|| self.log_state(upto));
        let entries = self.batch.iter().cloned().map(Entry::Event);
        // A turn that the log does not name is named when its node is repeated.
        let lazy = !is_due && self.batch.iter().all(|it| matches!(it, RunEvent::NodeTurn { .. }));
        let append = Append { state, lazy, ..self.log.draft(self.end, entries, guard) };
        let Some(appended) = self.log.append(append).await? else {
            self.take_entries().await?;
            return Ok(false);
        };
        if is_due {
            (self.run_record.upto, self.must_save) = (upto.0, false);
        }
        let numbers = (1..).map(|it| self.end.plus(it).0);
        numbers.zip(&self.batch).for_each(|(number, event)| self.tell(Some(number), event));
        self.batch.clear();
        self.end = appended.end;
        Ok(true)
    }

    /// Returns what is kept of the run after a position.
    fn log_state(&mut self, upto: Seq) -> LogState {
        if !self.run_record.status.is_over() {
            self.run_record.outputs = self.state.results();
        }
        let state = std::mem::take(&mut self.state);
        let record = RunRecord { upto: upto.0, state, ..self.run_record.clone() };
        let log_state = record.log_state(self.log.time.now());
        self.state = record.state;
        log_state
    }

    /// Tells the library of an event.
    pub(super) fn tell(&self, number: Option<u64>, event: &RunEvent) {
        let RunLog { run, key, .. } = &self.log;
        let about = EventContext { tenant: &key.tenant, run, flow: &self.flow, number };
        self.services.library.on_event(about, event);
    }

    /// Executes nodes that have no task yet. Several answers may arrive together, so there may be more nodes than
    /// `max_concurrency` allows.
    pub(super) fn start_tasks(&mut self) {
        if self.ending.is_some() {
            return;
        }
        let room = self.flow.limits().max_concurrency.max(1) as usize;
        let room = room.saturating_sub(self.working.len());
        let idle = self.state.runnable().filter(|it| !self.working.contains(it));
        let next: Vec<usize> = idle.take(room).collect();
        for idx in next {
            let (Some(node), Some(active)) = (self.flow.node(idx), &self.state.nodes[idx].active) else {
                continue;
            };
            let attempted = Attempt {
                flow: self.flow.clone(),
                idx,
                run: self.log.run.clone(),
                active: active.clone(),
                thread: active.thread.clone().unwrap_or_else(|| self.run_context.main.clone()),
                services: Arc::clone(&self.services),
                events: EventSink { node: idx, sender: self.event_sender.clone() },
                cancel: self.cancel.child_token(),
            };
            let span = tracing::info_span!("flow_node", node = %node.id, kind = node.definition.kind.name());
            self.working.insert(idx);
            self.tasks.push(Box::pin(async move { (idx, attempt(attempted).await) }.instrument(span)));
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
