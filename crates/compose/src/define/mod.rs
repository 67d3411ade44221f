//! The definitions that authors write: prompts, entries, texts and values. `lower` checks them.

mod adapt;
mod block;
mod budget;
mod call;
pub(crate) mod checks;
mod context;
mod contributor;
mod entry;
mod history;
mod hooks;
mod input;
mod messages;
mod policy;
mod priority;
mod prompt;
mod provider;
mod runner;
mod schema;
mod text;
mod user;
mod values;

pub use adapt::Adaptation;
pub(crate) use adapt::matching_keys;
pub use block::{Block, BlockBody, BlockDefinition, BlockMessage, BlockMode, BlockScope, InlineBlock};
pub use budget::{Arrangement, Budget, CacheConfig, ModelLimits};
pub use call::{Call, Scope};
pub use context::Context;
pub(crate) use context::ContextParts;
pub use contributor::{
    Contribution, Contributor, Declaration, FnContributor, OnError, Piece, Pin, Placement, Profile, Rank,
    contributor, injectable,
};
pub use entry::{Branch, Entry, Match, MatchBuilder, Predicate, Selector, When, matching, provider, when};
pub use history::HistoryConfig;
pub use hooks::Hooks;
pub use input::Input;
pub use messages::{MessageText, Messages, MessagesFunction};
pub use policy::InputPolicy;
pub use priority::{Priority, PriorityOutOfRange};
pub use prompt::{Definition, PromptBuilder};
pub(crate) use provider::ProviderParts;
pub use provider::{ContextProvider, ContextSource};
pub use runner::Runner;
pub use schema::Schema;
pub use text::Text;
pub use user::{UserMessage, UserPart};
pub use values::TagValue;
