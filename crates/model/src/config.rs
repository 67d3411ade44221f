//! The configuration of a client: providers, timeouts, retries and size limits.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use contexture_wire::{Catalogue, Dialect};
use reqwest::Proxy;

use crate::Secret;
use crate::secret::without_password;

/// The configuration of a [`Client`](crate::Client). Nothing is read from the environment.
#[derive(Clone, Debug)]
pub struct ClientConfig {
    /// The providers, by the prefix of the model's name: `openai` in `openai/gpt-5-mini`.
    pub providers: BTreeMap<String, ModelProvider>,
    /// The known properties of models.
    pub catalogue: Catalogue,
    /// How long to wait.
    pub timeouts: Timeouts,
    /// How often to try again.
    pub retries: Retries,
    /// How much to read.
    pub limits: Limits,
    /// Proxies for requests; the first one that accepts a request is used. If empty, requests go directly to the
    /// provider.
    pub proxies: Vec<Proxy>,
    /// A PEM file of certificates to trust in addition to the system's.
    pub root_certificates: Option<PathBuf>,
    /// Whether spans record the conversation. Off by default: traces have more readers than conversations.
    pub record_content: bool,
}

impl Default for ClientConfig {
    /// No providers, and the standard catalogue: settings that a model rejects are not sent to it.
    fn default() -> Self {
        Self {
            providers: BTreeMap::new(),
            catalogue: Catalogue::standard(),
            timeouts: Timeouts::default(),
            retries: Retries::default(),
            limits: Limits::default(),
            proxies: Vec::new(),
            root_certificates: None,
            record_content: false,
        }
    }
}

/// The configuration of one provider.
#[derive(Clone)]
pub struct ModelProvider {
    /// The API dialect.
    pub dialect: Dialect,
    /// The base URL; without one, that of the dialect's owner.
    pub base_url: Option<String>,
    /// The key; without one, no key is sent.
    pub api_key: Option<Secret>,
    /// Whether calls without a key are rejected before anything is sent. The owners of the dialects are never called
    /// without a key, or a header in its place.
    pub needs_key: bool,
    /// Extra headers. They replace our own headers of the same name.
    pub headers: BTreeMap<String, Secret>,
}

impl fmt::Debug for ModelProvider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { dialect, base_url, api_key, needs_key, headers } = self;
        let base_url = base_url.as_deref().map(without_password);
        let mut shown = f.debug_struct("ModelProvider");
        shown.field("dialect", dialect).field("base_url", &base_url);
        shown.field("api_key", api_key).field("needs_key", needs_key).field("headers", headers).finish()
    }
}

impl ModelProvider {
    /// Returns the provider that owns the dialect, without a key.
    pub fn new(dialect: Dialect) -> Self {
        Self { dialect, base_url: None, api_key: None, needs_key: false, headers: BTreeMap::new() }
    }

    /// Sets the base URL.
    #[must_use]
    pub fn at(mut self, base_url: impl Into<String>) -> Self {
        self.base_url = Some(base_url.into());
        self
    }

    /// Sets the key.
    #[must_use]
    pub fn with_key(mut self, key: impl Into<Secret>) -> Self {
        self.api_key = Some(key.into());
        self
    }

    /// Adds a header.
    #[must_use]
    pub fn with_header(mut self, name: impl Into<String>, value: impl Into<Secret>) -> Self {
        self.headers.insert(name.into(), value.into());
        self
    }
}

/// The timeouts of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// The timeout for connecting.
    pub connect: Duration,
    /// The timeout from sending the request to the first byte of the body, and between bytes until the answer itself
    /// begins: some providers send nothing while the model thinks.
    pub first_byte: Duration,
    /// The timeout between pieces of the body, once the answer has begun.
    pub idle: Duration,
    /// The timeout for the whole call, including retries and the waits between them.
    pub total: Option<Duration>,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(10),
            first_byte: Duration::from_secs(120),
            idle: Duration::from_secs(60),
            total: None,
        }
    }
}

/// How often and when to retry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retries {
    /// The maximum number of retries after the first attempt.
    pub max: u32,
    /// The wait before the first retry; it doubles with each one.
    pub base: Duration,
    /// The maximum of that wait.
    pub longest: Duration,
    /// The longest wait that a provider may request; if it requests more, its error is returned immediately.
    pub longest_asked: Duration,
    /// The seed for the jitter of the waits. Use a different one for each process, so that they do not retry all at
    /// once.
    pub seed: u64,
}

impl Default for Retries {
    fn default() -> Self {
        Self {
            max: 3,
            base: Duration::from_millis(500),
            longest: Duration::from_secs(30),
            longest_asked: Duration::from_secs(60),
            seed: 0,
        }
    }
}

/// Limits on what is read, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The maximum size of one answer.
    pub answer: usize,
    /// The maximum size of one event in a stream.
    pub frame: usize,
    /// The maximum size of an error's body; the rest is not read.
    pub error: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { answer: 64 << 20, frame: 16 << 20, error: 64 << 10 }
    }
}

/// An error in building a client.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// The base URL is invalid.
    #[error("provider `{provider}`: `{url}` is not the address of an HTTP server: {reason}")]
    BaseUrl {
        /// The provider's name.
        provider: String,
        /// The URL, without a password.
        url: String,
        /// Why it is invalid.
        reason: String,
    },
    /// The header cannot be sent.
    #[error("provider `{provider}`: the header `{header}` has characters that can't be sent")]
    Header {
        /// The provider's name.
        provider: String,
        /// The header's name.
        header: String,
    },
    /// The certificates cannot be read.
    #[error("certificates in `{path}`: {reason}", path = path.display())]
    Certificates {
        /// The path of the file.
        path: PathBuf,
        /// Why they cannot be read.
        reason: String,
    },
    /// Any other error of the HTTP client.
    #[error("the HTTP client: {0}")]
    Http(String),
}
