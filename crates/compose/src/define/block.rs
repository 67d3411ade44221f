//! A prompt block: a named piece of context with a place of its own.

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use futures::future::{BoxFuture, FutureExt};
use serde::{Deserialize, Serialize};

use super::{Call, OnError, Text};
use crate::BoxError;

/// A named piece of context, wrapped in a tag of its name: `<name>`, its body, `</name>`.
///
/// Where it stands follows from [`BlockMessage`], [`BlockScope`] and [`BlockMode`]. A clone is the same block: included
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

/// Everything an author says about a block. Checked when a prompt that uses it is built.
#[derive(Clone, Debug)]
pub struct BlockDefinition {
    /// Its name, which is also its tag.
    pub name: String,
    /// What it is for.
    pub description: Option<String>,
    /// Which message it belongs to.
    pub message: BlockMessage,
    /// How long it holds.
    pub scope: BlockScope,
    /// Whether it is evaluated once or for each request.
    pub mode: BlockMode,
    /// What it says.
    pub body: BlockBody,
    /// Words to find it by.
    pub tags: Vec<String>,
    /// Its place among the blocks of the same place: lower first, then by name.
    pub order: i32,
    /// How long what it says may be remembered for the same input.
    pub ttl: Option<Duration>,
    /// How long its function may take.
    pub deadline: Option<Duration>,
    /// What a failure of its function means.
    pub on_error: OnError,
    /// The ids of the prompts it applies to; none means all.
    pub agents: Vec<String>,
    /// Whether it takes part.
    pub enabled: bool,
    /// Whether its text is taken as it is. Else `&`, `<` and `>` are escaped in it.
    pub raw: bool,
    /// The file it was read from, for errors.
    pub file: Option<String>,
}

/// Which message a block belongs to.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BlockMessage {
    /// The system message.
    #[default]
    System,
    /// The hidden envelope of a user's message.
    User,
}

/// How long a block holds.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BlockScope {
    /// For the whole conversation.
    #[default]
    Conversation,
    /// For one turn.
    Turn,
}

/// Whether a block is evaluated once or for each request.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BlockMode {
    /// Once; a thread may pin what it said.
    #[default]
    Cached,
    /// For each request.
    RealTime,
}

type BodyFn = dyn Fn(Call) -> BoxFuture<'static, Result<String, BoxError>> + Send + Sync;

/// What a block says.
#[derive(Clone)]
pub enum BlockBody {
    /// A literal or a template. Escaped like any leaf, unless the block is `raw`.
    Static(Text),
    /// A function, which runs beside all other contributors. Its text is taken as it is: what it fetched from somewhere
    /// else it escapes itself, see [`crate::tags::escape_text`].
    Dynamic(Arc<BodyFn>),
}

/// A block that a request brings along: it stands in the envelope of this turn's user message, always escaped.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InlineBlock {
    /// Its name, which is also its tag.
    pub name: String,
    /// What it says, a literal.
    pub body: String,
    /// Its place among the blocks of the envelope: lower first, then by name.
    #[serde(default)]
    pub order: i32,
}

impl Block {
    /// Returns a block with a text: a literal or a template.
    pub fn text(name: impl Into<String>, text: impl Into<Text>) -> Self {
        Self::new(name, BlockBody::Static(text.into()))
    }

    /// Returns a block whose text is made by an async function.
    pub fn dynamic<F>(name: impl Into<String>, body: impl Fn(Call) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Result<String, BoxError>> + Send + 'static,
    {
        Self::new(name, BlockBody::Dynamic(Arc::new(move |call| body(call).boxed())))
    }

    fn new(name: impl Into<String>, body: BlockBody) -> Self {
        Self::from(BlockDefinition { name: name.into(), body, ..BlockDefinition::default() })
    }

    /// Returns what the author said.
    pub fn definition(&self) -> &BlockDefinition {
        &self.0
    }

    /// Says what it is for.
    #[must_use]
    pub fn description(self, description: impl Into<String>) -> Self {
        self.with(|it| it.description = Some(description.into()))
    }

    /// Puts it into the hidden envelope of a user's message.
    #[must_use]
    pub fn user(self) -> Self {
        self.with(|it| it.message = BlockMessage::User)
    }

    /// Lets it hold for one turn only.
    #[must_use]
    pub fn turn(self) -> Self {
        self.with(|it| it.scope = BlockScope::Turn)
    }

    /// Has it evaluated for each request.
    #[must_use]
    pub fn real_time(self) -> Self {
        self.with(|it| it.mode = BlockMode::RealTime)
    }

    /// Sets its place among the blocks of the same place: lower first, then by name.
    #[must_use]
    pub fn order(self, order: i32) -> Self {
        self.with(|it| it.order = order)
    }

    /// Adds a word to find it by.
    #[must_use]
    pub fn tag(self, tag: impl Into<String>) -> Self {
        self.with(|it| it.tags.push(tag.into()))
    }

    /// Lets the engine remember what it says for the same input for so long.
    #[must_use]
    pub fn ttl(self, ttl: Duration) -> Self {
        self.with(|it| it.ttl = Some(ttl))
    }

    /// Limits how long its function may take.
    #[must_use]
    pub fn deadline(self, deadline: Duration) -> Self {
        self.with(|it| it.deadline = Some(deadline))
    }

    /// Says what a failure of its function means.
    #[must_use]
    pub fn on_error(self, on_error: OnError) -> Self {
        self.with(|it| it.on_error = on_error)
    }

    /// Lets it apply to this prompt, and to no others but those added the same way.
    #[must_use]
    pub fn agent(self, id: impl Into<String>) -> Self {
        self.with(|it| it.agents.push(id.into()))
    }

    /// Says whether it takes part.
    #[must_use]
    pub fn enabled(self, enabled: bool) -> Self {
        self.with(|it| it.enabled = enabled)
    }

    /// Takes its text as it is. Only the engine's own tags are neutralised in it.
    #[must_use]
    pub fn raw(self) -> Self {
        self.with(|it| it.raw = true)
    }

    // The definition is copied only if another clone of the block is alive; the copy is then another block.
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
