//! Running turns: each has its own task, so it continues when its client disconnects.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use contexture_agent::{Agent, AgentError, AnswerRequest, Decision, Event, Outcome, Run, RunRequest};
use contexture_compose::Prompt;
use contexture_history::TurnStatus;
use contexture_message::{ErrorCode, Usage};
use contexture_session::records::{Document, Writes};
use contexture_session::{SessionKey, Thread, ThreadId, ThreadKey, Time};
use futures::StreamExt;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::Instrument;

use crate::Problem;
use crate::events::log::{RUNNING, TurnEvent, TurnKey, key_of};
use crate::events::writer::EventWriter;
use crate::ops::metrics::Metrics;

/// The kind of the documents that store the request of a turn.
pub(crate) const TURN: &str = "turn";

/// The work of the agent.
#[derive(Debug)]
pub(crate) enum TurnJob {
    /// A new turn of the thread.
    Run(Box<RunRequest>),
    /// A decision about a turn that waits.
    Decide(Decision, CancellationToken),
    /// Results of tools that the client ran.
    Answer(Box<AnswerRequest>),
}

/// A turn to run.
#[derive(Debug)]
pub(crate) struct TurnTask {
    /// The session that receives its events; turns outside a session publish none.
    pub(crate) session: Option<SessionKey>,
    pub(crate) thread: Thread,
    pub(crate) prompt: Prompt,
    pub(crate) agent: Agent,
    pub(crate) job: TurnJob,
    /// The original request, kept for retries.
    pub(crate) asked: Option<Value>,
    /// Receives a copy of every event as it happens.
    pub(crate) tap: Option<mpsc::UnboundedSender<Event>>,
}

/// The request of a turn, as stored.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct StoredTurnRequest {
    pub(crate) prompt: String,
    pub(crate) request: Value,
}

/// A turn that was given to the server.
pub(crate) struct TurnHandle {
    /// Resolves when the turn has begun; closed if the turn is refused before.
    pub(crate) turn_key: oneshot::Receiver<TurnKey>,
    /// The outcome of the turn. By then all its events are written, unless the store refuses writes.
    pub(crate) outcome: oneshot::Receiver<Result<Outcome, AgentError>>,
    /// Stops the turn.
    pub(crate) cancel: CancellationToken,
    /// The tokens of the approvals that it requested.
    pub(crate) tokens: ApprovalTokens,
    /// Tells a timeout or a server shutdown apart from a requested stop.
    pub(crate) stop_cause: StopCause,
}

/// Why a turn was stopped without a request to do so.
#[derive(Clone, Debug)]
pub(crate) struct StopCause {
    timed_out: Arc<AtomicBool>,
    stop: CancellationToken,
    timeout: Duration,
}

impl StopCause {
    /// Returns the problem that an error of the turn is.
    pub(crate) fn problem(&self, err: AgentError) -> Problem {
        match err {
            AgentError::Cancelled if self.timed_out.load(Ordering::Relaxed) => {
                Problem::new(ErrorCode::TurnTimeout, format!("the turn took longer than {:?}", self.timeout))
                    .hint("`server.turn_timeout_seconds` of contexture.toml is the limit")
            }
            AgentError::Cancelled if self.stop.is_cancelled() => {
                Problem::new(ErrorCode::ShuttingDown, "the server is stopping; the turn was interrupted")
                    .retry_after(1)
            }
            err => err.into(),
        }
    }
}

/// The tokens that decide about approvals, by their ids. They are in memory only.
#[derive(Clone, Debug, Default)]
pub(crate) struct ApprovalTokens(Arc<Mutex<BTreeMap<String, String>>>);

impl ApprovalTokens {
    fn add(&self, event: &Event) {
        if let Event::ApprovalRequired { approval } = event {
            let mut tokens = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            tokens.insert(approval.id.clone(), approval.token.clone());
        }
    }

    pub(crate) fn get(&self, approval: &str) -> Option<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(approval).cloned()
    }
}

/// All turns that run here.
#[derive(Clone, Debug)]
pub(crate) struct RunningTurns(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    event_writer: EventWriter,
    time: Arc<dyn Time>,
    running: Mutex<BTreeMap<(ThreadKey, String), CancellationToken>>,
    tasks: TaskTracker,
    /// Stops all of them.
    stop: CancellationToken,
    timeout: Duration,
    metrics: Metrics,
}

impl RunningTurns {
    pub(crate) fn new(
        event_writer: EventWriter,
        time: Arc<dyn Time>,
        timeout: Duration,
        metrics: Metrics,
    ) -> Self {
        let (running, tasks, stop) = (Mutex::default(), TaskTracker::new(), CancellationToken::new());
        Self(Arc::new(Inner { event_writer, time, running, tasks, stop, timeout, metrics }))
    }

    /// Whether no more turns are begun.
    pub(crate) fn is_stopping(&self) -> bool {
        self.0.tasks.is_closed()
    }

    fn running(&self) -> MutexGuard<'_, BTreeMap<(ThreadKey, String), CancellationToken>> {
        self.0.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns how many turns run.
    pub(crate) fn n_running(&self) -> usize {
        self.0.tasks.len()
    }

    /// Starts a turn in a new task.
    pub(crate) fn start(&self, mut task: TurnTask) -> Result<TurnHandle, Problem> {
        if self.0.tasks.is_closed() {
            let problem =
                Problem::new(ErrorCode::ShuttingDown, "the server is stopping and accepts no more turns");
            return Err(problem.retry_after(1));
        }
        let cancel = self.0.stop.child_token();
        match &mut task.job {
            TurnJob::Run(request) => request.cancel = cancel.clone(),
            TurnJob::Decide(_, token) => *token = cancel.clone(),
            TurnJob::Answer(request) => request.cancel = cancel.clone(),
        }
        let (started_sender, turn_key) = oneshot::channel();
        let (outcome_sender, outcome) = oneshot::channel();
        let tokens = ApprovalTokens::default();
        let (stop, timeout) = (self.0.stop.clone(), self.0.timeout);
        let stop_cause = StopCause { timed_out: Arc::default(), stop, timeout };
        let driver = TurnDriver {
            running_turns: self.clone(),
            key: task.thread.key().clone(),
            session: task.session,
            asked: task
                .asked
                .map(|request| StoredTurnRequest { prompt: task.prompt.id().to_owned(), request }),
            tap: task.tap,
            tokens: tokens.clone(),
            cancel: cancel.clone(),
            started_sender: Some(started_sender),
            turn_key: None,
            buffered: Vec::new(),
            has_ended: false,
            usage: Usage::default(),
            timed_out: Arc::clone(&stop_cause.timed_out),
        };
        let run = match task.job {
            TurnJob::Run(request) => task.agent.run(&task.prompt, &task.thread, *request),
            TurnJob::Decide(decision, cancel) => {
                task.agent.decide(&task.prompt, &task.thread, decision, cancel)
            }
            TurnJob::Answer(request) => task.agent.answer(&task.prompt, &task.thread, *request),
        };
        let work = async move {
            let result = driver.drive(run).await;
            // The receiver may be gone.
            let _ = outcome_sender.send(result);
        };
        // The turn belongs to the trace of its request.
        self.0.tasks.spawn(work.in_current_span());
        Ok(TurnHandle { turn_key, outcome, cancel, tokens, stop_cause })
    }

    /// Whether a turn runs here.
    pub(crate) fn is_running(&self, thread: &ThreadKey, turn: &str) -> bool {
        self.running().contains_key(&(thread.clone(), turn.to_owned()))
    }

    /// Stops a turn that runs here. Returns whether there was one.
    pub(crate) fn cancel(&self, thread: &ThreadKey, turn: &str) -> bool {
        let running = self.running();
        let token = running.get(&(thread.clone(), turn.to_owned()));
        token.inspect(|it| it.cancel()).is_some()
    }

    /// Accepts no more turns, gives running ones some time, and then interrupts them.
    pub(crate) async fn stop(&self, grace: Duration) {
        self.0.tasks.close();
        if tokio::time::timeout(grace, self.0.tasks.wait()).await.is_err() {
            self.0.stop.cancel();
            // An interrupted turn has only to be written down.
            let _ = tokio::time::timeout(Duration::from_secs(10), self.0.tasks.wait()).await;
        }
    }
}

/// Sees one turn through.
struct TurnDriver {
    running_turns: RunningTurns,
    key: ThreadKey,
    session: Option<SessionKey>,
    asked: Option<StoredTurnRequest>,
    tap: Option<mpsc::UnboundedSender<Event>>,
    tokens: ApprovalTokens,
    cancel: CancellationToken,
    started_sender: Option<oneshot::Sender<TurnKey>>,
    turn_key: Option<TurnKey>,
    /// Events from before the turn began.
    buffered: Vec<Event>,
    /// Whether its end event was emitted.
    has_ended: bool,
    /// The usage of its model calls so far.
    usage: Usage,
    /// Whether it took too long.
    timed_out: Arc<AtomicBool>,
}

impl TurnDriver {
    async fn drive(mut self, mut run: Run) -> Result<Outcome, AgentError> {
        let started = tokio::time::Instant::now();
        let timeout = tokio::time::sleep(self.running_turns.0.timeout);
        let mut timeout = std::pin::pin!(timeout);
        let mut waits = true;
        loop {
            tokio::select! {
                event = run.next() => match event {
                    Some(event) => self.on_event(event),
                    None => break,
                },
                () = &mut timeout, if waits => {
                    waits = false;
                    self.timed_out.store(true, Ordering::Relaxed);
                    self.cancel.cancel();
                }
            }
        }
        let result = run.outcome().await;
        let status = match &result {
            Ok(outcome) => outcome.status.as_str(),
            // A turn that never began was refused.
            Err(_) if self.turn_key.is_none() => "refused",
            Err(AgentError::Cancelled) => "interrupted",
            Err(_) => "failed",
        };
        self.running_turns.0.metrics.turn(status, started.elapsed());
        self.end(result.as_ref().err());
        self.running_turns.0.event_writer.flush_with_timeout().await;
        // Only now: the sweep for lost turns skips turns that are registered here.
        self.unregister();
        result
    }

    fn on_event(&mut self, event: Event) {
        self.running_turns.0.metrics.observe_event(&event);
        self.tokens.add(&event);
        self.note(&event);
        if let Event::TurnStart { thread, turn } = &event
            && self.turn_key.is_none()
        {
            self.begin(thread, turn);
        }
        if let Some(tap) = &self.tap {
            let _ = tap.send(event.clone());
        }
        match (&self.turn_key, &self.session) {
            (Some(_), Some(_)) => self.emit(event),
            // A turn that never began was refused: only its caller learns why.
            (None, Some(_)) => self.buffered.push(event),
            (_, None) => {}
        }
    }

    fn begin(&mut self, thread: &str, turn: &str) {
        let thread = ThreadId::parse(thread).unwrap_or_else(|_| self.key.thread.clone());
        self.key.thread = thread.clone();
        let turn_key = TurnKey { thread, turn: turn.to_owned() };
        self.running_turns.running().insert((self.key.clone(), turn_key.turn.clone()), self.cancel.clone());
        self.turn_key = Some(turn_key.clone());
        if let Some(session) = &self.session {
            let at = self.running_turns.0.time.now();
            let put = |kind: &str, data: String| Document { key: key_of(session, kind, &turn_key), at, data };
            let asked = self.asked.as_ref().and_then(|it| serde_json::to_string(it).ok());
            let running = put(RUNNING, String::new());
            let puts = [running].into_iter().chain(asked.map(|it| put(TURN, it))).collect();
            self.running_turns.0.event_writer.write(Writes { puts, ..Writes::default() });
        }
        for event in std::mem::take(&mut self.buffered) {
            self.emit(event);
        }
        if let Some(sender) = self.started_sender.take() {
            let _ = sender.send(turn_key);
        }
    }

    fn emit(&self, event: Event) {
        let (Some(session), Some(turn_key)) = (&self.session, &self.turn_key) else { return };
        self.running_turns.0.event_writer.emit(TurnEvent {
            session: session.clone(),
            turn_key: turn_key.clone(),
            event,
        });
    }

    /// Notes what is needed for the end of a turn that breaks off.
    fn note(&mut self, event: &Event) {
        match event {
            Event::TurnEnd { .. } => self.has_ended = true,
            Event::ContextUsage { input_tokens, output_tokens, cache_read_tokens, .. } => {
                self.usage += Usage {
                    input_tokens: *input_tokens,
                    output_tokens: *output_tokens,
                    cache_read_tokens: *cache_read_tokens,
                    ..Usage::default()
                };
            }
            _ => {}
        }
    }

    /// Emits the end of a turn that broke off, so that every started turn has one. If the end is not on record, the
    /// instance that closes the turn publishes it, and no other.
    fn end(&self, err: Option<&AgentError>) {
        let is_unrecorded = matches!(err, Some(AgentError::Unrecorded(_)));
        if let Some(err) = err.filter(|_| !self.has_ended && !is_unrecorded) {
            let status = if err.is_cancelled() { TurnStatus::Interrupted } else { TurnStatus::Failed };
            let (reason, usage) = (Some(err.to_string()), self.usage);
            self.emit(Event::TurnEnd { status, reason, usage, client_calls: Vec::new() });
        }
    }

    fn unregister(&self) {
        if let Some(turn_key) = &self.turn_key {
            self.running_turns.running().remove(&(self.key.clone(), turn_key.turn.clone()));
        }
    }
}
