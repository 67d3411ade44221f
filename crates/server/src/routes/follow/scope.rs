//! What a connection tells of a session: everything, one turn, or one run.

use std::collections::BTreeMap;
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
use crate::events::follower::{Told, What};
use crate::running_turns::TurnKey;

/// What a connection tells of a session.
pub(in crate::routes) enum Scope {
    /// The events of all turns.
    Session,
    /// The events of one turn, to its end.
    Turn(Box<TurnScope>),
    /// The events of a run and of its turns, to its end.
    Run(RunScope),
}

impl Scope {
    /// Returns the log without which nothing more is told.
    pub(super) fn log(&self, session: &SessionKey) -> ThreadId {
        match self {
            Scope::Run(run) => run.log.clone(),
            Scope::Session | Scope::Turn(_) => session.session.main(),
        }
    }

    /// Whether another instance may save text of what is told.
    pub(super) fn may_run_elsewhere(&self) -> bool {
        match self {
            Scope::Turn(turn) => turn.outcome.is_none() && !turn.is_settled,
            Scope::Session | Scope::Run(_) => true,
        }
    }

    /// Completes when the log has everything that is told.
    pub(super) async fn settled(&mut self) {
        match self {
            Scope::Turn(turn) => turn.settled().await,
            Scope::Session | Scope::Run(_) => std::future::pending().await,
        }
    }

    /// Whether nothing more is told, once the log is read. Adds what is told at the end and is not in the log.
    pub(super) fn ended(&mut self, frames: &mut String) -> bool {
        let Scope::Turn(turn) = self else { return false };
        if let Some(event) = turn.last_event.take().filter(|_| turn.is_settled) {
            turn_frame(frames, None, &turn.turn_key.thread, turn.turn_key.turn, event);
        }
        if turn.is_settled {
            turn.guard.take().map(DropGuard::disarm);
        }
        turn.is_settled
    }

    /// Returns the run that is told, if it is one.
    pub(super) fn run(&mut self) -> Option<&mut RunScope> {
        if let Scope::Run(run) = self { Some(run) } else { None }
    }

    /// Adds the frame of an event, if it is told. Returns whether it is the last.
    pub(super) async fn tell(&mut self, told: Told, frames: &mut String) -> bool {
        match self {
            Scope::Session => match told.what {
                What::Turn(turn, event) => turn_frame(frames, Some(&told.id), &told.thread, turn, event),
                What::Run(_) => {}
            },
            Scope::Turn(turn) => return turn.tell(told, frames).await,
            Scope::Run(run) => return run.tell(told, frames).unwrap_or(false),
        }
        false
    }
}

/// One turn of a session.
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
    /// What is told last, if the log has no end of the turn.
    last_event: Option<Event>,
}

impl TurnScope {
    /// Returns a turn that does not run here.
    pub(in crate::routes) fn new(turn_key: TurnKey, ends_after: u64, is_settled: bool) -> Self {
        let (outcome, guard, approvals, last_event) = Default::default();
        Self { turn_key, ends_after, is_settled, outcome, guard, approvals, last_event }
    }

    /// Notes that the turn runs here.
    pub(in crate::routes) fn running(
        self,
        outcome: oneshot::Receiver<Result<Outcome, AgentError>>,
        guard: Option<DropGuard>,
    ) -> Self {
        Self { outcome: Some(outcome), guard, ..self }
    }

    /// Waits for the outcome of the turn. By then the log has everything that it said.
    async fn settled(&mut self) {
        let Some(outcome) = &mut self.outcome else { return std::future::pending().await };
        match outcome.await {
            Ok(Ok(outcome)) => self.approvals = outcome.approvals,
            Ok(Err(err @ AgentError::Unrecorded(_))) => {
                self.last_event = Some(Event::Error { code: err.code().into(), message: err.to_string() });
            }
            Ok(Err(_)) | Err(_) => {}
        }
        (self.outcome, self.is_settled) = (None, true);
    }

    async fn tell(&mut self, told: Told, frames: &mut String) -> bool {
        let What::Turn(turn, mut event) = told.what else { return false };
        if told.thread != self.turn_key.thread || !self.is_told(turn, &event) {
            return false;
        }
        if let Event::ApprovalRequired { approval } = &mut event {
            if self.outcome.is_some() {
                // The log has it before the turn's own client gets its token.
                self.settled().await;
            }
            let token = self.approvals.iter().find(|it| it.id == approval.id).map(|it| it.token.clone());
            approval.token = token.unwrap_or_default();
        }
        let is_last = matches!(event, Event::TurnEnd { .. }) && told.id.number > self.ends_after;
        if is_last {
            self.guard.take().map(DropGuard::disarm);
        }
        turn_frame(frames, Some(&told.id), &told.thread, turn, event);
        is_last
    }

    /// Whether an event belongs to the turn. Room may be made for it before it begins.
    fn is_told(&self, turn: TurnNo, event: &Event) -> bool {
        let makes_room = matches!(
            event,
            Event::ContextCompactionStart { .. } | Event::ContextCompactionEnd(_) | Event::Compaction(_)
        );
        turn == self.turn_key.turn || (turn < self.turn_key.turn && makes_room)
    }
}

/// One run of a session.
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

    /// Notes what an item says about the turns of the run. A turn's first items come before the run's log names it.
    pub(super) fn see(&mut self, FeedItem { thread, item, .. }: &FeedItem) {
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

    /// Whether there is something to tell that no log has.
    pub(super) fn has_unlogged(&self) -> bool {
        !self.unlogged.is_empty()
    }

    /// Tells what no log has. It has no id: a follower that comes back does not get it again.
    pub(super) fn tell_unlogged(&mut self, frames: &mut String) {
        loop {
            match self.unlogged.try_recv() {
                Ok((run, event)) if run == self.run => run_frame(frames, None, &event),
                Ok(_) | Err(TryRecvError::Lagged(_)) => {}
                Err(TryRecvError::Empty | TryRecvError::Closed) => return,
            }
        }
    }

    fn tell(&mut self, told: Told, frames: &mut String) -> Option<bool> {
        let event = match told.what {
            What::Run(value) if told.thread == self.log => RunEvent::deserialize(&value).ok()?,
            What::Run(_) => return None,
            What::Turn(turn, event) => {
                let node = Arc::clone(self.nodes.get(&(told.thread.clone(), turn))?);
                let turn = Some(TurnRef { thread: told.thread, turn: turn.to_string().into() });
                RunEvent::NodeEvent { node, turn, event }
            }
        };
        if let RunEvent::NodeEnd { .. } = event {
            // Whatever the node has said comes before its end.
            self.tell_unlogged(frames);
        }
        run_frame(frames, Some(&told.id), &event);
        Some(match event {
            RunEvent::RunEnd { .. } => true,
            RunEvent::RunWait { .. } => self.until_it_waits,
            _ => false,
        })
    }
}
