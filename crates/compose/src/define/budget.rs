//! Token limits and cache layout of a prompt.

use contexture_message::tokens::Correction;
use contexture_message::{Settings, Tokens};
use serde::{Deserialize, Serialize};

/// How many tokens a prompt may use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Budget {
    /// Limits the composed system text: the prompt's own text, contexts, the tag block and separators.
    pub token_budget: Option<Tokens>,
    /// Limits the whole request. Defaults to the model's window minus the output reserve and a margin.
    pub input_budget: Option<Tokens>,
    /// Whether lower-priority entries that still fit may use the room that dropped entries leave.
    pub fill: bool,
}

/// How a prompt is laid out for provider caches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CacheConfig {
    /// The order of the pieces in the system message.
    pub arrange: Arrangement,
}

/// The order of the pieces in the system message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Arrangement {
    /// The prompt's own text, then entries declared `cached`, then the rest, each in the author's order.
    #[default]
    Author,
    /// By volatility: the most stable pieces come first.
    CacheFirst,
}

/// The token limits of a model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ModelLimits {
    /// The number of tokens that fit into one request together with its answer.
    pub context_window: Option<Tokens>,
    /// Tokens reserved for the answer if the settings do not specify a limit.
    pub output_reserve: Option<Tokens>,
    /// Whether the window is a guess because the model is unknown. The Explanation reports it.
    pub window_assumed: bool,
    /// How the provider's reported counts differ from ours.
    pub correction: Correction,
    /// The provider has refused requests that we count at more than this.
    pub most: Option<Tokens>,
}

impl ModelLimits {
    /// Returns how many tokens a request may have by our count, or `None` if the window is unknown.
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
