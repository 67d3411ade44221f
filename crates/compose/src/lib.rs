//! The composition engine: decides what a model sees, and explains why.
//!
//! ```text
//! define ─▶ lower ─▶ gate ─▶ gather ─▶ merge ─▶ fit ─▶ arrange ─▶ render
//!                      └─────────┴────────┴───────┴────────┴──▶ explain
//! ```
//!
//! Each stage is a module with that name (`define` and `lower`, the others in `stages`): plain data in, plain data out.
//! Stages pass [`Segment`]s to each other, and only `engine` knows their order. What several stages need lies below
//! them: `segment` (Segments, sources, texts, tools), `evaluated` (what functions returned), `cache` (what was sent) and
//! `stages::draft` (the draft, and the order and text of the system message). `prompt` and `pass` are what applications
//! hold. No stage reads a file, a socket, a clock or the environment: what they need comes in through [`ports`].

mod cache;
mod define;
mod engine;
mod error;
mod evaluated;
mod lower;
mod options;
mod pass;
pub mod ports;
mod prompt;
mod segment;
mod stages;
mod standard;
pub mod tags;
mod validator;

pub use cache::{
    CacheFacts, Edit, EditDecision, Forecast, MissCause, PrefixChange, Prospect, Reconciliation, Sent,
    forced, weigh,
};
pub use contexture_history::{
    Cost, Limit as HistoryLimit, RepairKind, Transform, Transforms, Turn, TurnStatus,
};
pub use contexture_message::{CacheRules, Price};
pub use define::checks::{
    Constraint, ConstraintMode, Guardrail, GuardrailSide, StopCondition, ToolMiddleware,
};
pub use define::{
    Adaptation, Arrangement, Block, BlockBody, BlockDefinition, BlockMessage, BlockMode, BlockScope, Branch,
    Budget, CacheConfig, Call, Capability, CapabilityBuilder, CapabilityVariant, Context, ContextProvider,
    ContextSource, Contribution, Contributor, ConversationUse, DEFAULT_PRESET, Declaration, DefinedEntry,
    Definition, Entry, FnContributor, HistoryConfig, InlineBlock, Input, InputPolicy, Joint, JointPart,
    Match, MatchBuilder, MessageText, Messages, MessagesFunction, ModelLimits, OnError, Piece, Placement,
    Predicate, Profile, Rank, Schema, Scope, Selector, TagValue, Text, UserMessage, UserPart, When,
    contributor, injectable, matching, provider, when,
};
pub use error::{BoxError, Error, ErrorKind, InputFault};
pub use evaluated::{Reuse, Timing};
pub use futures_util::future::BoxFuture;
pub use lower::{CapabilityInfo, MAX_DEPTH, is_tool_name};
pub use options::{
    Absence, Additions, CacheState, CallOverrides, Conversation, InFlightTurn, ResolveOptions, ResultView,
    TargetModel,
};
pub use pass::{FrozenBlock, Pass};
pub use ports::Engine;
#[doc(hidden)]
pub use prompt::below;
pub use prompt::{Hooks, Prompt, PromptBuilder, PromptTree, Prompts};
pub use segment::{
    Body, Counted, EntryKind, Fate, FrozenBody, Offers, Priority, PriorityOutOfRange, Reason, Runner,
    Segment, SharedText, SharedTool, Slot, Source, Trust, Volatility,
};
pub use stages::draft::Extras;
pub use stages::explain::{
    BudgetInfo, Change, CounterInfo, Drop, Exclusion, Explanation, ExplanationDiff, FirstDifference, Part,
    RepairInfo, TimingInfo, TransformInfo,
};
pub use stages::rewrite::ShortenedResult;
pub use stages::setup::full_name;
pub use standard::{identity_and_date, text_provider};
pub use validator::{SchemaFault, SchemaRefused, SchemaValidator};
