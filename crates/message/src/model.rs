//! What is known of a model besides how it is spoken to: how its provider caches, and what tokens cost.

use serde::{Deserialize, Serialize};

use crate::{Tokens, Usage};

/// How a provider caches prompts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CacheRules {
    /// How many breakpoints may be set; none where the provider finds prefixes by itself.
    pub max_breakpoints: usize,
    /// The shortest prefix that is cached.
    pub min_tokens: Tokens,
    /// How long a prefix lives without being read, in seconds; 0 if nothing is cached.
    pub lifetime_s: u64,
}

/// What a million tokens cost, in any one currency.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Price {
    /// Read by the model.
    pub input: Option<f64>,
    /// Written by the model.
    pub output: Option<f64>,
    /// Read from the provider's cache.
    pub cache_read: Option<f64>,
    /// Written to the provider's cache.
    pub cache_write: Option<f64>,
}

impl Price {
    /// Returns what a call cost, or nothing if a price that it needs is not known. Cached tokens without a price of
    /// their own cost what others do.
    pub fn of(&self, usage: Usage) -> Option<f64> {
        let plain = usage.input_tokens.saturating_sub(usage.cached());
        let share = |tokens: u64, price: Option<f64>| match tokens {
            0 => Some(0.0),
            _ => price.map(|it| tokens as f64 * it / 1e6),
        };
        let read = share(usage.cache_read_tokens.unwrap_or_default(), self.cache_read.or(self.input))?;
        let written = share(usage.cache_write_tokens.unwrap_or_default(), self.cache_write.or(self.input))?;
        Some(share(plain, self.input)? + read + written + share(usage.output_tokens, self.output)?)
    }
}
