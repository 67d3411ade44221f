//! Turns that an earlier run began with the same key: a finished one is replayed, an unfinished one may be resumed.
//!
//! The rules for a turn that failed, was interrupted or lost its writer:
//!
//! 1. The log is kept: the user's message and its envelopes are not appended again, and a call with a result never
//!    runs again.
//! 2. Unanswered calls of the last answer are closed or repeated, as [`ResumePolicy`] says. Calls that wait for a
//!    person or for the client keep waiting.
//! 3. An incomplete answer is generated again from the start. The partial text stays in the log, but is not sent while
//!    it is the last message: a model would take it for the beginning of its answer.
//! 4. Earlier steps count toward the limits; tokens and cost start from zero.
//!
//! Complete and suspended turns are never resumed here.

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

/// What to do with unanswered tool calls when a turn is resumed. It is unknown whether they ran.
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
    /// Answers them with an `interrupted` error and lets the model decide what to do. No call runs twice.
    CloseCalls,
    /// Runs them again, for tools that may run twice. Calls that need approval still need it, unless it was given.
    RepeatCalls,
}

/// How to resume a turn.
#[derive(Clone, Copy)]
pub(crate) struct Resumption {
    pub(crate) how: ResumePolicy,
    /// Whether the request has a user message. If not, the log has the prompt's own messages in its place.
    pub(crate) has_user: bool,
}

/// Returns whether the key has already begun a turn on the thread.
pub(crate) async fn is_known(
    thread: &Thread,
    key: Option<&str>,
    cancel: &CancellationToken,
) -> Result<bool, AgentError> {
    let Some(key) = key else { return Ok(false) };
    let looked_up = cancel.run_until_cancelled(thread.outcome(key)).await;
    Ok(looked_up.ok_or(AgentError::Cancelled)??.is_some())
}

/// Resumes a turn and runs it to its end.
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

/// Returns the outcome of a run whose turn had already finished under the same key.
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

/// Parses the value of a replayed answer. A value that no longer matches belongs to an older schema.
fn value_of(prompt: &Prompt, answer: &Message) -> Option<Value> {
    let schema = prompt.definition().output.as_ref().filter(|_| calls_of(answer).next().is_none())?;
    let validator = SchemaValidator::new(schema.value()).ok()?;
    let value = output::json(&text_of(answer)).ok()?;
    validator.is_valid(&value).then_some(value)
}
