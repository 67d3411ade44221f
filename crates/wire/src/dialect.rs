//! Who is spoken to, and how.

use serde::{Deserialize, Serialize};

use crate::ModelFacts;

/// How a provider is spoken to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Dialect {
    /// OpenAI Chat Completions, and whoever speaks like it.
    Openai,
    /// OpenAI Responses.
    OpenaiResponses,
    /// Anthropic Messages.
    Anthropic,
    /// Google Gemini's generateContent.
    Gemini,
}

impl Dialect {
    /// All dialects.
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

    /// Returns the address of the provider whose dialect it is.
    pub fn base_url(self) -> &'static str {
        match self {
            Dialect::Openai | Dialect::OpenaiResponses => "https://api.openai.com/v1",
            Dialect::Anthropic => "https://api.anthropic.com/v1",
            Dialect::Gemini => "https://generativelanguage.googleapis.com/v1beta",
        }
    }
}

/// Who a request is for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Target {
    /// How the provider is spoken to.
    pub dialect: Dialect,
    /// The provider's name in the configuration; thinking goes back to the provider that made it, and to no other.
    pub provider: String,
    /// The model as the provider names it, without the provider in front.
    pub model: String,
    /// What is known of the model.
    pub facts: ModelFacts,
    /// Whether the answer is streamed.
    pub stream: bool,
    /// Requests with the same key should meet the same cache: OpenAI's `prompt_cache_key`.
    pub cache_key: Option<String>,
}

impl Target {
    /// Returns a target with nothing known of the model.
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

    /// Returns the path below the base address that takes the request, with its query.
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
