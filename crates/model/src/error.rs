//! Errors of model calls.

use std::time::Duration;

use contexture_message::{ErrorCode, Message};

/// Why a model did not answer.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelError {
    // Boxed because errors are rare but part of every return type.
    inner: Box<Inner>,
}

#[derive(Clone, Debug, PartialEq)]
struct Inner {
    kind: ModelErrorKind,
    message: String,
    model: Option<String>,
    status: Option<u16>,
    code: Option<String>,
    retry_after: Option<Duration>,
    partial: Option<Message>,
}

/// The kind of a [`ModelError`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ModelErrorKind {
    /// The provider requires a key and none is configured; nothing was sent.
    KeyMissing,
    /// The provider reports that the key is missing, invalid, or lacks permission.
    Auth,
    /// There were too many requests or tokens.
    RateLimited,
    /// The request is larger than the model's window.
    PromptTooLong,
    /// The provider refused the content.
    Refused,
    /// The provider is overloaded or failed.
    Overloaded,
    /// There is no such provider, model or address.
    NotFound,
    /// The server responds, but not as a model API: the path of the URL is wrong.
    Address,
    /// The provider reports that the request is invalid.
    Invalid,
    /// No data arrived in time.
    TimedOut,
    /// The connection failed or was lost.
    Disconnected,
    /// The answer cannot be understood.
    Malformed,
    /// The answer is larger than allowed.
    TooLarge,
}

impl ModelErrorKind {
    /// Returns the stable code: `model_auth`, `prompt_too_long`, …
    pub fn code(self) -> ErrorCode {
        match self {
            ModelErrorKind::KeyMissing => ErrorCode::ModelKeyMissing,
            ModelErrorKind::Auth => ErrorCode::ModelAuth,
            ModelErrorKind::RateLimited => ErrorCode::ModelRateLimited,
            ModelErrorKind::PromptTooLong => ErrorCode::PromptTooLong,
            ModelErrorKind::Refused => ErrorCode::ModelRefused,
            ModelErrorKind::Overloaded => ErrorCode::ModelOverloaded,
            ModelErrorKind::NotFound => ErrorCode::ModelNotFound,
            ModelErrorKind::Address => ErrorCode::ModelAddressWrong,
            ModelErrorKind::Invalid => ErrorCode::ModelError,
            ModelErrorKind::TimedOut => ErrorCode::ModelTimedOut,
            ModelErrorKind::Disconnected => ErrorCode::ModelUnreachable,
            ModelErrorKind::Malformed => ErrorCode::ModelMalformed,
            ModelErrorKind::TooLarge => ErrorCode::ModelAnswerTooLarge,
        }
    }
}

impl ModelError {
    /// Returns an error with only its kind and message.
    pub fn new(kind: ModelErrorKind, message: impl Into<String>) -> Self {
        let inner = Inner {
            kind,
            message: message.into(),
            model: None,
            status: None,
            code: None,
            retry_after: None,
            partial: None,
        };
        Self { inner: Box::new(inner) }
    }

    /// Sets the model that was called, as `provider/model`.
    #[must_use]
    pub fn of_model(mut self, model: impl Into<String>) -> Self {
        self.inner.model = Some(model.into());
        self
    }

    /// Adds the HTTP status.
    #[must_use]
    pub fn with_status(mut self, status: u16) -> Self {
        self.inner.status = Some(status);
        self
    }

    /// Adds the provider's own code.
    #[must_use]
    pub fn with_code(mut self, code: Option<String>) -> Self {
        self.inner.code = code;
        self
    }

    /// Adds how long the provider asks to wait before a retry.
    #[must_use]
    pub fn with_retry_after(mut self, after: Option<Duration>) -> Self {
        self.inner.retry_after = after;
        self
    }

    /// Adds what had arrived before the error.
    #[must_use]
    pub fn with_partial(mut self, partial: Message) -> Self {
        self.inner.partial = Some(partial).filter(|it| !it.content.is_empty());
        self
    }

    /// Changes the message, for example to mask a key.
    pub(crate) fn map_words(mut self, change: impl Fn(String) -> String) -> Self {
        self.inner.message = change(self.inner.message);
        self.inner.code = self.inner.code.map(change);
        self
    }

    /// Returns the kind of the error.
    pub fn kind(&self) -> ModelErrorKind {
        self.inner.kind
    }

    /// Returns the model that was called.
    pub fn model(&self) -> Option<&str> {
        self.inner.model.as_deref()
    }

    /// Returns the HTTP status, if there was one.
    pub fn status(&self) -> Option<u16> {
        self.inner.status
    }

    /// Returns the provider's own code, if it gave one.
    pub fn provider_code(&self) -> Option<&str> {
        self.inner.code.as_deref()
    }

    /// Returns how long the provider asks to wait before a retry, if it does.
    pub fn retry_after(&self) -> Option<Duration> {
        self.inner.retry_after
    }

    /// Returns what had arrived before the error: text, signed thinking and whole tool calls.
    pub fn partial(&self) -> Option<&Message> {
        self.inner.partial.as_ref()
    }
}

impl std::fmt::Display for ModelError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Inner { message, model, status, .. } = &*self.inner;
        match model {
            Some(model) => write!(f, "model `{model}`: {message}")?,
            None => f.write_str(message)?,
        }
        match status {
            Some(status) => write!(f, " (status {status})"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for ModelError {}
