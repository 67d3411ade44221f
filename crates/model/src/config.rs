//! What a client is built from: who can be called, and how long, how often and how much.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use contexture_wire::{Catalogue, Dialect};
use reqwest::Proxy;

use crate::Secret;
use crate::address;

/// What a [`Client`](crate::Client) is built from. Nothing is read from the environment.
#[derive(Clone, Debug)]
pub struct ClientConfig {
    /// Who can be called, by the name in front of the model's: `openai` in `openai/gpt-5-mini`.
    pub providers: BTreeMap<String, ModelProvider>,
    /// What is known of models.
    pub catalogue: Catalogue,
    /// How long to wait.
    pub timeouts: Timeouts,
    /// How often to try again.
    pub retries: Retries,
    /// How much to read.
    pub limits: Limits,
    /// Ways through which requests go; the first one that takes a request wins. None: straight to the provider.
    pub proxies: Vec<Proxy>,
    /// A PEM file of certificates to trust besides the system's.
    pub root_certificates: Option<PathBuf>,
    /// Whether spans carry what is said. Off by default: a trace is read by more people than a conversation.
    pub record_content: bool,
}

impl Default for ClientConfig {
    /// No providers, and the standard catalogue: what a model refuses is not sent to it.
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

/// One provider.
#[derive(Clone)]
pub struct ModelProvider {
    /// How it is spoken to.
    pub dialect: Dialect,
    /// Where it is; without one, where the owner of the dialect is.
    pub base_url: Option<String>,
    /// The key; without one no key is sent.
    pub api_key: Option<Secret>,
    /// Whether calls without a key are refused before anything is sent. The owners of the dialects are never called
    /// without a key, or a header in its place.
    pub needs_key: bool,
    /// Further headers. They replace our own of the same name.
    pub headers: BTreeMap<String, Secret>,
}

impl fmt::Debug for ModelProvider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { dialect, base_url, api_key, needs_key, headers } = self;
        let base_url = base_url.as_deref().map(address::without_password);
        let mut shown = f.debug_struct("ModelProvider");
        shown.field("dialect", dialect).field("base_url", &base_url);
        shown.field("api_key", api_key).field("needs_key", needs_key).field("headers", headers).finish()
    }
}

impl ModelProvider {
    /// Returns the owner of the dialect, without a key.
    pub fn new(dialect: Dialect) -> Self {
        Self { dialect, base_url: None, api_key: None, needs_key: false, headers: BTreeMap::new() }
    }

    /// Sets where it is.
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

/// How long to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// For a connection.
    pub connect: Duration,
    /// From sending the request to the first byte of the body, and from one byte to the next until the answer itself
    /// begins: while the model thinks, some providers say nothing.
    pub first_byte: Duration,
    /// From one piece of the body to the next, once the answer has begun.
    pub idle: Duration,
    /// For the whole call, retries and the waits between them included.
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

/// How often to try again, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retries {
    /// How often at most, after the first attempt.
    pub max: u32,
    /// The wait before the first retry; it doubles with each one.
    pub base: Duration,
    /// The longest such wait.
    pub longest: Duration,
    /// The longest wait that a provider may ask for; if it asks for more, its error is returned at once.
    pub longest_asked: Duration,
    /// Where the jitter of the waits begins. Give each process its own, so that they do not come back all at once.
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

/// How much to read, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Of one answer.
    pub answer: usize,
    /// Of one event in a stream.
    pub frame: usize,
    /// Of an error's body; what is beyond is left unread.
    pub error: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { answer: 64 << 20, frame: 16 << 20, error: 64 << 10 }
    }
}

/// A client that can't be built.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// An address that is none.
    #[error("provider `{provider}`: `{url}` is not the address of an HTTP server: {reason}")]
    BaseUrl {
        /// The provider's name.
        provider: String,
        /// What it says, without a password.
        url: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A header that can't be sent.
    #[error("provider `{provider}`: the header `{header}` has characters that can't be sent")]
    Header {
        /// The provider's name.
        provider: String,
        /// The header's name.
        header: String,
    },
    /// Certificates that can't be read.
    #[error("certificates in `{path}`: {reason}", path = path.display())]
    Certificates {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// Something else that the HTTP client does not take.
    #[error("the HTTP client: {0}")]
    Http(String),
}
