//! Drives a run: begins nodes whose inputs are there, works on them, writes down what becomes of them.
//!
//! Whatever happens is first in the log and then acted upon: a node begins to work after the record of its start is durable, and what it
//! gives is on record before anybody else begins with it. The end of one node and the start of the next are one commit.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use contexture_agent::{CancellationToken, Event};
use contexture_compose::BoxFuture;
use contexture_history::Timestamp;
use contexture_session::Document;
use futures::channel::mpsc::{UnboundedReceiver, UnboundedSender, unbounded};
use futures::stream::FuturesUnordered;
use futures::{FutureExt, StreamExt};
use tracing::Instrument;

use super::book::{Book, marks, parsed, replay, written};
use super::commit::{Batch, Pen};
use super::error::RunError;
use super::event::{RunEvent, RunStatus, Wait};
use super::inbox::{CANCEL, Letter, wait_id};
use super::ready::Given;
use super::runtime::RuntimeConfig;
use super::state::{Active, Phase, State};
use super::task::{Attempt, attempt, cancelled, check_inputs, delay};
use super::telling::Telling;
use super::weight::{MAX_WEIGHT, weight};
use crate::define::OnError;
use crate::flow::Flow;
use crate::lower::{DONE, ERROR};
use crate::node::{Asked, Events, NodeError, Step};
use crate::services::Services;
use crate::value::PortValue;

type Outputs = BTreeMap<String, PortValue>;
type Work = BoxFuture<'static, (usize, Result<Step, NodeError>)>;

/// Drives one run, as long as there is something to do.
pub(crate) struct Driver {
    pen: Pen,
    flow: Flow,
    services: Arc<Services>,
    config: RuntimeConfig,
    given: Given,
    book: Book,
    state: State,
    /// What has happened and is not on record yet.
    batch: Batch,
    telling: Telling,
    tasks: FuturesUnordered<Work>,
    /// Nodes that somebody works on.
    working: BTreeSet<usize>,
    teller: UnboundedSender<(usize, Event)>,
    told: UnboundedReceiver<(usize, Event)>,
    /// Why nothing more begins, if so.
    ending: Option<Ending>,
    /// Cancelled when the run ends before its time.
    cancel: CancellationToken,
}

/// Why a run ends before its time.
enum Ending {
    Cancelled,
    Failed { node: String, error: NodeError },
}

/// Why a driver leaves a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Left {
    /// It is over.
    Over,
    /// Everything waits for somebody.
    Waiting {
        /// How much of the inbox it had taken.
        taken: u64,
    },
    /// The driver was told to leave it to others.
    Stopped,
}

/// What a driver heard of.
enum Heard {
    Done(usize, Result<Step, NodeError>),
    Told(usize, Event),
    Letters,
    Beat,
    Tell,
    Grace,
    Stop,
}

/// What a driver listens to besides its nodes.
struct Ears {
    letters: BoxFuture<'static, ()>,
    beat: BoxFuture<'static, ()>,
    stop: BoxFuture<'static, ()>,
    grace: Option<BoxFuture<'static, ()>>,
}

impl Driver {
    /// Takes a run up where its log ends.
    pub(crate) async fn open(
        pen: Pen,
        flow: Flow,
        services: Arc<Services>,
        config: RuntimeConfig,
        mut book: Book,
        is_taken_over: bool,
    ) -> Result<Self, RunError> {
        let mut state = std::mem::take(&mut book.state).restored();
        if state.nodes.is_empty() {
            state = State::new(&flow);
        }
        book.upto = replay(&*pen.records, &pen.keys, &flow, &mut state, book.upto).await?;
        let given = Given { input: Arc::clone(&book.input), main: pen.keys.run.session().main() };
        let (teller, told) = unbounded();
        let mut driver = Self {
            telling: Telling::default(),
            pen,
            flow,
            services,
            config,
            given,
            book,
            state,
            batch: Batch::default(),
            tasks: FuturesUnordered::new(),
            working: BTreeSet::new(),
            teller,
            told,
            ending: None,
            cancel: CancellationToken::new(),
        };
        if is_taken_over {
            driver.note(RunEvent::RunResume {});
        }
        driver.settle_lost();
        Ok(driver)
    }

    /// Decides what becomes of nodes that somebody worked on who is gone.
    fn settle_lost(&mut self) {
        let is_runnable =
            |idx: &usize| self.state.nodes[*idx].active.as_ref().is_some_and(Active::is_runnable);
        let lost: Vec<usize> = self.state.active.iter().copied().filter(is_runnable).collect();
        for idx in lost {
            let Some(node) = self.flow.node(idx) else { continue };
            if !node.is_repeatable {
                let message = "it ran when its process was lost, and does not say that it may be repeated";
                self.fail(idx, NodeError::new("interrupted", message));
            } else if self.phase(idx) == Some(&Phase::Running) {
                let (node, firing) = (Arc::clone(&node.id), self.state.nodes[idx].fired);
                self.note(RunEvent::NodeRepeat { node, firing });
            }
        }
    }

    fn phase(&self, idx: usize) -> Option<&Phase> {
        self.state.nodes[idx].active.as_ref().map(|it| &it.phase)
    }

    /// Drives the run until it is over, waits, or is to be left.
    pub(crate) async fn drive(mut self, stop: CancellationToken) -> Result<Left, RunError> {
        let mut ears = self.ears(stop);
        self.take_letters().await?;
        loop {
            self.begin_ready();
            if self.is_idle() {
                if self.state.active.is_empty() || self.ending.is_some() {
                    return self.end().await;
                }
                return self.release().await;
            }
            self.flush().await?;
            self.work();
            let heard = self.listen(&mut ears).await;
            if let Some(left) = self.react(heard, &mut ears).await? {
                return Ok(left);
            }
        }
    }

    fn ears(&self, stop: CancellationToken) -> Ears {
        let stop = Box::pin(stop.cancelled_owned());
        Ears { letters: self.letters_come(), beat: self.next_beat(), stop, grace: None }
    }

    fn letters_come(&self) -> BoxFuture<'static, ()> {
        let (records, inbox, taken) = (Arc::clone(&self.pen.records), self.pen.keys.inbox(), self.book.taken);
        let time = Arc::clone(&self.pen.time);
        Box::pin(async move {
            if records.grown(inbox, taken).await.is_err() {
                // The store is away: asking at once again would only keep it busy.
                time.sleep(Duration::from_secs(1)).await;
            }
        })
    }

    fn next_beat(&self) -> BoxFuture<'static, ()> {
        self.pen.time.sleep(self.config.lease / 3)
    }

    /// Whether nobody works and nothing can begin.
    fn is_idle(&self) -> bool {
        let is_runnable =
            |idx: &usize| self.state.nodes[*idx].active.as_ref().is_some_and(|it| it.is_runnable());
        self.tasks.is_empty() && (self.ending.is_some() || !self.state.active.iter().any(is_runnable))
    }

    /// Puts on record which nodes begin now.
    fn begin_ready(&mut self) {
        while self.ending.is_none() {
            let Some(start) = self.state.next_start(&self.flow, &self.given) else { return };
            let RunEvent::NodeStart { node, firing, .. } = &start else { return };
            let (node, firing) = (Arc::clone(node), *firing);
            let max = self.flow.limits().max_steps;
            if self.state.steps >= max {
                let message = format!("more than {max} nodes have run since somebody was waited for");
                let error = NodeError::new("flow_max_steps", message);
                return self.stop_with(Ending::Failed { node: node.to_string(), error });
            }
            self.note(start);
            self.ask_for_inputs(&node, firing);
        }
    }

    /// A pulled node asks for what leads to it from other pulled nodes.
    fn ask_for_inputs(&mut self, node: &Arc<str>, firing: u32) {
        let Some(idx) = self.flow.idx_of(node) else { return };
        let inputs = self.flow.nodes()[idx].inputs.iter().filter(|it| it.is_asked);
        let ports: Vec<String> = inputs.map(|it| it.port.name.clone()).collect();
        if !ports.is_empty() {
            self.note(RunEvent::NodePull { node: Arc::clone(node), firing, ports });
        }
    }

    fn note(&mut self, event: RunEvent) {
        self.state.apply(&self.flow, &event);
        self.batch.events.push(event);
    }

    /// Makes everything durable that has happened.
    async fn flush(&mut self) -> Result<(), RunError> {
        if self.batch.is_empty() && !self.telling.is_due {
            return Ok(());
        }
        let batch = self.take_batch();
        if let Some(number) = self.write(batch).await? {
            self.book.upto = number;
        }
        Ok(())
    }

    /// Writes a batch, and says what is on record now.
    async fn write(&mut self, batch: Batch) -> Result<Option<u64>, RunError> {
        let events = batch.events.clone();
        let number = self.pen.write(batch).await?;
        events.iter().for_each(|it| self.services.library.heard(&self.flow, it));
        Ok(number)
    }

    /// Returns what is to be written: what was told first, for it was told before.
    fn take_batch(&mut self) -> Batch {
        let mut batch = std::mem::take(&mut self.batch);
        let told = self.telling.take(&self.flow);
        batch.events.splice(0..0, told);
        batch
    }

    /// Lets nodes work that nobody works on yet. Several may have been answered at once, so there may be more than may work at once.
    fn work(&mut self) {
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
                flow: Arc::clone(&self.flow.0.name),
                node: Arc::clone(&node.id),
                lazy: Arc::clone(&node.lazy),
                run: self.pen.keys.run.clone(),
                active: active.clone(),
                thread: active.thread.clone().unwrap_or_else(|| self.given.main.clone()),
                services: Arc::clone(&self.services),
                events: Events { node: idx, sender: self.teller.clone() },
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

    async fn listen(&mut self, ears: &mut Ears) -> Heard {
        let mut tell = self.telling.due(&self.pen.time);
        std::future::poll_fn(|cx| {
            use std::task::Poll::{Pending, Ready};
            if let Ready(Some((idx, done))) = self.tasks.poll_next_unpin(cx) {
                return Ready(Heard::Done(idx, done));
            }
            if let Ready(Some((idx, event))) = self.told.poll_next_unpin(cx) {
                return Ready(Heard::Told(idx, event));
            }
            if ears.letters.poll_unpin(cx).is_ready() {
                return Ready(Heard::Letters);
            }
            if ears.beat.poll_unpin(cx).is_ready() {
                return Ready(Heard::Beat);
            }
            if ears.stop.poll_unpin(cx).is_ready() {
                return Ready(Heard::Stop);
            }
            if let Some(tell) = tell.as_mut()
                && tell.poll_unpin(cx).is_ready()
            {
                return Ready(Heard::Tell);
            }
            match ears.grace.as_mut().map(|it| it.poll_unpin(cx).is_ready()) {
                Some(true) => Ready(Heard::Grace),
                _ => Pending,
            }
        })
        .await
    }

    async fn react(&mut self, heard: Heard, ears: &mut Ears) -> Result<Option<Left>, RunError> {
        match heard {
            Heard::Done(idx, done) => self.done(idx, done),
            Heard::Told(idx, event) => self.telling.add(idx, event),
            Heard::Letters => {
                self.take_letters().await?;
                ears.letters = self.letters_come();
            }
            Heard::Beat => {
                self.pen.beat(self.pen.time.now()).await?;
                ears.beat = self.next_beat();
            }
            Heard::Tell => self.telling.is_due = true,
            Heard::Grace => self.tasks.clear(),
            Heard::Stop => {
                self.telling.is_due = true;
                self.flush().await?;
                // Nobody needs to wait for the lease: it is given up.
                self.pen.beat(Timestamp(0)).await?;
                return Ok(Some(Left::Stopped));
            }
        }
        if self.ending.is_some() && ears.grace.is_none() {
            ears.grace = Some(self.pen.time.sleep(self.config.grace));
        }
        Ok(None)
    }

    /// Takes what has come to the run from outside.
    async fn take_letters(&mut self) -> Result<(), RunError> {
        const PAGE: usize = 64;
        loop {
            let page = self.pen.records.read(self.pen.keys.inbox(), self.book.taken, PAGE).await?;
            let is_last = page.len() < PAGE;
            for record in page {
                self.book.taken = record.number;
                self.take_letter(parsed(&self.pen.keys, &record.data)?);
            }
            if is_last {
                return Ok(());
            }
        }
    }

    fn take_letter(&mut self, letter: Letter) {
        let (wait, value) = match letter {
            Letter::Answer { wait, value } => (wait, value),
            Letter::Cancel => {
                self.batch.deletes.push(self.pen.keys.mark(CANCEL));
                return self.stop_with(Ending::Cancelled);
            }
        };
        self.batch.deletes.push(self.pen.keys.mark(&wait));
        let waits = |idx: &&usize| matches!(self.phase(**idx), Some(Phase::Waiting { wait: own, .. }) if *own == wait);
        // What was taken before the driver was lost is in the log already, and waits no more.
        let Some(idx) = self.state.active.iter().find(waits).copied() else { return };
        let Some(node) = self.flow.node(idx).map(|it| Arc::clone(&it.id)) else { return };
        let firing = self.state.nodes[idx].fired;
        self.note(RunEvent::NodeAnswer { node, firing, wait, value });
    }

    /// Takes note of what a node came to.
    fn done(&mut self, idx: usize, done: Result<Step, NodeError>) {
        self.working.remove(&idx);
        // Whatever it told before is told before its end.
        while let Ok((idx, event)) = self.told.try_recv() {
            self.telling.add(idx, event);
        }
        match done {
            Ok(Step::Done(outputs)) => self.finish(idx, outputs),
            Ok(Step::Wait(asked)) => self.wait(idx, asked),
            Ok(Step::Pull(ports)) => self.pull(idx, ports),
            Err(error) => self.retry_or_fail(idx, error),
        }
    }

    fn finish(&mut self, idx: usize, mut outputs: Outputs) {
        let Some(node) = self.flow.node(idx) else { return };
        let wrong = outputs.iter().find_map(|(name, value)| {
            let Some(output) = node.outputs.iter().find(|it| it.port.name == *name) else {
                return Some(format!("it gives `{name}`, and has no such output"));
            };
            value.check(&output.port.of).err().map(|why| format!("output `{name}`: {why}"))
        });
        if let Some(message) = wrong {
            return self.fail(idx, NodeError::new("flow_type_mismatch", message));
        }
        let heavy: usize = outputs.values().map(weight).sum();
        if heavy > MAX_WEIGHT {
            let message = format!("its outputs have about {heavy} bytes, the limit is {MAX_WEIGHT}");
            return self.fail(idx, NodeError::new("flow_value_too_large", message));
        }
        outputs.insert(DONE.to_owned(), PortValue::data(true));
        self.end_node(idx, outputs, None);
    }

    fn end_node(&mut self, idx: usize, outputs: Outputs, error: Option<NodeError>) {
        let Some(node) = self.flow.node(idx).map(|it| Arc::clone(&it.id)) else { return };
        let firing = self.state.nodes[idx].fired;
        self.note(RunEvent::NodeEnd { node, firing, outputs: Arc::new(outputs), error });
    }

    fn wait(&mut self, idx: usize, asked: Asked) {
        let (Some(node), Some(active)) = (self.flow.node(idx), &self.state.nodes[idx].active) else { return };
        let id = wait_id(&node.id, active.firing, active.n_waits);
        let (firing, node) = (active.firing, Arc::clone(&node.id));
        let wait = Wait { id, node: node.to_string(), asked };
        let document =
            Document { key: self.pen.keys.wait(&wait.id), at: self.pen.time.now(), data: written(&wait) };
        self.batch.puts.push(document);
        self.note(RunEvent::NodeWait { node, firing, wait });
    }

    fn pull(&mut self, idx: usize, ports: Vec<String>) {
        let Some(node) = self.flow.node(idx) else { return };
        let can = |name: &String| {
            node.inputs.iter().any(|it| it.port.name == *name && it.port.lazy && !it.sources.is_empty())
        };
        let Some(active) = &self.state.nodes[idx].active else { return };
        // Who asks again for what was not given would ask for ever.
        let asked_before = ports.iter().find(|it| active.pulled.contains(it));
        let message = match ports.iter().find(|it| !can(it) || active.inputs.contains_key(*it)) {
            Some(name) => Some(format!("it asks for input `{name}`, which nothing can give")),
            None => asked_before.map(|name| format!("it asked for input `{name}`, and nothing came")),
        };
        if let Some(message) = message {
            return self.fail(idx, NodeError::new("flow_missing_input", message));
        }
        let (node, firing) = (Arc::clone(&node.id), self.state.nodes[idx].fired);
        self.note(RunEvent::NodePull { node, firing, ports });
    }

    fn retry_or_fail(&mut self, idx: usize, error: NodeError) {
        let (Some(node), Some(active)) = (self.flow.node(idx), &self.state.nodes[idx].active) else { return };
        if self.ending.is_some() || active.attempt > node.max_retries {
            return self.fail(idx, error);
        }
        let (node, firing, attempt) = (Arc::clone(&node.id), active.firing, active.attempt + 1);
        self.note(RunEvent::NodeRetry { node, firing, attempt, error });
    }

    /// A node failed for good.
    fn fail(&mut self, idx: usize, error: NodeError) {
        let Some(node) = self.flow.node(idx) else { return };
        let emits = node.on_error == OnError::Emit && self.ending.is_none();
        let id = node.id.to_string();
        let mut outputs = Outputs::new();
        if emits {
            let says = serde_json::json!({"code": error.code, "message": error.message});
            outputs.insert(ERROR.to_owned(), PortValue::data(says));
        }
        self.end_node(idx, outputs, Some(error.clone()));
        if !emits {
            self.stop_with(Ending::Failed { node: id, error });
        }
    }

    /// Lets nothing more begin; the first reason counts.
    fn stop_with(&mut self, ending: Ending) {
        self.ending.get_or_insert(ending);
        self.cancel.cancel();
    }

    /// Puts the run's end on record.
    async fn end(mut self) -> Result<Left, RunError> {
        let stalled = |state: &State| {
            let (node, message) = state.stalled(&self.flow)?;
            Some(Ending::Failed { node, error: NodeError::new("flow_stalled", message) })
        };
        let ending = self.ending.take().or_else(|| stalled(&self.state));
        let (status, node, error) = match ending {
            None => (RunStatus::Completed, None, None),
            Some(Ending::Cancelled) => (RunStatus::Cancelled, None, None),
            Some(Ending::Failed { node, error }) => (RunStatus::Failed, Some(node), Some(error)),
        };
        for idx in self.state.active.clone() {
            if let Some(Phase::Waiting { wait, .. }) = self.phase(idx) {
                let wait = self.pen.keys.wait(wait);
                self.batch.deletes.push(wait);
            }
            self.end_node(idx, Outputs::new(), Some(cancelled()));
        }
        let outputs = self.state.results();
        self.book.outputs.clone_from(&outputs);
        (self.book.status, self.book.node, self.book.error) = (status, node.clone(), error.clone());
        self.note(RunEvent::RunEnd { status, outputs, node, error });
        let marks = marks(&*self.pen.records, &self.pen.keys).await?;
        self.batch.deletes.extend(marks);
        self.batch.deletes.push(self.pen.keys.fence(self.pen.epoch));
        self.leave(State::default()).await?;
        Ok(Left::Over)
    }

    /// Leaves the run until somebody answers.
    async fn release(mut self) -> Result<Left, RunError> {
        let waiting = self.state.active.iter().filter_map(|idx| match self.phase(*idx) {
            Some(Phase::Waiting { wait, .. }) => Some(wait.clone()),
            _ => None,
        });
        let waits: Vec<String> = waiting.collect();
        if waits.is_empty() {
            // Nodes ask for inputs that nobody can give.
            return self.end_stalled().await;
        }
        self.note(RunEvent::RunWait { waits });
        self.book.status = RunStatus::Waiting;
        self.book.outputs = self.state.results();
        let state = std::mem::take(&mut self.state);
        let taken = self.book.taken;
        self.leave(state).await?;
        Ok(Left::Waiting { taken })
    }

    async fn end_stalled(mut self) -> Result<Left, RunError> {
        let blocked = || self.state.blocked(&self.flow, &self.given);
        let (node, message) = self.state.stalled(&self.flow).or_else(blocked).unwrap_or_default();
        let error = NodeError::new("flow_stalled", message);
        self.ending = Some(Ending::Failed { node, error });
        self.end().await
    }

    async fn leave(mut self, state: State) -> Result<(), RunError> {
        let mut batch = self.take_batch();
        // Nobody else writes to the log, so the numbers are known before it is written.
        self.book.upto += u64::try_from(batch.events.len()).unwrap_or(u64::MAX);
        self.book.is_driven = false;
        self.book.state = state;
        batch.puts.push(self.book.document(&self.pen.keys, self.pen.time.now()));
        batch.deletes.push(self.pen.keys.due());
        self.write(batch).await.map(|_| ())
    }
}
