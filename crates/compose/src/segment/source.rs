//! The source of a contribution.

use std::fmt;
use std::sync::Arc;

use serde::{Serialize, Serializer};

/// The contributor of a Segment, in the stable notation of explanations: `prompt`, `context:brand`, `context[2]`,
/// `contributor:weather`, `adaptation:openai`, `history:t7`, `user`, …
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Source(Arc<str>);

impl Source {
    /// Returns the source of the prompt's own definition.
    pub fn prompt() -> Self {
        Self::literal("prompt")
    }

    /// Returns the source of this turn's user message.
    pub fn user() -> Self {
        Self::literal("user")
    }

    /// Returns the source of the messages of the running turn.
    pub fn in_flight() -> Self {
        Self::literal("in_flight")
    }

    /// Returns the source of the thread's standing instructions.
    pub fn instructions() -> Self {
        Self::literal("instructions")
    }

    /// Returns the source of what the call site added.
    pub fn call_site() -> Self {
        Self::literal("call")
    }

    /// Returns the source of an entry with an id: `context:brand`.
    pub fn named(kind: &str, id: &str) -> Self {
        Self(format!("{kind}:{id}").into())
    }

    /// Returns the source of an entry without an id, by its position in the author's array: `context[2]`.
    pub fn at(kind: &str, position: usize) -> Self {
        Self(format!("{kind}[{position}]").into())
    }

    /// Returns a source with the notation that a caller passed in.
    pub(crate) fn told(notation: &str) -> Self {
        Self(notation.into())
    }

    /// Returns the notation.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    fn literal(text: &'static str) -> Self {
        Self(text.into())
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Serialize for Source {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}
