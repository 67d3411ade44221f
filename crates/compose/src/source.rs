//! Who contributed something.

use std::fmt;
use std::sync::Arc;

use serde::{Serialize, Serializer};

/// Who contributed a Segment, in the stable notation of explanations: `prompt`, `context:brand`,
/// `context[2]`, `contributor:weather`, `adaptation:openai`, `history:t7`, `user`, …
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Source(Arc<str>);

impl Source {
    /// The prompt's own definition.
    pub fn prompt() -> Self {
        Self::literal("prompt")
    }

    /// This turn's user message.
    pub fn user() -> Self {
        Self::literal("user")
    }

    /// What has happened in the running turn.
    pub fn in_flight() -> Self {
        Self::literal("in_flight")
    }

    /// The thread's standing instructions.
    pub fn instructions() -> Self {
        Self::literal("instructions")
    }

    /// What the call site added.
    pub fn call_site() -> Self {
        Self::literal("call")
    }

    /// Something of a kind, with an id: `context:brand`.
    pub fn named(kind: &str, id: &str) -> Self {
        Self(format!("{kind}:{id}").into())
    }

    /// Something of a kind without an id, by its place in the author's array: `context[2]`.
    pub fn at(kind: &str, position: usize) -> Self {
        Self(format!("{kind}[{position}]").into())
    }

    /// Whatever a caller calls it, in this notation.
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
