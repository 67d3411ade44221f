//! One tool call through its middleware, with its timeout.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use contexture_compose::BoxError;
use contexture_history::TurnNo;
use contexture_message::{Tokens, ToolCall};
use contexture_session::{Thread, Time};
use futures::FutureExt;
use futures::future::{Either, select};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::depth::{is_too_deep, take_apart};
use super::middleware::{Layer, LayerKind, Middleware, Next};
use super::notes::RoundNotes;
use super::tool::{Invocation, Tool};
use crate::skills::SkillShare;

/// The limits of tool calls.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CallLimits {
    /// How long a call may take, unless the tool or its middleware sets a timeout.
    pub(crate) timeout: Duration,
    /// How many calls of a round run concurrently.
    pub(crate) concurrent: usize,
    /// Larger results are shown to the model as a preview.
    pub(crate) max_result_bytes: usize,
}

/// The context of tool calls: their limits, the middleware and the thread.
#[derive(Clone, Copy)]
pub(crate) struct Site<'a> {
    pub(crate) limits: CallLimits,
    pub(crate) time: &'a dyn Time,
    pub(crate) layers: &'a [Layer],
    pub(crate) thread: &'a Thread,
    pub(crate) turn: TurnNo,
    /// The largest result that is shown in full, in tokens.
    pub(crate) result_tokens: Tokens,
    /// What the calls of the round remember of the thread.
    pub(crate) notes: &'a RoundNotes,
    /// What skills may take of the window.
    pub(crate) skills: &'a SkillShare,
    pub(crate) cancel: &'a CancellationToken,
}

/// Why a call returned no value.
pub(crate) enum CallFailure {
    /// The run was cancelled.
    Cancelled,
    /// The tool or its middleware panicked.
    Panicked,
    /// The value is nested too deep.
    TooDeep,
    /// The call took longer than this timeout.
    TimedOut(Duration),
    /// The tool failed, or middleware denied the call.
    Failed(BoxError),
}

impl Site<'_> {
    /// Runs a call whose arguments are already validated.
    pub(crate) async fn value(&self, tool: &Tool, call: &ToolCall) -> Result<Value, CallFailure> {
        let cancelled = std::pin::pin!(self.cancel.cancelled());
        let work = AssertUnwindSafe(self.timed(tool, call)).catch_unwind();
        let result = match select(cancelled, std::pin::pin!(work)).await {
            Either::Left(_) => return Err(CallFailure::Cancelled),
            Either::Right((result, _)) => result.unwrap_or(Err(CallFailure::Panicked)),
        };
        match result {
            Ok(value) if is_too_deep(&value) => {
                take_apart(value);
                Err(CallFailure::TooDeep)
            }
            result => result,
        }
    }

    async fn timed(&self, tool: &Tool, call: &ToolCall) -> Result<Value, CallFailure> {
        let layers: Vec<&Layer> = self.layers.iter().filter(|it| it.is_for(&call.name)).collect();
        let custom: Vec<Arc<dyn Middleware>> = layers
            .iter()
            .filter_map(|it| match &it.middleware {
                LayerKind::Custom(middleware) => Some(Arc::clone(middleware)),
                LayerKind::Approval | LayerKind::Timeout(_) => None,
            })
            .collect();
        let named = layers.iter().filter_map(|it| match it.middleware {
            LayerKind::Timeout(timeout) => Some(timeout),
            LayerKind::Custom(_) | LayerKind::Approval => None,
        });
        let timeout = named.chain(tool.timeout).min().unwrap_or(self.limits.timeout);
        let invocation = Invocation {
            call: call.clone(),
            thread: self.thread.id().clone(),
            log: self.thread.clone(),
            turn: self.turn,
            result_tokens: self.result_tokens,
            notes: self.notes.clone(),
            skills: self.skills.clone(),
            cancel: self.cancel.child_token(),
        };
        // A tool may have spawned other work; the token tells it when the call is over.
        let _stop = invocation.cancel.clone().drop_guard();
        match select(Next::new(&custom, tool).run(invocation), self.time.sleep(timeout)).await {
            Either::Left((result, _)) => result.map_err(CallFailure::Failed),
            Either::Right(_) => Err(CallFailure::TimedOut(timeout)),
        }
    }
}

/// Returns the tracing span of a call.
pub(crate) fn span(call: &ToolCall) -> tracing::Span {
    tracing::info_span!(
        "execute_tool",
        otel.name = format!("execute_tool {}", call.name),
        gen_ai.operation.name = "execute_tool",
        gen_ai.tool.name = call.name,
        gen_ai.tool.call.id = call.id,
        gen_ai.tool.type = "function",
        error.type = tracing::field::Empty,
    )
}

pub(crate) fn timed_out(tool: &str, timeout: Duration) -> String {
    format!("tool `{tool}` gave no result within {timeout:?}")
}
