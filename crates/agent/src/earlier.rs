//! Turns that the same key began before: one that came to its end is replayed, one that did not may go on.
//!
//! How a turn goes on whose writer was lost, that failed or that was interrupted, in full:
//!
//! 1. What the log has of it stands: the user's message and its envelopes are not appended again, and a call that has its
//!    result is never run again.
//! 2. Calls of its last answer without a result are closed or repeated, as [`ResumePolicy`] says. Those that wait for a person or
//!    for the client wait on.
//! 3. An answer that broke off is made anew, whole. What was said of it stays in the log, and is not sent while it is the
//!    last thing that was said: a model would take it for the beginning of its answer.
//! 4. Steps that were made before count toward the limits; tokens and cost are counted anew.
//!
//! A turn that is complete or waits is never gone on with here.

use std::sync::Arc;

use contexture_compose::{Prompt, SchemaValidator};
use contexture_history::{Body, TurnStatus};
use contexture_message::{Message, Role, Usage};
use contexture_session::{RunningTurn, Thread, ThreadId, TurnOutcome};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::approval::Waiting;
use crate::catch_panic::catch_panic;
use crate::outcome::{Ended, Outcome};
use crate::run::Sink;
use crate::running::Running;
use crate::setting::Setting;
use crate::words::{calls_of, text_of};
use crate::{AgentError, output};

/// What becomes of tool calls without a result when a turn goes on. Whether they ran, nobody knows.
///
/// ```
/// # use std::sync::Arc;
/// # use std::time::Duration;
/// # use contexture_agent::{Agent, ResumePolicy, RunRequest, Secrets};
/// # use contexture_compose::{BoxFuture, Prompt};
/// # use contexture_history::Timestamp;
/// # use contexture_message::{Answer, Encoding};
/// # use contexture_model::{ModelError, ModelErrorKind, Scripted, Step};
/// # use contexture_session::{MemoryStore, Names, Ports, SessionConfig, SessionStart, Sessions, Time};
/// # #[derive(Debug)]
/// # struct Fixed;
/// # impl Time for Fixed {
/// #     fn now(&self) -> Timestamp { Timestamp(0) }
/// #     fn sleep(&self, _: Duration) -> BoxFuture<'static, ()> { Box::pin(std::future::pending()) }
/// # }
/// # impl Names for Fixed { fn next(&self) -> String { "n".to_owned() } }
/// # impl Secrets for Fixed { fn next(&self) -> String { "secret".to_owned() } }
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
/// # let ports = Ports { time: Arc::new(Fixed), names: Arc::new(Fixed), counter: Arc::new(Encoding::O200kBase) };
/// # let sessions = Sessions::new(Arc::new(MemoryStore::new(Arc::new(Fixed))), ports, SessionConfig::default());
/// # let session = sessions.create(SessionStart::default()).await?;
/// # let thread = session.main();
/// # let cut = ModelError::new(ModelErrorKind::Disconnected, "cut");
/// # let model = Scripted::new([Step::Fail(cut), Step::Answer(Answer::text("It is noon."))]);
/// # let agent = Agent::builder(model, Arc::new(Fixed), Fixed).build()?;
/// # let prompt = Prompt::builder("p").model("test/model").build()?;
/// let request = RunRequest {
///     key: Some("step-7".to_owned()),
///     resume: Some(ResumePolicy::CloseCalls),
///     ..RunRequest::user("What time is it?")
/// };
/// let first = agent.run(&prompt, thread, request.clone()).outcome().await;
/// assert_eq!(first.unwrap_err().code(), "model_unreachable");
///
/// let second = agent.run(&prompt, thread, request).outcome().await?;
/// assert_eq!((second.turn.0, second.text().as_str()), (1, "It is noon."));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResumePolicy {
    /// They are answered with an `interrupted` error, and the model decides what to do about it. Nothing runs twice.
    CloseCalls,
    /// They are run, for tools that may run twice. Those that need approval still do, unless it was given.
    RepeatCalls,
}

/// How a turn is taken up again.
#[derive(Clone, Copy)]
pub(crate) struct Resumption {
    pub(crate) how: ResumePolicy,
    /// Whether the request has words of the user. If not, the prompt's own are in the log in their place.
    pub(crate) has_user: bool,
}

/// Whether a key has begun a turn on a thread.
pub(crate) async fn is_known(
    thread: &Thread,
    key: Option<&str>,
    cancel: &CancellationToken,
) -> Result<bool, AgentError> {
    let Some(key) = key else { return Ok(false) };
    let looked_up = cancel.run_until_cancelled(thread.outcome(key)).await;
    Ok(looked_up.ok_or(AgentError::Cancelled)??.is_some())
}

/// Runs a turn to its end that had begun before.
pub(crate) async fn take_up(
    setting: Setting,
    turn: RunningTurn,
    taken_up: Resumption,
    sink: Sink,
    cancel: CancellationToken,
) -> Result<Outcome, AgentError> {
    let mut running = Running::new(setting, turn, sink, cancel);
    running.started();
    let result = catch_panic(running.take_up(taken_up)).await;
    running.settle(result).await
}

/// What a run gives when the same key had its turn before.
pub(crate) fn replayed(thread: &ThreadId, prompt: &Prompt, outcome: TurnOutcome) -> Outcome {
    let message = outcome.items.iter().rev().find_map(|it| match &it.body {
        Body::Message(message) if message.role == Role::Assistant => Some(Arc::clone(message)),
        _ => None,
    });
    let is_complete = outcome.status == TurnStatus::Completed;
    let output = message.as_deref().filter(|_| is_complete).and_then(|it| value_of(prompt, it));
    Outcome {
        thread: thread.clone(),
        turn: outcome.turn,
        status: outcome.status,
        ended: Ended::Replayed,
        message,
        output,
        steps: 0,
        usage: Usage::default(),
        cost: None,
        remarks: Vec::new(),
        approvals: Vec::new(),
        client_calls: Waiting::read(&outcome.items).client,
        passes: Vec::new(),
        compactions: Vec::new(),
    }
}

/// Reads the value of an answer again. One that fits no more was made for another schema.
fn value_of(prompt: &Prompt, answer: &Message) -> Option<Value> {
    let schema = prompt.definition().output.as_ref().filter(|_| calls_of(answer).next().is_none())?;
    let validator = SchemaValidator::new(schema.value()).ok()?;
    let value = output::json(&text_of(answer)).ok()?;
    validator.is_valid(&value).then_some(value)
}
