//! Prompt blocks: named pieces of context, each with its own placement.

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{BoxFuture, FutureExt};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::contributor::OnError;
use crate::BoxError;
use crate::define::{Call, Text};
use crate::segment::Priority;

/// A named piece of context, wrapped in a tag with its name: `<name>`, its body, `</name>`.
///
/// [`BlockMessage`], [`BlockScope`] and [`BlockMode`] determine its placement. A clone is the same block: included
/// twice, it is rendered once.
///
/// ```
/// use contexture_compose::{Block, Prompt};
///
/// let rules = Block::text("house_rules", "Be kind. Never promise a date.");
/// let page = Block::dynamic("page", |call| async move {
///     Ok(format!("Page {}", call.input.value()["page"])) // Await a service here.
/// });
/// let prompt = Prompt::builder("support").include(rules).include(page.user().turn()).build()?;
/// # Ok::<(), contexture_compose::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Block(pub(crate) Arc<BlockDefinition>);

/// Everything an author defines about a block. Checked when a prompt that uses it is built.
#[derive(Clone, Debug)]
pub struct BlockDefinition {
    /// The block's name, which is also its tag.
    pub name: String,
    /// What the block is for.
    pub description: Option<String>,
    /// Which message it belongs to.
    pub message: BlockMessage,
    /// How long it stays valid.
    pub scope: BlockScope,
    /// Whether it is evaluated once or for each request.
    pub mode: BlockMode,
    /// The text of the block, or the function that produces it.
    pub body: BlockBody,
    /// Keywords for finding it.
    pub tags: Vec<String>,
    /// Its order among blocks with the same placement: lower first, then by name.
    pub order: i32,
    /// Its priority under a budget. A block of the frozen prefix is never dropped, whatever its priority.
    pub priority: Priority,
    /// How long its text may be reused for the same input.
    pub ttl: Option<Duration>,
    /// How long its function may take.
    pub deadline: Option<Duration>,
    /// What happens to the pass if its function fails.
    pub on_error: OnError,
    /// The ids of the prompts it applies to; empty means all.
    pub agents: Vec<String>,
    /// Whether it is included at all.
    pub enabled: bool,
    /// Whether its text is used unescaped. Otherwise `&`, `<` and `>` are escaped.
    pub raw: bool,
    /// The file it was read from, for errors.
    pub file: Option<String>,
}

/// Which message a block belongs to.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum BlockMessage {
    /// The system message.
    #[default]
    System,
    /// The hidden envelope of a user message.
    User,
}

/// How long a block stays valid.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum BlockScope {
    /// For the whole conversation.
    #[default]
    Conversation,
    /// For one turn.
    Turn,
}

/// Whether a block is evaluated once or for each request.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum BlockMode {
    /// Once; the thread keeps the result.
    #[default]
    Cached,
    /// For each request.
    RealTime,
}

type BodyFn = dyn Fn(Call) -> BoxFuture<'static, Result<String, BoxError>> + Send + Sync;

/// The text of a block, or the function that produces it.
#[derive(Clone)]
pub enum BlockBody {
    /// A literal or a template. Escaped like any leaf, unless the block is `raw`.
    Static(Text),
    /// A function, which runs concurrently with all other contributors. Its text is not escaped: it must escape
    /// untrusted content itself, see [`crate::tags::escape_text`].
    Dynamic(Arc<BodyFn>),
}

/// A block supplied with a request. It goes into the envelope of this turn's user message and is always escaped.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct InlineBlock {
    /// The block's name, which is also its tag.
    pub name: String,
    /// The literal text of the block.
    pub body: String,
    /// Its order among the blocks of the envelope: lower first, then by name.
    #[serde(default)]
    pub order: i32,
}

impl Block {
    /// Returns a block with a text: a literal or a template.
    pub fn text(name: impl Into<String>, text: impl Into<Text>) -> Self {
        Self::new(name, BlockBody::Static(text.into()))
    }

    /// Returns a block whose text is produced by an async function.
    pub fn dynamic<F>(name: impl Into<String>, body: impl Fn(Call) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Result<String, BoxError>> + Send + 'static,
    {
        Self::new(name, BlockBody::Dynamic(Arc::new(move |call| body(call).boxed())))
    }

    fn new(name: impl Into<String>, body: BlockBody) -> Self {
        Self::from(BlockDefinition { name: name.into(), body, ..BlockDefinition::default() })
    }

    /// Returns the definition of the block.
    pub fn definition(&self) -> &BlockDefinition {
        &self.0
    }

    /// Sets what the block is for.
    #[must_use]
    pub fn description(self, description: impl Into<String>) -> Self {
        self.with(|it| it.description = Some(description.into()))
    }

    /// Puts it into the hidden envelope of a user message.
    #[must_use]
    pub fn user(self) -> Self {
        self.with(|it| it.message = BlockMessage::User)
    }

    /// Makes it valid for one turn only.
    #[must_use]
    pub fn turn(self) -> Self {
        self.with(|it| it.scope = BlockScope::Turn)
    }

    /// Evaluates it for each request.
    #[must_use]
    pub fn real_time(self) -> Self {
        self.with(|it| it.mode = BlockMode::RealTime)
    }

    /// Sets its order among blocks with the same placement: lower first, then by name.
    #[must_use]
    pub fn order(self, order: i32) -> Self {
        self.with(|it| it.order = order)
    }

    /// Sets its priority under a budget: the lowest is dropped first.
    #[must_use]
    pub fn priority(self, priority: Priority) -> Self {
        self.with(|it| it.priority = priority)
    }

    /// Adds a keyword for finding it.
    #[must_use]
    pub fn tag(self, tag: impl Into<String>) -> Self {
        self.with(|it| it.tags.push(tag.into()))
    }

    /// Lets the engine reuse its text for the same input for this long.
    #[must_use]
    pub fn ttl(self, ttl: Duration) -> Self {
        self.with(|it| it.ttl = Some(ttl))
    }

    /// Limits how long its function may take.
    #[must_use]
    pub fn deadline(self, deadline: Duration) -> Self {
        self.with(|it| it.deadline = Some(deadline))
    }

    /// Sets what happens to the pass if its function fails.
    #[must_use]
    pub fn on_error(self, on_error: OnError) -> Self {
        self.with(|it| it.on_error = on_error)
    }

    /// Restricts it to this prompt and any others added the same way.
    #[must_use]
    pub fn agent(self, id: impl Into<String>) -> Self {
        self.with(|it| it.agents.push(id.into()))
    }

    /// Sets whether it is included at all.
    #[must_use]
    pub fn enabled(self, enabled: bool) -> Self {
        self.with(|it| it.enabled = enabled)
    }

    /// Uses its text unescaped. Only the engine's own tags are neutralised in it.
    #[must_use]
    pub fn raw(self) -> Self {
        self.with(|it| it.raw = true)
    }

    // The definition is copied only if another clone of the block exists; the copy is then a different block.
    fn with(mut self, change: impl FnOnce(&mut BlockDefinition)) -> Self {
        change(Arc::make_mut(&mut self.0));
        self
    }
}

impl Default for BlockDefinition {
    fn default() -> Self {
        Self {
            name: String::new(),
            description: None,
            message: BlockMessage::default(),
            scope: BlockScope::default(),
            mode: BlockMode::default(),
            body: BlockBody::Static(Text::literal("")),
            tags: Vec::new(),
            order: 0,
            priority: Priority::DEFAULT,
            ttl: None,
            deadline: None,
            on_error: OnError::default(),
            agents: Vec::new(),
            enabled: true,
            raw: false,
            file: None,
        }
    }
}

impl From<BlockDefinition> for Block {
    fn from(definition: BlockDefinition) -> Self {
        Self(Arc::new(definition))
    }
}

impl fmt::Debug for BlockBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BlockBody::Static(text) => text.fmt(f),
            BlockBody::Dynamic(_) => f.write_str("AsyncFunction"),
        }
    }
}
