//! Dialects, and the targets of requests.

use serde::{Deserialize, Serialize};

use crate::ModelFacts;

/// The API format of a provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Dialect {
    /// OpenAI Chat Completions and compatible servers.
    Openai,
    /// OpenAI Responses.
    OpenaiResponses,
    /// Anthropic Messages.
    Anthropic,
    /// Google Gemini's generateContent.
    Gemini,
}

impl Dialect {
    /// All supported dialects.
    pub const ALL: [Dialect; 4] =
        [Dialect::Openai, Dialect::OpenaiResponses, Dialect::Anthropic, Dialect::Gemini];

    /// Returns the dialect's name: `openai`, `openai-responses`, `anthropic`, `gemini`.
    pub fn as_str(self) -> &'static str {
        match self {
            Dialect::Openai => "openai",
            Dialect::OpenaiResponses => "openai-responses",
            Dialect::Anthropic => "anthropic",
            Dialect::Gemini => "gemini",
        }
    }

    /// Returns the dialect with that name, if there is one.
    pub fn parse(name: &str) -> Option<Dialect> {
        Dialect::ALL.into_iter().find(|it| it.as_str() == name)
    }

    /// Returns the default base URL: that of the provider that defined the dialect.
    pub fn base_url(self) -> &'static str {
        match self {
            Dialect::Openai | Dialect::OpenaiResponses => "https://api.openai.com/v1",
            Dialect::Anthropic => "https://api.anthropic.com/v1",
            Dialect::Gemini => "https://generativelanguage.googleapis.com/v1beta",
        }
    }
}

/// The provider and model that a request is sent to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Target {
    /// The API format of the provider.
    pub dialect: Dialect,
    /// The provider's name in the configuration. Thinking is only sent back to the provider that produced it.
    pub provider: String,
    /// The provider's name for the model, without a provider prefix.
    pub model: String,
    /// The known facts about the model.
    pub facts: ModelFacts,
    /// Whether the answer is streamed.
    pub stream: bool,
    /// Routes requests with the same key to the same cache: OpenAI's `prompt_cache_key`.
    pub cache_key: Option<String>,
}

impl Target {
    /// Returns a target without streaming, cache key or known facts about the model.
    pub fn new(dialect: Dialect, provider: impl Into<String>, model: impl Into<String>) -> Self {
        Self {
            dialect,
            provider: provider.into(),
            model: model.into(),
            facts: ModelFacts::default(),
            stream: false,
            cache_key: None,
        }
    }

    /// Returns the request path relative to the base URL, including the query.
    pub fn path(&self) -> String {
        match self.dialect {
            Dialect::Openai => "/chat/completions".to_owned(),
            Dialect::OpenaiResponses => "/responses".to_owned(),
            Dialect::Anthropic => "/messages".to_owned(),
            Dialect::Gemini if self.stream => format!("/models/{}:streamGenerateContent?alt=sse", self.model),
            Dialect::Gemini => format!("/models/{}:generateContent", self.model),
        }
    }
}
