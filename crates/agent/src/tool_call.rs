//! Tool calls outside of a turn.
//!
//! The caller chooses the tool, for example in a step of a flow. A tool is protected as in a turn: arguments are
//! validated, the agent's own middleware wraps the call, its time is limited, and a call that needs approval runs only
//! if the caller states that it was approved. Nothing is written to the thread.

use std::collections::BTreeSet;
use std::time::Duration;

use contexture_message::{ErrorCode, ToolCall};
use contexture_session::Thread;
use serde_json::Value;
use tokio_util::sync::CancellationToken;
use tracing::Instrument;

use crate::Agent;
use crate::skills::SkillShare;
use crate::tools::{
    CallFailure, Denied, RoundNotes, Site, Tool, is_too_deep, span, take_apart, timed_out, too_deep,
};

/// A call to one of the agent's tools outside of a turn.
#[derive(Clone, Debug, Default)]
pub struct ToolRequest {
    /// The name of the tool.
    pub tool: String,
    /// The arguments of the call.
    pub arguments: Value,
    /// The id by which the tool knows the call. A repeated call should have the same id.
    pub call_id: String,
    /// Whether an authorized person has approved this exact call.
    pub approved: bool,
    /// Stops the call when cancelled.
    pub cancel: CancellationToken,
}

impl ToolRequest {
    /// Returns a call that is not approved.
    pub fn new(tool: impl Into<String>, arguments: Value) -> Self {
        Self { tool: tool.into(), arguments, ..Self::default() }
    }
}

/// Why a call outside of a turn returned no value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ToolCallError {
    /// The agent has no such tool.
    #[error("the agent has no tool `{tool}`")]
    Unknown {
        /// The name of the tool.
        tool: String,
    },
    /// The arguments do not match the tool's schema. The tool did not run.
    #[error("tool `{tool}`: {faults}")]
    Invalid {
        /// The name of the tool.
        tool: String,
        /// What is wrong with the arguments.
        faults: String,
    },
    /// The call needs approval first. The tool did not run.
    #[error("a call of tool `{tool}` with these arguments needs approval")]
    NeedsApproval {
        /// The name of the tool.
        tool: String,
    },
    /// Middleware denied the call.
    #[error("a call of tool `{tool}` was denied{}", because(.reason.as_deref()))]
    Denied {
        /// The name of the tool.
        tool: String,
        /// The reason, if one was given.
        reason: Option<String>,
    },
    /// The tool failed or panicked, or its value is nested too deep.
    #[error("tool `{tool}`: {reason}")]
    Failed {
        /// The name of the tool.
        tool: String,
        /// The error message.
        reason: String,
    },
    /// The call took too long.
    #[error("{}", timed_out(.tool, *.timeout))]
    TimedOut {
        /// The name of the tool.
        tool: String,
        /// The timeout of the call.
        timeout: Duration,
    },
    /// The call was cancelled.
    #[error("a call of tool `{tool}` was cancelled")]
    Cancelled {
        /// The name of the tool.
        tool: String,
    },
}

fn because(reason: Option<&str>) -> String {
    reason.map(|it| format!(": {it}")).unwrap_or_default()
}

impl ToolCallError {
    /// Returns the stable code of the error.
    pub fn code(&self) -> ErrorCode {
        match self {
            ToolCallError::Unknown { .. } => ErrorCode::ToolUnknown,
            ToolCallError::Invalid { .. } => ErrorCode::ToolArgumentsInvalid,
            ToolCallError::NeedsApproval { .. } => ErrorCode::ToolNeedsApproval,
            ToolCallError::Denied { .. } => ErrorCode::ToolDenied,
            ToolCallError::Failed { .. } => ErrorCode::ToolFailed,
            ToolCallError::TimedOut { .. } => ErrorCode::ToolTimedOut,
            ToolCallError::Cancelled { .. } => ErrorCode::Cancelled,
        }
    }

    fn of(tool: &str, unmade: CallFailure) -> Self {
        let tool = tool.to_owned();
        match unmade {
            CallFailure::Cancelled => ToolCallError::Cancelled { tool },
            CallFailure::TimedOut(timeout) => ToolCallError::TimedOut { tool, timeout },
            CallFailure::Panicked => ToolCallError::Failed { reason: "it panicked".to_owned(), tool },
            CallFailure::TooDeep => ToolCallError::Failed { reason: too_deep("its output"), tool },
            CallFailure::Failed(err) => match err.downcast::<Denied>() {
                Ok(denied) => ToolCallError::Denied { tool, reason: denied.reason },
                Err(err) => ToolCallError::Failed { reason: err.to_string(), tool },
            },
        }
    }
}

impl Agent {
    /// Returns the names of the tools that can be called, sorted: those that every run offers, and those registered as
    /// executors.
    pub fn tool_names(&self) -> Vec<&str> {
        let tools = self.0.toolbox.offered.iter().chain(self.0.toolbox.executors.iter());
        tools.map(Tool::name).collect::<BTreeSet<_>>().into_iter().collect()
    }

    /// Whether a call needs approval before it runs. Returns an error if the call would not run anyway.
    pub fn needs_approval(&self, tool: &str, arguments: &Value) -> Result<bool, ToolCallError> {
        Ok(self.callable(tool, arguments)?.requires_approval(arguments))
    }

    /// Runs one of the agent's tools outside of a turn and returns its raw value. The agent's own middleware
    /// ([`AgentBuilder::wrap`](crate::AgentBuilder::wrap)) wraps the call; that of a prompt does not. The tool sees
    /// the latest turn of the thread. Nothing is written to the thread.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use std::time::Duration;
    /// # use contexture_agent::{Agent, Tool, Secrets, ToolRequest};
    /// # use contexture_compose::BoxFuture;
    /// # use contexture_history::Timestamp;
    /// # use contexture_message::{Encoding, ToolDefinition};
    /// # use contexture_model::Scripted;
    /// # use contexture_session::{MemoryStore, Names, Ports, SessionConfig, SessionStart, Sessions, Time};
    /// # use serde_json::json;
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
    /// let pay = Tool::new(ToolDefinition::new("pay", "Pays."), |it| async move { Ok(it.call.arguments) })?;
    /// let agent = Agent::builder(Scripted::new([]), Arc::new(Fixed), Fixed).tool(pay.needs_approval()).build()?;
    ///
    /// let request = ToolRequest::new("pay", json!({"euros": 5}));
    /// let refused = agent.call(thread, request.clone()).await.unwrap_err();
    /// assert_eq!(refused.code(), "tool_needs_approval");
    ///
    /// let paid = agent.call(thread, ToolRequest { approved: true, ..request }).await?;
    /// assert_eq!(paid, json!({"euros": 5}));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub async fn call(&self, thread: &Thread, request: ToolRequest) -> Result<Value, ToolCallError> {
        let ToolRequest { tool: name, arguments, call_id, approved, cancel } = request;
        let tool = match self.callable(&name, &arguments) {
            Ok(tool) if approved || !tool.requires_approval(&arguments) => tool,
            refused => {
                take_apart(arguments);
                return Err(refused.err().unwrap_or(ToolCallError::NeedsApproval { tool: name }));
            }
        };
        let call = ToolCall { id: call_id, name, arguments };
        let turn = thread.get().turn();
        let result_tokens = self.0.config.compaction.max_tokens_per_recent_tool_result;
        let (limits, time, layers) = (self.0.call_limits(), &*self.0.time, &self.0.toolbox.layers);
        // Nothing is written to the thread, so what the tool remembers is dropped.
        let (notes, skills) = (&RoundNotes::default(), &SkillShare::default());
        let site = Site { limits, time, layers, thread, turn, result_tokens, notes, skills, cancel: &cancel };
        let span = span(&call);
        let made = site.value(tool, &call).instrument(span.clone()).await;
        made.map_err(|unmade| {
            let err = ToolCallError::of(&call.name, unmade);
            span.record("error.type", err.code().as_str());
            err
        })
    }

    /// Returns the tool for a call, if it exists and accepts the arguments.
    fn callable(&self, name: &str, arguments: &Value) -> Result<&Tool, ToolCallError> {
        let unknown = || ToolCallError::Unknown { tool: name.to_owned() };
        let invalid = |faults| ToolCallError::Invalid { tool: name.to_owned(), faults };
        let tool = self.0.toolbox.get(name).ok_or_else(unknown)?;
        if is_too_deep(arguments) {
            return Err(invalid(too_deep("an argument")));
        }
        match tool.argument_faults(arguments) {
            Some(faults) => Err(invalid(faults)),
            None => Ok(tool),
        }
    }
}
