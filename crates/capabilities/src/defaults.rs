//! The standard stack of a prompt, in the recommended order.

use std::any::Any;

use contexture_compose::{
    Block, Capability, CapabilityVariant, ContextProvider, Entry, Text, identity_and_date,
};
use contexture_history::compaction::bounded_results;

use crate::memory::MemoryEntry;
use crate::skills::Skills;

/// The name of the capability that the stack is.
pub const DEFAULTS: &str = "defaults";
/// The orders of the blocks in the frozen prefix, before the blocks of a prompt.
const MEMORY_ORDER: i32 = -30;
const KNOWLEDGE_ORDER: i32 = -20;
const SKILLS_ORDER: i32 = -10;

/// The standard stack. Make it with [`defaults`].
#[derive(Clone, Debug, Default)]
pub struct Defaults {
    identity: Option<Text>,
    memory: Option<Entry>,
    knowledge: Option<Block>,
    skills: Option<Skills>,
    workspace: Option<ContextProvider>,
}

/// Returns the standard stack of a prompt: identity and date, memory, the catalogue of knowledge bases, the catalogue of
/// skills, the workspace; with a transform that bounds the tool results of earlier turns.
///
/// Parts that are not set are left out, except the date. The order in which they are set does not matter. The stack is the
/// capability `defaults`.
///
/// ```
/// # futures::executor::block_on(async {
/// use contexture_capabilities::defaults;
/// use contexture_compose::{Prompt, ResolveOptions, Scope};
///
/// let prompt = Prompt::builder("p").system("You help.").include(defaults().identity("You act for Acme.")).build()?;
/// let scope = Scope { now: Some("2026-03-01T08:30:00Z".into()), ..Scope::default() };
/// let pass = prompt.resolve(ResolveOptions::default().scope(scope)).await?;
/// let said: Vec<_> = pass.request().messages.iter().filter_map(|it| it.as_text()).collect();
/// assert_eq!(said, ["You help.", "You act for Acme.\nToday's date is 2026-03-01."]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # }).unwrap();
/// ```
pub fn defaults() -> Defaults {
    Defaults::default()
}

impl Defaults {
    /// Sets who the assistant is or acts for.
    #[must_use]
    pub fn identity(self, text: impl Into<Text>) -> Self {
        Self { identity: Some(text.into()), ..self }
    }

    /// Adds a memory.
    #[must_use]
    pub fn memory(self, memory: MemoryEntry) -> Self {
        Self { memory: Some(memory.order(MEMORY_ORDER).into()), ..self }
    }

    /// Adds a memory that follows from `definition` alone, see [`Entry::defined`].
    #[must_use]
    pub fn defined_memory(self, memory: MemoryEntry, definition: impl Any + PartialEq + Send + Sync) -> Self {
        Self { memory: Some(Entry::defined(definition, memory.order(MEMORY_ORDER))), ..self }
    }

    /// Adds the catalogue of knowledge bases, see [`catalogue`](crate::catalogue).
    #[must_use]
    pub fn knowledge(self, catalogue: Block) -> Self {
        Self { knowledge: Some(catalogue), ..self }
    }

    /// Adds skills: their catalogue, and the tools that load them.
    #[must_use]
    pub fn skills(self, skills: Skills) -> Self {
        Self { skills: Some(skills), ..self }
    }

    /// Adds the listing of a workspace.
    #[must_use]
    pub fn workspace(self, workspace: ContextProvider) -> Self {
        Self { workspace: Some(workspace), ..self }
    }

    /// Returns the stack as a capability.
    pub fn build(self) -> CapabilityVariant {
        let Self { identity, memory, knowledge, skills, workspace } = self;
        let identity = identity_and_date(identity.unwrap_or_else(|| Text::literal("")));
        Capability::builder(DEFAULTS)
            .include(identity)
            .include(memory)
            .include(knowledge.map(|it| it.order(KNOWLEDGE_ORDER)))
            .include(skills.map(|it| it.order(SKILLS_ORDER)))
            .include(workspace)
            .transform(bounded_results())
            .build_variant(None)
    }
}

impl From<Defaults> for Entry {
    fn from(defaults: Defaults) -> Self {
        defaults.build().into()
    }
}
