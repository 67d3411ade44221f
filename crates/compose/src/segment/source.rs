//! The source of a contribution.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

use serde::{Serialize, Serializer};

/// The contributor of a Segment. Explanations and errors show it in a stable notation, see the variants.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub enum Source {
    /// The prompt's own definition: `prompt`.
    Prompt,
    /// The schema of the prompt's answer: `prompt:output`.
    Output,
    /// This turn's user message: `user`.
    User,
    /// The messages of the running turn: `in_flight`.
    InFlight,
    /// The thread's standing instructions: `instructions`.
    Instructions,
    /// What the call site added: `call`.
    CallSite,
    /// The tag block, which several entries share: `tags:block`.
    TagBlock,
    /// A context with an id: `context:brand`.
    Context(Arc<str>),
    /// A prompt block: `block:page`.
    Block(Arc<str>),
    /// A context provider: `provider:tickets`.
    Provider(Arc<str>),
    /// An injectable: `injectable:weather`.
    Injectable(Arc<str>),
    /// A contributor: `contributor:weather`.
    Contributor(Arc<str>),
    /// A capability: `capability:research`.
    Capability(Arc<str>),
    /// An adaptation, by its key: `adaptation:openai`.
    Adaptation(Arc<str>),
    /// A transform: `transform:redact`.
    Transform(Arc<str>),
    /// A turn of the history: `history:t7`.
    History(Arc<str>),
    /// A chunk of a knowledge base: `knowledge:handbook#12`. Answers cite it as `[handbook:12]`.
    Knowledge {
        /// The name of the base.
        base: Arc<str>,
        /// The id of the chunk in its base.
        chunk: Arc<str>,
    },
    /// A skill: `skill:refunds`.
    Skill(Arc<str>),
    /// An entry without an id, by its position in the author's array: `context[2]`.
    At {
        /// The kind of entry.
        kind: EntryKind,
        /// The position in the author's array, empty entries counted.
        position: usize,
    },
    /// A notation that the caller passed in or that was stored. It is shown as it is and never read back.
    Noted(Arc<str>),
}

/// The kind of an entry that may have no id.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum EntryKind {
    /// A context.
    Context,
    /// Entries under a condition.
    When,
    /// A choice between branches.
    Match,
    /// An empty entry.
    Use,
}

impl EntryKind {
    fn as_str(self) -> &'static str {
        match self {
            EntryKind::Context => "context",
            EntryKind::When => "when",
            EntryKind::Match => "match",
            EntryKind::Use => "use",
        }
    }
}

impl Source {
    /// Returns the id of an entry that has one.
    pub(crate) fn entry_id(&self) -> Option<&Arc<str>> {
        match self {
            Source::Context(id)
            | Source::Block(id)
            | Source::Provider(id)
            | Source::Injectable(id)
            | Source::Contributor(id)
            | Source::Capability(id) => Some(id),
            Source::Prompt
            | Source::Output
            | Source::User
            | Source::InFlight
            | Source::Instructions
            | Source::CallSite
            | Source::TagBlock
            | Source::Adaptation(_)
            | Source::Transform(_)
            | Source::History(_)
            | Source::Knowledge { .. }
            | Source::Skill(_)
            | Source::At { .. }
            | Source::Noted(_) => None,
        }
    }

    /// Returns whether it is part of the prompt's own system text.
    pub(crate) fn is_own(&self) -> bool {
        matches!(self, Source::Prompt | Source::Instructions | Source::Adaptation(_))
    }

    /// Returns the kind of source: `context` for `context:brand` and for `context[2]`.
    pub fn kind(&self) -> &str {
        match self {
            Source::Prompt | Source::Output => "prompt",
            Source::User => "user",
            Source::InFlight => "in_flight",
            Source::Instructions => "instructions",
            Source::CallSite => "call",
            Source::TagBlock => "tags",
            Source::Context(_) => "context",
            Source::Block(_) => "block",
            Source::Provider(_) => "provider",
            Source::Injectable(_) => "injectable",
            Source::Contributor(_) => "contributor",
            Source::Capability(_) => "capability",
            Source::Adaptation(_) => "adaptation",
            Source::Transform(_) => "transform",
            Source::History(_) => "history",
            Source::Knowledge { .. } => "knowledge",
            Source::Skill(_) => "skill",
            Source::At { kind, .. } => kind.as_str(),
            Source::Noted(notation) => notation.split([':', '[']).next().unwrap_or_default(),
        }
    }

    /// Returns the notation.
    pub(crate) fn notation(&self) -> Cow<'_, str> {
        let id: &str = match self {
            Source::Prompt | Source::User | Source::InFlight | Source::Instructions | Source::CallSite => {
                return self.kind().into();
            }
            Source::At { kind, position } => return format!("{}[{position}]", kind.as_str()).into(),
            Source::Knowledge { base, chunk } => return format!("knowledge:{base}#{chunk}").into(),
            Source::Noted(notation) => return (&**notation).into(),
            Source::Output => "output",
            Source::TagBlock => "block",
            Source::Context(id)
            | Source::Block(id)
            | Source::Provider(id)
            | Source::Injectable(id)
            | Source::Contributor(id)
            | Source::Capability(id)
            | Source::Adaptation(id)
            | Source::Transform(id)
            | Source::History(id)
            | Source::Skill(id) => id,
        };
        format!("{}:{id}", self.kind()).into()
    }
}

/// Sources are ordered by their notation.
impl Ord for Source {
    fn cmp(&self, other: &Self) -> Ordering {
        let is_noted = |it: &Self| matches!(it, Source::Noted(_));
        // A notation that was passed in may equal that of another source.
        self.notation().cmp(&other.notation()).then_with(|| is_noted(self).cmp(&is_noted(other)))
    }
}

impl PartialOrd for Source {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.notation())
    }
}

impl Serialize for Source {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.notation())
    }
}
