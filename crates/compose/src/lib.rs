//! The composition engine: decides what a model sees, and explains why.
//!
//! ```text
//! define ─▶ lower ─▶ gate ─▶ gather ─▶ merge ─▶ fit ─▶ arrange ─▶ render
//!                      └─────────┴────────┴───────┴────────┴──▶ explain
//! ```
//!
//! Each stage is a module with that name: plain data in, plain data out. Stages pass [`Segment`]s to each other, and
//! only `engine` knows the order of the stages. No stage reads a file, a socket, a clock or the environment: what
//! they need comes in through [`ports`].

mod alike;
mod arrange;
mod cache;
mod define;
mod diff;
mod engine;
mod error;
mod explain;
mod fit;
mod gate;
mod gather;
mod history;
mod lower;
mod merge;
mod options;
mod own;
mod panics;
mod pass;
mod planner;
pub mod ports;
mod registry;
mod render;
mod results;
mod rewrite;
mod said;
mod schema;
mod segment;
mod sent;
mod setup;
mod shorten;
mod source;
mod standard;
pub mod tags;
mod validator;

pub use cache::{CacheFacts, Forecast, MissCause, PrefixChange, Reconciliation};
pub use contexture_history::{
    Cost, Limit as HistoryLimit, RepairKind, Transform, Transforms, Turn, TurnStatus,
};
pub use contexture_message::{CacheRules, Price};
pub use define::checks::{
    Constraint, ConstraintMode, Guardrail, GuardrailSide, StopCondition, ToolMiddleware,
};
pub use define::{
    Adaptation, Arrangement, Block, BlockBody, BlockDefinition, BlockMessage, BlockMode, BlockScope, Branch,
    Budget, CacheConfig, Call, Context, ContextProvider, ContextSource, Contribution, Contributor,
    Declaration, Definition, Entry, FnContributor, HistoryConfig, Hooks, InlineBlock, Input, InputPolicy,
    Match, MatchBuilder, MessageText, Messages, MessagesFunction, ModelLimits, OnError, Piece, Pin,
    Placement, Predicate, Priority, PriorityOutOfRange, Profile, PromptBuilder, Rank, Runner, Schema, Scope,
    Selector, TagValue, Text, UserMessage, UserPart, When, contributor, injectable, matching, provider, when,
};
pub use diff::{Change, ExplanationDiff, FirstDifference};
pub use error::{BoxError, Error, ErrorKind, InputFault};
pub use explain::{
    BudgetInfo, CounterInfo, Drop, Exclusion, Explanation, Part, RepairInfo, TimingInfo, TransformInfo,
};
pub use futures::future::BoxFuture;
pub use gather::Timing;
pub use lower::{MAX_DEPTH, Prompt, is_tool_name};
pub use merge::Extras;
pub use options::{
    Absence, Additions, CacheState, CallOverrides, Conversation, InFlightTurn, ResolveOptions, Reuse,
    TargetModel,
};
pub use pass::{CachedBlock, Pass};
pub use planner::{Edit, EditDecision, Prospect, forced, weigh};
pub use ports::Engine;
#[doc(hidden)]
pub use registry::below;
pub use registry::{PromptTree, Prompts};
pub use results::{ResultView, ShortenedResult};
pub use segment::{
    Body, Counted, Fate, Offers, Reason, Segment, SharedText, SharedTool, Slot, Trust, Volatility,
};
pub use sent::Sent;
pub use setup::full_name;
pub use source::Source;
pub use standard::identity_and_date;
pub use validator::{SchemaFault, SchemaRefused, SchemaValidator};
