//! What a connection tells of a session: everything, one turn, or one run.
//!
//! The endpoint for OpenAI's clients has [another](crate::routes::chat): one turn in their format.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;

use contexture_agent::{AgentError, ApprovalRequest, Event, Outcome};
use contexture_flow::{RunEvent, RunId, TurnRef};
use contexture_history::{Application, Body, Change, TurnNo};
use contexture_session::{FeedItem, KeyedTurn, SessionKey, Store, StoreError, Tenant, ThreadId, ThreadKey};
use serde::Deserialize as _;
use tokio::sync::broadcast::error::TryRecvError;
use tokio::sync::{broadcast, oneshot};
use tokio_util::sync::DropGuard;

use super::frame::{run_frame, turn_frame};
use crate::events::cursor::Cursor;
use crate::events::follower::{Told, What};
use crate::running_turns::TurnKey;

/// What a connection tells of a session, and how.
pub(in crate::routes) trait Scope: Send + 'static {
    /// Returns the log without which nothing more is told.
    fn log(&self, session: &SessionKey) -> ThreadId {
        session.session.main()
    }

    /// Whether it ends with a turn, before it matters that a session of the same name is made again.
    fn ends_with_turn(&self) -> bool {
        false
    }

    /// Whether another instance may save text of what is told.
    fn may_run_elsewhere(&self) -> bool {
        true
    }

    /// Completes when the log has everything that is told.
    fn settled(&mut self) -> impl Future<Output = ()> + Send {
        std::future::pending()
    }

    /// Whether nothing more is told, once the log is read. Adds what is told at the end and is not in the log.
    fn ended(&mut self, _frames: &mut String) -> bool {
        false
    }

    /// Whether there is something to tell that no log has.
    fn has_unlogged(&self) -> bool {
        false
    }

    /// Tells what no log has.
    fn tell_unlogged(&mut self, _frames: &mut String) {}

    /// Notes what an item says about what is told.
    fn see(&mut self, _item: &FeedItem) {}

    /// Whether nothing more is told even though the log can't be read.
    fn has_failed(&self) -> bool {
        false
    }

    /// Adds the frame of an event, if it is told. Returns whether it is the last.
    fn tell(&mut self, told: Told, frames: &mut String) -> bool;
}

/// The events of all turns of a session.
pub(in crate::routes) struct SessionScope;

impl Scope for SessionScope {
    fn tell(&mut self, told: Told, frames: &mut String) -> bool {
        if let What::Turn(turn, event) = told.what {
            turn_frame(frames, Some(&told.id), &told.thread, turn, event);
        }
        false
    }
}

/// The events of one turn, to its end.
pub(in crate::routes) struct TurnScope {
    turn_key: TurnKey,
    /// The turn ends with an item behind this number. Earlier ends let it wait.
    ends_after: u64,
    /// Whether the log has everything that is told.
    is_settled: bool,
    /// The outcome of a turn that runs here.
    outcome: Option<oneshot::Receiver<Result<Outcome, AgentError>>>,
    /// Stops the turn when the connection is dropped before its end.
    guard: Option<DropGuard>,
    /// The approvals that the turn waits for, with their tokens.
    approvals: Vec<ApprovalRequest>,
    /// What is told once the turn is over here: its end, and approvals with what follows them. The log has it before: its
    /// client would come back too early, or without a token.
    held_back: Vec<(Cursor, TurnNo, Event)>,
    /// What is told last, if the log has no end of the turn.
    failure: Option<Event>,
}

impl TurnScope {
    /// Returns a turn that does not run here.
    pub(in crate::routes) fn new(turn_key: TurnKey, ends_after: u64, is_settled: bool) -> Self {
        let (outcome, guard, approvals, held_back, failure) = Default::default();
        Self { turn_key, ends_after, is_settled, outcome, guard, approvals, held_back, failure }
    }

    /// Notes that the turn runs here.
    pub(in crate::routes) fn running(
        self,
        outcome: oneshot::Receiver<Result<Outcome, AgentError>>,
        guard: Option<DropGuard>,
    ) -> Self {
        Self { outcome: Some(outcome), guard, ..self }
    }

    /// Whether an event belongs to the turn. Room may be made for it before it begins.
    fn is_told(&self, turn: TurnNo, event: &Event) -> bool {
        let makes_room = matches!(
            event,
            Event::ContextCompactionStart { .. } | Event::ContextCompactionEnd(_) | Event::Compaction(_)
        );
        turn == self.turn_key.turn || (turn < self.turn_key.turn && makes_room)
    }

    /// Tells what was held back.
    fn release(&mut self, frames: &mut String) {
        for (id, turn, mut event) in self.held_back.drain(..) {
            if let Event::ApprovalRequired { approval } = &mut event {
                let known = self.approvals.iter().find(|it| it.id == approval.id);
                approval.token = known.map(|it| it.token.clone()).unwrap_or_default();
            }
            turn_frame(frames, Some(&id), &self.turn_key.thread, turn, event);
        }
    }
}

impl Scope for TurnScope {
    fn log(&self, _session: &SessionKey) -> ThreadId {
        self.turn_key.thread.clone()
    }

    fn ends_with_turn(&self) -> bool {
        true
    }

    fn may_run_elsewhere(&self) -> bool {
        self.outcome.is_none() && !self.is_settled
    }

    /// Waits for the outcome of the turn. By then the log has everything that it said.
    async fn settled(&mut self) {
        let Some(outcome) = &mut self.outcome else { return std::future::pending().await };
        match outcome.await {
            Ok(Ok(outcome)) => self.approvals = outcome.approvals,
            // The log has no end of the turn.
            Ok(Err(err @ AgentError::Unrecorded(_))) => {
                self.failure = Some(Event::Error { code: err.code().into(), message: err.to_string() });
            }
            Ok(Err(_)) | Err(_) => {}
        }
        (self.outcome, self.is_settled) = (None, true);
    }

    fn ended(&mut self, frames: &mut String) -> bool {
        if self.is_settled {
            self.release(frames);
            let TurnKey { thread, turn } = &self.turn_key;
            if let Some(event) = self.failure.take() {
                turn_frame(frames, None, thread, *turn, event);
            }
            self.guard.take().map(DropGuard::disarm);
        }
        self.is_settled
    }

    fn tell(&mut self, told: Told, frames: &mut String) -> bool {
        let What::Turn(turn, event) = told.what else { return false };
        if told.thread != self.turn_key.thread || !self.is_told(turn, &event) {
            return false;
        }
        let is_last = matches!(event, Event::TurnEnd { .. }) && told.id.number > self.ends_after;
        let is_early =
            is_last || !self.held_back.is_empty() || matches!(event, Event::ApprovalRequired { .. });
        self.held_back.push((told.id, turn, event));
        if self.outcome.is_some() && is_early {
            return false;
        }
        self.release(frames);
        if is_last {
            self.guard.take().map(DropGuard::disarm);
        }
        is_last
    }
}

/// The events of a run and of its turns, to its end.
pub(in crate::routes) struct RunScope {
    run: RunId,
    /// The run's log.
    log: ThreadId,
    /// The nodes of its turns.
    nodes: BTreeMap<(ThreadId, TurnNo), Arc<str>>,
    /// The nodes that may begin a turn, by its thread and its idempotency key.
    to_come: BTreeMap<(ThreadId, String), Arc<str>>,
    /// What the runs of the session tell that no log has.
    unlogged: broadcast::Receiver<(RunId, RunEvent)>,
    /// Whether it also ends when the run waits for an answer.
    until_it_waits: bool,
}

impl RunScope {
    pub(in crate::routes) fn new(
        run: RunId,
        log: ThreadId,
        unlogged: broadcast::Receiver<(RunId, RunEvent)>,
        until_it_waits: bool,
    ) -> Self {
        Self { run, log, nodes: BTreeMap::new(), to_come: BTreeMap::new(), unlogged, until_it_waits }
    }

    /// Notes what the run's log says about its turns.
    pub(in crate::routes) fn note(&mut self, event: &RunEvent) {
        match event {
            RunEvent::NodeStart { node, .. } => {
                if let Some((thread, key)) = event.turn_to_come(&self.run) {
                    self.to_come.insert((thread.clone(), key), Arc::clone(node));
                }
            }
            RunEvent::NodeEnd { node, .. } => self.to_come.retain(|_, it| it != node),
            RunEvent::NodeTurn { node, turn: TurnRef { thread, turn }, .. } => {
                if let Some(turn) = TurnNo::parse(turn) {
                    self.nodes.insert((thread.clone(), turn), Arc::clone(node));
                }
            }
            _ => {}
        }
    }

    /// Notes the turns that began and that the run's log does not name yet.
    pub(in crate::routes) async fn note_begun(
        &mut self,
        store: &dyn Store,
        tenant: &Tenant,
    ) -> Result<(), StoreError> {
        for ((thread, key), node) in &self.to_come {
            let log = ThreadKey { tenant: tenant.clone(), thread: thread.clone() };
            if let Some(KeyedTurn { turn, .. }) = store.turn_with_key(log, key.clone()).await? {
                self.nodes.insert((thread.clone(), turn), Arc::clone(node));
            }
        }
        Ok(())
    }

    /// Returns an event of the session as the run tells it, if it does.
    fn event_of(&self, thread: ThreadId, what: What) -> Option<RunEvent> {
        match what {
            What::Run(value) if thread == self.log => RunEvent::deserialize(&value).ok(),
            What::Run(_) => None,
            What::Turn(turn, event) => {
                let node = Arc::clone(self.nodes.get(&(thread.clone(), turn))?);
                let turn = Some(TurnRef { thread, turn: turn.to_string().into() });
                Some(RunEvent::NodeEvent { node, turn, event })
            }
        }
    }
}

impl Scope for RunScope {
    fn log(&self, _session: &SessionKey) -> ThreadId {
        self.log.clone()
    }

    fn has_unlogged(&self) -> bool {
        !self.unlogged.is_empty()
    }

    /// Tells what no log has. It has no id: a follower that comes back does not get it again.
    fn tell_unlogged(&mut self, frames: &mut String) {
        loop {
            match self.unlogged.try_recv() {
                Ok((run, event)) if run == self.run => run_frame(frames, None, &event),
                Ok(_) | Err(TryRecvError::Lagged(_)) => {}
                Err(TryRecvError::Empty | TryRecvError::Closed) => return,
            }
        }
    }

    /// Notes what an item says about the turns of the run. A turn's first items come before the run's log names it.
    fn see(&mut self, FeedItem { thread, item, .. }: &FeedItem) {
        match &item.body {
            Body::Application(Application { value, .. }) if *thread == self.log => {
                RunEvent::deserialize(value).iter().for_each(|it| self.note(it));
            }
            Body::Change(Change::TurnBegan { key: Some(key), .. }) => {
                if let Some(node) = self.to_come.get(&(thread.clone(), key.clone())) {
                    self.nodes.insert((thread.clone(), item.turn), Arc::clone(node));
                }
            }
            _ => {}
        }
    }

    fn tell(&mut self, told: Told, frames: &mut String) -> bool {
        let Some(event) = self.event_of(told.thread, told.what) else { return false };
        if let RunEvent::NodeEnd { .. } = event {
            // Whatever the node has said comes before its end.
            self.tell_unlogged(frames);
        }
        run_frame(frames, Some(&told.id), &event);
        match event {
            RunEvent::RunEnd { .. } => true,
            RunEvent::RunWait { .. } => self.until_it_waits,
            _ => false,
        }
    }
}
