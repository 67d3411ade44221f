//! Limits and cache wishes of a prompt.

use contexture_message::tokens::Correction;
use contexture_message::{Settings, Tokens};
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
    /// Whether the window is a guess: nothing is known of the model. The Explanation says so.
    pub window_assumed: bool,
    /// How the provider's reports differ from our counts.
    pub correction: Correction,
    /// Requests that we count at more than this were refused.
    pub most: Option<Tokens>,
}

impl ModelLimits {
    /// Returns how many tokens a request may have by our count, if anything is known of the window.
    ///
    /// ```
    /// use contexture_compose::ModelLimits;
    /// use contexture_message::{Settings, Tokens};
    ///
    /// let limits = ModelLimits { context_window: Some(Tokens(8_000)), ..ModelLimits::default() };
    /// let settings = Settings { max_tokens: Some(1_000), ..Settings::default() };
    /// assert_eq!(limits.input_tokens(&settings), Some(Tokens(7_000)));
    /// let refused = ModelLimits { most: Some(Tokens(5_000)), ..limits };
    /// assert_eq!(refused.input_tokens(&settings), Some(Tokens(5_000)));
    /// ```
    pub fn input_tokens(&self, settings: &Settings) -> Option<Tokens> {
        let reserve =
            settings.output_tokens(self.output_reserve.map(|it| it.0)).map(Tokens).unwrap_or_default();
        let window = self.context_window.map(|it| self.correction.undo(it.saturating_sub(reserve)));
        window.into_iter().chain(self.most).min()
    }
}
