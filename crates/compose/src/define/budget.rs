//! Limits and cache wishes of a prompt.

use contexture_message::Tokens;
use serde::{Deserialize, Serialize};

/// How many tokens a prompt may use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Budget {
    /// Bounds the composed system text: own text, contexts, tag block, separators.
    pub token_budget: Option<Tokens>,
    /// Bounds the whole request. By default the model's window less the output reserve and margin.
    pub input_budget: Option<Tokens>,
    /// Room that drops leave may be used by lower priorities that fit.
    pub fill: bool,
}

/// How a prompt wants to be laid out for provider caches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CacheConfig {
    /// The order of the system message.
    pub arrange: Arrangement,
}

/// The order of the system message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Arrangement {
    /// Own text, then what is declared `cached`, then the rest, each in the author's order.
    #[default]
    Author,
    /// By volatility: what changes least comes first.
    CacheFirst,
}

/// What a model can take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ModelLimits {
    /// Tokens that fit into one request together with its answer.
    pub context_window: Option<Tokens>,
    /// Tokens kept free for the answer if the settings do not say.
    pub output_reserve: Option<Tokens>,
}
