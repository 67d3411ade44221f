//! Provider errors, and documents that cannot be decoded.

mod classify;

pub use classify::{classify, failure};

/// A document that does not conform to its dialect.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{at}: {reason}")]
pub struct DecodeError {
    /// The path of the value, such as `messages[3].content[1].type`.
    pub at: String,
    /// The problem with that value.
    pub reason: String,
}

impl DecodeError {
    pub(crate) fn new(at: impl Into<String>, reason: impl Into<String>) -> Self {
        Self { at: at.into(), reason: reason.into() }
    }
}

/// The kind of a provider's error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProviderErrorKind {
    /// The API key is missing, wrong or lacks permission.
    Auth,
    /// Too many requests or tokens, or no credit left.
    RateLimited,
    /// The request exceeds the model's context window.
    PromptTooLong,
    /// The provider refused the content.
    Refused,
    /// The provider is overloaded or failed; a retry may succeed.
    Overloaded,
    /// The model or the address does not exist.
    NotFound,
    /// The provider rejected the request as invalid.
    Invalid,
}

/// An error reported by a provider.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ProviderError {
    /// The kind of the error.
    pub kind: ProviderErrorKind,
    /// The provider's error code or type, if it sent one.
    pub code: Option<String>,
    /// The provider's error message.
    pub message: String,
}

/// Truncates a text to `n_chars` characters, with an ellipsis if it is longer.
pub(crate) fn shortened(text: &str, n_chars: usize) -> String {
    match text.char_indices().nth(n_chars) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
