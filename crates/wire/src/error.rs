//! What providers say when they refuse, and documents that can't be read.

mod classify;

pub use classify::{classify, failure};

/// A document that is not what its dialect says it should be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{at}: {reason}")]
pub struct DecodeError {
    /// The place, such as `messages[3].content[1].type`.
    pub at: String,
    /// What is wrong there.
    pub reason: String,
}

impl DecodeError {
    pub(crate) fn new(at: impl Into<String>, reason: impl Into<String>) -> Self {
        Self { at: at.into(), reason: reason.into() }
    }
}

/// What kind of refusal it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProviderErrorKind {
    /// The key is missing, wrong, or may not do this.
    Auth,
    /// Too many requests or tokens, or no credit left.
    RateLimited,
    /// The request is larger than the model's window.
    PromptTooLong,
    /// The provider refused the content.
    Refused,
    /// The provider has too much to do, or broke; trying again may help.
    Overloaded,
    /// There is no such model or address.
    NotFound,
    /// The provider says that the request is wrong.
    Invalid,
}

/// A provider's own error.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ProviderError {
    /// What kind of refusal it was.
    pub kind: ProviderErrorKind,
    /// The provider's code or type, where it gave one.
    pub code: Option<String>,
    /// The provider's words.
    pub message: String,
}

/// Returns the beginning of a text that may be long.
pub(crate) fn shortened(text: &str, n_chars: usize) -> String {
    match text.char_indices().nth(n_chars) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
