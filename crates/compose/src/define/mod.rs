//! The definitions that authors write: prompts, entries, texts and values. `lower` checks them.

mod adapt;
mod budget;
mod call;
pub(crate) mod checks;
mod condition;
mod definition;
mod entry;
mod input;
mod messages;
mod schema;
mod text;
mod values;

pub use adapt::Adaptation;
pub(crate) use adapt::matching_keys;
pub use budget::{Arrangement, Budget, CacheConfig, ModelLimits};
pub use call::{Call, Scope};
pub(crate) use call::{catch_panic, catch_panic_in};
pub use condition::{Predicate, Selector};
pub use definition::{Definition, HistoryConfig};
pub use entry::{
    Block, BlockBody, BlockDefinition, BlockMessage, BlockMode, BlockScope, Branch, Capability,
    CapabilityBuilder, CapabilityVariant, Context, ContextProvider, ContextSource, Contribution, Contributor,
    ConversationUse, DEFAULT_PRESET, Declaration, DefinedEntry, Entry, FnContributor, InlineBlock, Joint,
    JointPart, Match, MatchBuilder, OnError, Piece, Placement, Profile, Rank, When, contributor, injectable,
    matching, provider, when,
};
pub(crate) use entry::{CapabilityParts, ContextParts, ProviderParts};
pub use input::{Input, InputPolicy};
pub use messages::{MessageText, Messages, MessagesFunction, UserMessage, UserPart};
pub use schema::Schema;
pub use text::Text;
pub use values::TagValue;
