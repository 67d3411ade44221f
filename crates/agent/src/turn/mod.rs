//! One turn, from its start to its end.
//!
//! A turn is a state machine over its log. [`state`] says where it stands, [`next`] decides what comes next, and
//! [`executor`] does it, appends to the log and advances the state. Beginning a turn, replying to a suspended one and
//! recovering one that was lost differ only in the state they start from.
//!
//! ```text
//! begin ──┐                        ┌── call the model ──┐
//! resume ─┼─▶ state ─▶ next ─▶ executor ── run tools ───┼─▶ state …
//! recover ┘                        └── judge, wait, end ┘
//! ```

mod attempt;
mod begin;
mod executor;
mod items;
mod next;
mod opening;
mod pending;
mod preview;
mod recover;
mod resume;
mod state;
#[cfg(test)]
mod tests;
mod waiting;

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use contexture_compose::Prompt;
use contexture_history::{Item, Seq};
use contexture_session::{Thread, ThreadId};
use futures::FutureExt;
use tokio_util::sync::CancellationToken;
use tracing::Instrument;

pub(crate) use self::attempt::Attempt;
pub use self::attempt::answer_in;
use self::executor::Executor;
pub use self::pending::{Pending, PendingApproval};
pub(crate) use self::resume::Reply;
pub use self::waiting::{Decision, Verdict, waiting_calls};
pub(crate) use self::waiting::{Proof, Ruling, requested_approval};
use crate::AgentError;
use crate::agent::Inner;
use crate::event::{Event, Sink};
use crate::outcome::Outcome;
use crate::spec::RunRequest;

/// What starts a run.
pub(crate) enum Entry {
    /// A request for a turn.
    Request(Box<RunRequest>),
    /// A reply to a suspended turn.
    Reply(Box<Reply>, CancellationToken),
}

/// What a run starts with.
enum Entered {
    /// A turn to run.
    Running(Box<Executor>),
    /// The outcome of an earlier run with the same key.
    Replayed(Box<Outcome>),
}

/// Runs a turn to its end, and reports its failure to the tracing span, the prompt's hooks and the events.
pub(crate) async fn run(
    agent: Arc<Inner>,
    prompt: Prompt,
    thread: Thread,
    entry: Entry,
    sink: Sink,
) -> Result<Outcome, AgentError> {
    let span = run_span(&prompt, thread.id());
    let work = async {
        let (prompt, sink) = (prompt.clone(), sink.clone());
        let entered = match entry {
            Entry::Request(request) => begin::begin(agent, prompt, thread, *request, sink).await?,
            Entry::Reply(reply, cancel) => {
                resume::resume(agent, prompt, thread, *reply, cancel, sink).await?
            }
        };
        match entered {
            Entered::Running(executor) => executor.run().await,
            Entered::Replayed(outcome) => Ok(*outcome),
        }
    };
    let result = catch_panic(work).instrument(span.clone()).await;
    if let Err(err) = &result {
        span.record("error.type", err.code().as_str());
        // The hooks of the prompt have already seen its composition errors.
        if !matches!(err, AgentError::Compose(_)) {
            prompt.hooks().failed(err);
        }
        sink.send(Event::Error { code: err.code().into(), message: err.to_string() });
    }
    result
}

fn run_span(prompt: &Prompt, thread: &ThreadId) -> tracing::Span {
    tracing::info_span!(
        "invoke_agent",
        otel.name = format!("invoke_agent {}", prompt.id()),
        gen_ai.operation.name = "invoke_agent",
        gen_ai.agent.name = prompt.id(),
        gen_ai.conversation.id = %thread,
        error.type = tracing::field::Empty,
    )
}

/// Returns the items of a thread from a position on.
pub(crate) async fn items_since(thread: &Thread, began: Seq) -> Result<Vec<Item>, AgentError> {
    const PAGE: usize = 256;
    let mut seq = Seq(began.0.saturating_sub(1));
    let mut items = Vec::new();
    loop {
        let page = thread.after(seq, PAGE).await?;
        let is_last = page.len() < PAGE;
        seq = page.last().map_or(seq, |it| it.seq);
        items.extend(page);
        if is_last {
            return Ok(items);
        }
    }
}

/// Awaits work and turns a panic in it into an error.
pub(crate) async fn catch_panic<T, E: From<AgentError>>(
    work: impl Future<Output = Result<T, E>>,
) -> Result<T, E> {
    let result = AssertUnwindSafe(work).catch_unwind().await;
    result.unwrap_or_else(|_| Err(AgentError::Panicked.into()))
}
