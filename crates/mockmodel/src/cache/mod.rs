//! Simulates the prompt cache of a provider.
//!
//! The input is request bodies, as JSON of a dialect, each with its time of arrival; the output is how much of each was
//! read from the cache, written to it, or neither. The rules are those that OpenAI (`openai.rs`) and Anthropic
//! (`anthropic.rs`) publish; each is named where it is applied.
//!
//! [`pieces`] takes a body apart into what a cache compares, [`prefixes`] remembers which prefixes are alive. Time is
//! handed in, and equal requests at equal times give equal numbers.
//!
//! What is not simulated: other users of the same cache, routing by `prompt_cache_key`, entries that are evicted before
//! their time, and what media cost.

mod anthropic;
mod openai;
mod pieces;
mod prefixes;

use std::sync::Arc;
use std::time::Duration;

use contexture_message::{TokenCounter, Usage};
use serde_json::Value;

pub use anthropic::AnthropicRules;
pub use openai::OpenaiRules;

use pieces::{Known, Piece};
use prefixes::Prefixes;

/// Whose rules hold, and with which numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheRules {
    /// Prefixes are found without marks. For bodies of Chat Completions and of Responses.
    Openai(OpenaiRules),
    /// Prefixes are marked. For bodies of the Messages API.
    Anthropic(AnthropicRules),
}

/// How the input of one request was billed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheUsage {
    /// Neither read from the cache nor written to it.
    pub input_tokens: u64,
    /// Read from the cache.
    pub cache_read_tokens: u64,
    /// Written to the cache, where that is billed.
    pub cache_write_tokens: u64,
}

impl CacheUsage {
    /// Returns the whole input.
    pub fn total(&self) -> u64 {
        self.input_tokens + self.cache_read_tokens + self.cache_write_tokens
    }

    /// Returns the usage that an answer of so many tokens reports.
    pub fn with_output(&self, output_tokens: u64) -> Usage {
        Usage {
            input_tokens: self.total(),
            cache_read_tokens: Some(self.cache_read_tokens),
            cache_write_tokens: Some(self.cache_write_tokens),
            output_tokens,
            reasoning_tokens: 0,
        }
    }
}

/// A request that the provider refuses because of its marks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CacheRefused {
    /// There are more marks than it takes.
    TooManyMarks {
        /// How many there are.
        marks: usize,
        /// How many it takes.
        limit: usize,
    },
    /// A mark with a lifetime of an hour follows one with a lifetime of minutes.
    LongBehindShort,
}

impl std::fmt::Display for CacheRefused {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            CacheRefused::TooManyMarks { marks, limit } => {
                write!(f, "the request has {marks} cache marks, the limit is {limit}")
            }
            CacheRefused::LongBehindShort => {
                write!(f, "a cache mark of an hour follows one of minutes")
            }
        }
    }
}

impl std::error::Error for CacheRefused {}

/// The cache of one provider, as one customer sees it.
///
/// ```
/// use std::sync::Arc;
/// use std::time::Duration;
/// use contexture_message::Encoding;
/// use contexture_mockmodel::cache::{CacheRules, OpenaiRules, PromptCache};
/// use serde_json::json;
///
/// let mut cache = PromptCache::new(CacheRules::Openai(OpenaiRules::default()), Arc::new(Encoding::O200kBase));
/// let body = json!({"model": "m", "messages": [{"role": "user", "content": "words ".repeat(2000)}]});
/// let first = cache.request(&body, Duration::ZERO).unwrap();
/// let again = cache.request(&body, Duration::from_secs(60)).unwrap();
/// assert_eq!(first.cache_read_tokens, 0);
/// assert_eq!(again.cache_read_tokens, again.total() / 128 * 128);
/// ```
#[derive(Debug)]
pub struct PromptCache {
    rules: CacheRules,
    known: Known,
    prefixes: Prefixes,
}

impl PromptCache {
    /// Returns an empty cache. The counter should be the model's.
    pub fn new(rules: CacheRules, counter: Arc<dyn TokenCounter>) -> Self {
        Self { rules, known: Known::new(counter), prefixes: Prefixes::default() }
    }

    /// Takes a request that arrives at `now`, counted from any beginning; later requests come at later times.
    pub fn request(&mut self, body: &Value, now: Duration) -> Result<CacheUsage, CacheRefused> {
        match self.rules {
            CacheRules::Openai(rules) => Ok(openai::request(self, &rules, body, now)),
            CacheRules::Anthropic(rules) => anthropic::request(self, &rules, body, now),
        }
    }

    /// Returns where the prefixes of the request's model begin: models share nothing.
    fn root(&mut self, body: &Value) -> usize {
        let model = body.get("model").and_then(Value::as_str).unwrap_or_default();
        let piece = Piece::named(format!("model {model}"));
        let model = self.known.number(&piece);
        self.prefixes.next(Prefixes::ROOT, model)
    }
}

#[cfg(test)]
mod tests;
