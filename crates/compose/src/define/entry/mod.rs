//! The entries of a prompt, which `use` lists.

mod block;
mod capability;
mod context;
mod contributor;
mod provider;

use std::any::Any;
use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::sync::Arc;

use contexture_message::Message;
use serde::de::DeserializeOwned;

pub use self::block::{Block, BlockBody, BlockDefinition, BlockMessage, BlockMode, BlockScope, InlineBlock};
pub(crate) use self::capability::CapabilityParts;
pub use self::capability::{Capability, CapabilityBuilder, CapabilityVariant, DEFAULT_PRESET};
pub use self::context::Context;
pub(crate) use self::context::ContextParts;
use self::contributor::FnKind;
pub use self::contributor::{
    Contribution, Contributor, ConversationUse, Declaration, FnContributor, Joint, JointPart, OnError, Piece,
    Placement, Profile, Rank, contributor, injectable,
};
pub(crate) use self::provider::ProviderParts;
pub use self::provider::{ContextProvider, ContextSource};
use super::{Call, Predicate, Selector};
use crate::BoxError;
use crate::segment::AnyEq;

/// One entry of `use`. Contexts, blocks and contributors convert into it, and so does `Option`: `None` contributes
/// nothing but still occupies a position.
#[derive(Clone)]
pub enum Entry {
    /// Text or tag values, with the input, tools and checks that belong to them.
    Context(Context),
    /// A named piece of context with its own placement: `block:<name>`.
    Block(Block),
    /// Entries that are included if a predicate holds.
    When(Arc<When>),
    /// Entries of one of several branches.
    Match(Arc<Match>),
    /// Messages put before the history, never stored: `provider:<name>`.
    Provider(ContextProvider),
    /// Contexts, tools, checks and metadata produced by a function: `injectable:<id>`.
    Injectable(Arc<FnContributor>),
    /// A named bundle of entries, tools, values, transforms and checks: `capability:<name>`.
    Capability(CapabilityVariant),
    /// Anything that implements [`Contributor`].
    Contributor(Arc<dyn Contributor>),
    /// An entry with the data that defines it, see [`Entry::defined`].
    Defined(Arc<DefinedEntry>),
    /// No entry. It still occupies a position.
    Nothing,
}

impl Entry {
    /// Returns an entry that follows from `definition` alone, such as one that a file declares. Entries of a prompt with
    /// equal definitions are one entry; without a definition, only clones are.
    pub fn defined(definition: impl Any + PartialEq + Send + Sync, entry: impl Into<Entry>) -> Self {
        match entry.into() {
            Entry::Nothing => Entry::Nothing,
            entry => Entry::Defined(Arc::new(DefinedEntry { definition: Box::new(definition), entry })),
        }
    }
}

/// An entry with the data that defines it.
pub struct DefinedEntry {
    definition: Box<dyn AnyEq>,
    pub(crate) entry: Entry,
}

impl DefinedEntry {
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        self.definition.equals((*other.definition).as_any())
    }
}

/// Entries that are included if a condition holds.
#[derive(Clone, Debug)]
pub struct When {
    /// The condition.
    pub predicate: Predicate,
    /// The entries that are included if it holds.
    pub branch: Branch,
}

/// Entries chosen by a value.
#[derive(Clone, Debug)]
pub struct Match {
    /// Selects the branch for a call.
    pub on: Selector,
    /// The branches, each with the value that selects it.
    pub cases: Vec<(String, Branch)>,
    /// The branch for all other values.
    pub default: Option<Branch>,
}

/// One entry or a list of entries.
#[derive(Clone, Debug)]
pub enum Branch {
    /// One entry. Without an id it is identified by the position of its `when` or `match`.
    One(Entry),
    /// A list. Entries without an id are identified by their position in it.
    Many(Vec<Entry>),
}

/// Includes entries only if the predicate holds for the typed input.
pub fn when<I>(predicate: impl Fn(&I) -> bool + Send + Sync + 'static, branch: impl Into<Branch>) -> Entry
where
    I: DeserializeOwned + Send + Sync + 'static,
{
    Entry::When(Arc::new(When { predicate: Predicate::of(predicate), branch: branch.into() }))
}

/// Includes the branch that the selector returns. Finish with [`MatchBuilder::default_case`] or convert.
///
/// ```
/// use contexture_compose::{Context, matching};
/// # #[derive(serde::Deserialize)] struct Ticket { locale: String }
/// let language = matching(|it: &Ticket| it.locale.clone())
///     .case("de", Context::text("german", "Antworte auf Deutsch."))
///     .default_case(Context::text("english", "Answer in English."));
/// ```
pub fn matching<I, R>(on: impl Fn(&I) -> R + Send + Sync + 'static) -> MatchBuilder
where
    I: DeserializeOwned + Send + Sync + 'static,
    R: Into<String>,
{
    MatchBuilder(Match { on: Selector::of(on), cases: Vec::new(), default: None })
}

/// A `match` under construction.
#[derive(Clone, Debug)]
pub struct MatchBuilder(Match);

impl MatchBuilder {
    /// Adds a branch for a value.
    #[must_use]
    pub fn case(mut self, value: impl Into<String>, branch: impl Into<Branch>) -> Self {
        self.0.cases.push((value.into(), branch.into()));
        self
    }

    /// Sets the branch for all other values.
    #[must_use]
    pub fn default_case(mut self, branch: impl Into<Branch>) -> Self {
        self.0.default = Some(branch.into());
        self
    }
}

/// Returns a context provider that does not read the conversation, and whose failure fails the pass. Short for
/// [`ContextProvider::new`] with [`OnError::Fail`].
pub fn provider<F>(name: impl Into<String>, messages: impl Fn(Call) -> F + Send + Sync + 'static) -> Entry
where
    F: Future<Output = Result<Vec<Message>, BoxError>> + Send + 'static,
{
    ContextProvider::new(name, move |call, _| messages(call)).on_error(OnError::Fail).into()
}

impl fmt::Debug for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Entry::Context(context) => f.debug_tuple("Context").field(&context.parts.id).finish(),
            Entry::Block(block) => f.debug_tuple("Block").field(&block.0.name).finish(),
            Entry::When(when) => when.branch.fmt(f),
            Entry::Match(matching) => {
                let cases: BTreeMap<_, _> =
                    matching.cases.iter().map(|(value, branch)| (value, branch)).collect();
                f.debug_tuple("Match").field(&cases).finish()
            }
            Entry::Provider(it) => f.debug_tuple("Provider").field(&it.name()).finish(),
            Entry::Capability(it) => f.debug_tuple("Capability").field(&it.name()).finish(),
            Entry::Injectable(it) => f.debug_tuple("Injectable").field(&it.id()).finish(),
            Entry::Contributor(it) => f.debug_tuple("Contributor").field(&it.id()).finish(),
            Entry::Defined(it) => it.entry.fmt(f),
            Entry::Nothing => f.write_str("Nothing"),
        }
    }
}

impl<In> From<Context<In>> for Entry {
    fn from(context: Context<In>) -> Self {
        Entry::Context(context.untyped())
    }
}

impl From<Block> for Entry {
    fn from(block: Block) -> Self {
        Entry::Block(block)
    }
}

impl From<ContextProvider> for Entry {
    fn from(provider: ContextProvider) -> Self {
        Entry::Provider(provider)
    }
}

impl<In> From<FnContributor<In>> for Entry {
    fn from(contributor: FnContributor<In>) -> Self {
        match contributor.kind() {
            FnKind::Contributor => Entry::Contributor(Arc::new(contributor.untyped())),
            FnKind::Injectable => Entry::Injectable(Arc::new(contributor.untyped())),
        }
    }
}

impl From<Arc<dyn Contributor>> for Entry {
    fn from(contributor: Arc<dyn Contributor>) -> Self {
        Entry::Contributor(contributor)
    }
}

impl From<MatchBuilder> for Entry {
    fn from(builder: MatchBuilder) -> Self {
        Entry::Match(Arc::new(builder.0))
    }
}

impl<T: Into<Entry>> From<Option<T>> for Entry {
    fn from(entry: Option<T>) -> Self {
        entry.map_or(Entry::Nothing, Into::into)
    }
}

impl<T: Into<Entry>> From<T> for Branch {
    fn from(entry: T) -> Self {
        Branch::One(entry.into())
    }
}

impl From<Vec<Entry>> for Branch {
    fn from(entries: Vec<Entry>) -> Self {
        Branch::Many(entries)
    }
}

impl<const N: usize> From<[Entry; N]> for Branch {
    fn from(entries: [Entry; N]) -> Self {
        Branch::Many(entries.into())
    }
}
