//! Running turns: each has its own task, so it continues when its client disconnects.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use contexture_agent::{AgentError, Event, Outcome, Run};
use contexture_history::TurnNo;
use contexture_message::ErrorCode;
use contexture_session::{Thread, ThreadId, ThreadKey};
use futures::StreamExt;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;
use tracing::Instrument;

use crate::Problem;
use crate::lock::lock;
use crate::ops::metrics::{Metrics, TURN_TIME, TURNS};
use crate::tasks::Tasks;

/// How often a turn looks whether another instance has asked for its end.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// Names a turn, once it has begun.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TurnKey {
    pub(crate) thread: ThreadId,
    pub(crate) turn: TurnNo,
}

/// A turn that was given to the server.
pub(crate) struct TurnHandle {
    /// Resolves when the turn has begun; closed if the turn is refused before.
    pub(crate) turn_key: oneshot::Receiver<TurnKey>,
    /// The outcome of the turn. By then its end is in the log, unless the store refuses writes.
    pub(crate) outcome: oneshot::Receiver<Result<Outcome, AgentError>>,
    /// Stops the turn.
    pub(crate) cancel: CancellationToken,
    /// Whether it took too long.
    timed_out: Arc<AtomicBool>,
    running_turns: RunningTurns,
}

impl TurnHandle {
    /// Waits for the outcome of the turn.
    pub(crate) async fn outcome(&mut self) -> Result<Outcome, Problem> {
        let dropped = |_| Problem::new(ErrorCode::Cancelled, "the turn was dropped");
        let outcome = (&mut self.outcome).await.map_err(dropped)?;
        outcome.map_err(|err| self.problem(err))
    }

    /// Returns the problem that an error of the turn is: a timeout and a shutdown are told apart from a requested stop.
    fn problem(&self, err: AgentError) -> Problem {
        let RunningTurns { tasks, inner } = &self.running_turns;
        let timeout = inner.timeout;
        match err {
            AgentError::Cancelled if self.timed_out.load(Ordering::Relaxed) => {
                Problem::new(ErrorCode::TurnTimeout, format!("the turn took longer than {timeout:?}"))
                    .hint("`server.turn_timeout_seconds` of contexture.toml is the limit")
            }
            AgentError::Cancelled if tasks.stop.is_cancelled() => {
                Problem::new(ErrorCode::ShuttingDown, "the server is stopping; the turn was interrupted")
                    .retry_after(1)
            }
            err => err.into(),
        }
    }
}

/// All turns that run here.
#[derive(Clone, Debug)]
pub(crate) struct RunningTurns {
    pub(crate) tasks: Tasks,
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    running: Mutex<BTreeMap<(ThreadKey, TurnNo), CancellationToken>>,
    timeout: Duration,
    metrics: Metrics,
}

impl RunningTurns {
    pub(crate) fn new(timeout: Duration, metrics: Metrics) -> Self {
        let inner = Inner { running: Mutex::default(), timeout, metrics };
        Self { tasks: Tasks::default(), inner: Arc::new(inner) }
    }

    /// Starts a turn of a thread in a new task. `begin` is given what stops it.
    pub(crate) fn start(
        &self,
        thread: &Thread,
        begin: impl FnOnce(CancellationToken) -> Run,
    ) -> Result<TurnHandle, Problem> {
        if self.tasks.is_closed() {
            return Err(Problem::shutting_down());
        }
        let cancel = self.tasks.stop.child_token();
        let (started_sender, turn_key) = oneshot::channel();
        let (outcome_sender, outcome) = oneshot::channel();
        let timed_out = Arc::<AtomicBool>::default();
        let driver = TurnDriver {
            running_turns: self.clone(),
            thread: thread.clone(),
            cancel: cancel.clone(),
            started_sender: Some(started_sender),
            turn_key: None,
            timed_out: Arc::clone(&timed_out),
        };
        let run = begin(cancel.clone());
        let work = async move {
            let result = driver.drive(run).await;
            // The receiver may be gone.
            let _ = outcome_sender.send(result);
        };
        // The turn belongs to the trace of its request.
        self.tasks.running.spawn(work.in_current_span());
        Ok(TurnHandle { turn_key, outcome, cancel, timed_out, running_turns: self.clone() })
    }

    /// Stops a turn that runs here. Returns whether there was one.
    pub(crate) fn cancel(&self, thread: &ThreadKey, turn: TurnNo) -> bool {
        let running = lock(&self.inner.running);
        let token = running.get(&(thread.clone(), turn));
        token.inspect(|it| it.cancel()).is_some()
    }
}

/// Sees one turn through.
struct TurnDriver {
    running_turns: RunningTurns,
    thread: Thread,
    cancel: CancellationToken,
    started_sender: Option<oneshot::Sender<TurnKey>>,
    turn_key: Option<(ThreadKey, TurnNo)>,
    /// Whether it took too long.
    timed_out: Arc<AtomicBool>,
}

impl TurnDriver {
    async fn drive(mut self, mut run: Run) -> Result<Outcome, AgentError> {
        let started = tokio::time::Instant::now();
        let timeout = tokio::time::sleep(self.running_turns.inner.timeout);
        let mut timeout = std::pin::pin!(timeout);
        let mut look = tokio::time::interval_at(started + LOOK_EVERY, LOOK_EVERY);
        let mut waits = true;
        loop {
            tokio::select! {
                biased;
                event = run.next() => match event {
                    Some(event) => self.on_event(&event),
                    None => break,
                },
                () = &mut timeout, if waits => {
                    waits = false;
                    self.timed_out.store(true, Ordering::Relaxed);
                    self.cancel.cancel();
                }
                _ = look.tick(), if waits => {
                    if self.is_stop_requested().await {
                        waits = false;
                        self.cancel.cancel();
                    }
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
        let metrics = &self.running_turns.inner.metrics;
        metrics.count(TURNS, &[status]);
        metrics.time(TURN_TIME, &[status], started.elapsed());
        if let Some(turn_key) = &self.turn_key {
            lock(&self.running_turns.inner.running).remove(turn_key);
        }
        result
    }

    fn on_event(&mut self, event: &Event) {
        self.running_turns.inner.metrics.observe_event(event);
        if let Event::TurnStart { thread, turn } = event {
            self.begin(thread, turn);
        }
    }

    fn begin(&mut self, thread: &str, turn: &str) {
        let key = self.thread.key().clone();
        let thread = ThreadId::parse(thread).unwrap_or_else(|_| key.thread.clone());
        let Some(turn) = TurnNo::parse(turn) else { return };
        let place = (ThreadKey { thread: thread.clone(), ..key }, turn);
        lock(&self.running_turns.inner.running).insert(place.clone(), self.cancel.clone());
        self.turn_key = Some(place);
        if let Some(sender) = self.started_sender.take() {
            let _ = sender.send(TurnKey { thread, turn });
        }
    }

    /// Whether another instance has asked for the end of the turn.
    async fn is_stop_requested(&self) -> bool {
        let Some((key, turn)) = &self.turn_key else { return false };
        self.thread.is_stop_requested(&key.thread, *turn).await.unwrap_or(false)
    }
}
