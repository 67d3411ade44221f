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

mod agent;
mod beside;
mod checks;
mod compaction;
mod enclosed;
mod error;
mod event;
mod hooks;
mod outcome;
mod ports;
mod relief;
mod request;
mod run;
mod skills;
mod spec;
mod text;
mod told;
mod tool_call;
mod tools;
mod turn;

pub use agent::{Agent, AgentBuilder, AgentConfig};
pub use checks::{
    CheckOutcome, Checked, ConstraintCheck, GuardrailCheck, GuardrailVerdict, check_constraint,
    check_guardrail, constraint, guardrail,
};
pub use compaction::{CompactionConfig, Summarized, Summarizer, SummaryCall};
pub use enclosed::{HttpReference, ReferencePolicy, ReferenceResolver, References};
pub use error::{AgentError, ApprovalError, ClientToolError, ConstraintFailure};
pub use event::{ApprovalRequest, CheckReport, CompactionReport, Event, Made, Remark, RunsOn};
pub use hooks::{EndedTurn, TurnHook, turn_hook};
pub use outcome::{Ended, Outcome};
pub use ports::{Called, CallerEntries, Calling, InPlace, KnowledgeBases, Offload, Piece, Secrets, Watcher};
pub use relief::CompactRequest;
pub use request::{is_frozen_record, resolve_reminded, with_frozen_texts};
pub use run::Run;
pub use skills::{LoadedSkill, SkillInject, SkillLoad, is_skill_record};
pub use spec::{AnswerRequest, Attachment, ContextRef, KnowledgeRequest, ResumePolicy, RunRequest, RunSpec};
pub use tokio_util::sync::CancellationToken;
pub use told::{EventView, ends_turn, is_answer};
pub use tool_call::{ToolCallError, ToolRequest};
pub use tools::{
    Before, ENGINE_TOOLS, HttpCaller, HttpReply, HttpRequest, HttpTool, HttpToolInvalid, Invocation,
    Middleware, Next, Tool, ToolRefused, Tools, check_middleware, tool, tool_middleware,
};
pub use turn::{Decision, Pending, PendingApproval, Verdict, answer_in, waiting_calls};
