//! One round of tool calls: run concurrently, answered in the order of the calls.
//!
//! Every call gets exactly one output, whatever happens: its value, an error that the model can read (unknown tool,
//! invalid arguments, failure, panic, timeout), a denial, or `interrupted` if the run is cancelled. Calls run
//! concurrently, except for tools that must run alone.

use std::panic::{AssertUnwindSafe, catch_unwind};

use contexture_compose::{BoxFuture, Pass, Runner, SharedTool};
use contexture_history::interrupted;
use contexture_message::{ToolCall, ToolOutput};
use futures::{FutureExt, StreamExt, stream};
use serde_json::Value;
use tracing::Instrument;

use super::answered::{Answered, output_too_deep};
use super::depth::is_output_too_deep;
use super::invoke::{CallFailure, Site, span, timed_out};
use super::middleware::{Denied, Layer, LayerKind};
use super::tool::Tool;
use super::toolbox::Toolbox;
use crate::event::Sink;
use crate::skills::Narrowing;

/// What the calls of one round share.
pub(crate) struct Round<'a> {
    pub(crate) site: Site<'a>,
    pub(crate) toolbox: &'a Toolbox,
    /// The pass that was sent. Only tools that it offers can be called.
    pub(crate) pass: &'a Pass,
    /// What the active skills allow without approval.
    pub(crate) narrowing: &'a Narrowing,
    pub(crate) sink: &'a Sink,
}

impl<'a> Round<'a> {
    /// Whether a person must approve the call before it runs. Calls that would fail anyway need no approval.
    pub(crate) fn requires_approval(&self, call: &ToolCall) -> bool {
        let Ok(tool) = self.runnable(call) else { return false };
        let wrapped = |it: &&Layer| it.is_for(&call.name) && matches!(it.middleware, LayerKind::Approval);
        tool.requires_approval(&call.arguments)
            || self.site.layers.iter().any(|it| wrapped(&it))
            || self.narrowing.requires_approval(&call.name, tool.only_reads)
    }

    /// Runs calls, as many concurrently as the agent allows.
    pub(crate) async fn run(&self, calls: &[ToolCall]) -> Vec<Answered> {
        let mut answered = Vec::with_capacity(calls.len());
        let is_alone = |call: &ToolCall| self.tool(&call.name).is_some_and(|it| it.alone);
        // Each chunk is either a series of concurrent calls or a single call that must run alone.
        for chunk in calls.chunk_by(|a, b| !is_alone(a) && !is_alone(b)) {
            // Boxed and collected, because an iterator of borrowing futures would make the run's future not `Send`.
            let running: Vec<BoxFuture<'_, Answered>> = chunk.iter().map(|it| self.one(it).boxed()).collect();
            let together = self.site.limits.concurrent.max(1);
            answered.extend(stream::iter(running).buffered(together).collect::<Vec<_>>().await);
        }
        answered
    }

    /// Answers a call without running it.
    pub(crate) fn closed(&self, call: &ToolCall, output: ToolOutput) -> Answered {
        let answered = Answered { call: call.clone(), output, whole: None, raw: None };
        self.sink.send(answered.event());
        answered
    }

    async fn one(&self, call: &ToolCall) -> Answered {
        let span = span(call);
        let (output, raw) = self.output(call).instrument(span.clone()).await;
        if matches!(output, ToolOutput::ErrorText(_) | ToolOutput::ErrorJson(_)) {
            span.record("error.type", "tool_error");
        }
        let mut answered = Answered::bounded(call, output, self.site.limits.max_result_bytes);
        answered.raw = raw.filter(|it| !is_same(&answered.output, it));
        self.sink.send(answered.event());
        answered
    }

    /// Returns the output for the model, and the raw value if the call succeeded.
    async fn output(&self, call: &ToolCall) -> (ToolOutput, Option<Value>) {
        let tool = match self.runnable(call) {
            Ok(tool) => tool,
            Err(reason) => return (ToolOutput::failure(reason), None),
        };
        let failed = |reason: String| (ToolOutput::failure(reason), None);
        match self.site.value(tool, call).await {
            Err(CallFailure::Cancelled) => (ToolOutput::ErrorText(interrupted().to_owned()), None),
            Err(CallFailure::Panicked) => failed(format!("tool `{}` panicked", call.name)),
            Err(CallFailure::TooDeep) => failed(output_too_deep(&call.name)),
            Err(CallFailure::TimedOut(timeout)) => failed(timed_out(&call.name, timeout)),
            Err(CallFailure::Failed(err)) => match err.downcast::<Denied>() {
                Ok(denied) => (ToolOutput::ExecutionDenied { reason: denied.reason }, None),
                Err(err) => failed(err.to_string()),
            },
            Ok(value) => match catch_unwind(AssertUnwindSafe(|| tool.model_output(&value))) {
                Err(_) => failed(format!("the output of tool `{}` can't be mapped", call.name)),
                Ok(output) if is_output_too_deep(&output) => failed(output_too_deep(&call.name)),
                Ok(output) => (output, Some(value)),
            },
        }
    }

    /// Returns the tool for a call, or the error for the model.
    fn runnable(&self, call: &ToolCall) -> Result<&'a Tool, String> {
        let request = self.pass.request();
        if !request.tools.iter().any(|it| it.name == call.name) {
            let names: Vec<&str> = request.tools.iter().map(|it| it.name.as_str()).collect();
            return Err(format!("there is no tool `{}`; there are: {}", call.name, names.join(", ")));
        }
        let tool = self.tool(&call.name).ok_or_else(|| format!("tool `{}` can't be run here", call.name))?;
        match tool.argument_faults(&call.arguments) {
            Some(faults) => Err(faults),
            None => Ok(tool),
        }
    }
}

impl<'a> Round<'a> {
    /// Returns the tool with that name: the one that the pass carries, or else the agent's.
    fn tool(&self, name: &str) -> Option<&'a Tool> {
        let carried = self.pass.tool(name).and_then(SharedTool::runner).and_then(Runner::get);
        carried.or_else(|| self.toolbox.get(name))
    }
}

/// Whether the output shows the model the raw value unchanged.
fn is_same(output: &ToolOutput, value: &Value) -> bool {
    match output {
        ToolOutput::Json(shown) => shown == value,
        ToolOutput::Text(shown) => value.as_str() == Some(shown),
        ToolOutput::ErrorText(_)
        | ToolOutput::ErrorJson(_)
        | ToolOutput::ExecutionDenied { .. }
        | ToolOutput::Content(_) => false,
    }
}
