//! The agent loop: resolve, call the model, run tools, check, record, repeat.
//!
//! An [`Agent`] runs a Prompt on a Thread: [`Agent::run`] returns a [`Run`], a stream of [`Event`]s that ends with an
//! [`Outcome`]. A turn is durable from its first append. However it ends, every tool call in the log has its result,
//! or gets one when the log is read.
//!
//! ```text
//! resolve ─▶ input guardrails ─▶ begin ─▶ call ─▶ output guardrails ─┬─▶ structured output ─▶ constraints ─▶ complete
//!    ▲                                                              │
//!    └──────────────────────── append ◀── run tools ◀───────────────┘
//! ```

mod ageing;
mod agent;
mod approval;
mod attempt;
mod call;
mod catch_panic;
mod checks;
mod client_tool;
mod compaction;
mod declared;
mod depth;
mod error;
mod event;
mod filled;
mod http;
mod invoke;
mod judge;
mod middleware;
mod offload;
mod outcome;
mod output;
mod own_tools;
mod pending;
mod prefix;
mod preview;
mod reminders;
mod round;
mod run;
mod sent;
mod setting;
mod spec;
mod tool;
mod turn;
mod watcher;
mod words;

pub use agent::{Agent, AgentBuilder, AgentConfig, Secrets};
pub use approval::{ApprovalError, ApprovalRequest, Decision, Verdict};
pub use attempt::answer_in;
pub use call::{ToolCallError, ToolRequest};
pub use checks::{
    Checked, ConstraintCheck, ConstraintFailure, GuardrailCheck, GuardrailVerdict, check_constraint,
    check_guardrail, constraint, guardrail,
};
pub use client_tool::{AnswerRequest, ClientToolError, waiting_calls};
pub use compaction::{
    CompactRequest, CompactionConfig, CompactionReport, Made, Summarized, Summarizer, SummaryCall,
};
pub use error::AgentError;
pub use event::{Event, RunsOn};
pub use http::{HttpCaller, HttpReply, HttpRequest, HttpTool, HttpToolInvalid};
pub use middleware::{Before, Middleware, Next, check_middleware, tool_middleware};
pub use offload::{InPlace, Offload};
pub use outcome::{Ended, Outcome, Remark};
pub use own_tools::ENGINE_TOOLS;
pub use pending::{Pending, PendingApproval};
pub use reminders::resolve_reminded;
pub use run::Run;
pub use spec::{ResumePolicy, RunRequest, RunSpec};
pub use tokio_util::sync::CancellationToken;
pub use tool::{Invocation, Tool, ToolRefused, Tools, tool};
pub use watcher::{Called, Calling, Watcher};
