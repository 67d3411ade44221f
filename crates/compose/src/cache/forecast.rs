//! Forecasts of what a provider reads from its cache, and causes of misses.

use std::time::Duration;

use contexture_message::{CacheRules, Price, TokenCounter, Tokens, Usage};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::is_expired;
use super::sent::Sent;

/// What the provider should read from its cache, given what was sent before.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Forecast {
    /// Tokens that should be read from the cache.
    pub read_tokens: Tokens,
    /// Where the prefix differs from what was sent before, if it differs before the end of the latter.
    pub changed: Option<PrefixChange>,
    /// Whether the content of the earlier messages is no longer known and was assumed to be unchanged.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub assumed: bool,
    /// Whether the cache has not been read for longer than its lifetime.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub expired: bool,
    /// Whether the unchanged prefix is shorter than the minimum that the provider caches.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub below_minimum: bool,
}

/// The first difference between two prefixes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PrefixChange {
    /// The source of the first byte that differs, or `model`.
    pub source: String,
    /// Its position in the prefix: tools, system message, messages.
    pub byte: usize,
    /// The tokens sent before that cannot be read from the cache because of the change.
    pub lost_tokens: Tokens,
    /// The extra cost of reading these at the full price instead of the cached one, if prices are known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<f64>,
}

/// A forecast compared with what the provider reported.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Reconciliation {
    /// The tokens that were expected to be read from the cache.
    pub expected: Tokens,
    /// The tokens that the provider read from its cache.
    pub reported: Tokens,
    /// Whether the provider read clearly less than expected (by more than a tenth).
    pub broken: bool,
    /// The likely reason why not everything sent before was read from the cache, if so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<MissCause>,
}

/// Why a provider's cache was not read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum MissCause {
    /// The bytes of this source changed; `model` if the model changed.
    Changed(String),
    /// The cache was not read for longer than its lifetime.
    Expired,
    /// The prefix is shorter than the minimum that the provider caches.
    BelowMinimum,
    /// No known cause explains it.
    Unknown,
}

impl Forecast {
    /// Compares the forecast with what the provider reports it read.
    ///
    /// ```
    /// use contexture_compose::{Forecast, MissCause};
    /// use contexture_message::Tokens;
    ///
    /// let forecast = Forecast { read_tokens: Tokens(2_000), ..Forecast::default() };
    /// assert_eq!(forecast.reconcile(Tokens(1_990)).cause, None);
    /// let missed = forecast.reconcile(Tokens(0));
    /// assert!(missed.broken && missed.cause == Some(MissCause::Unknown));
    /// ```
    pub fn reconcile(&self, reported: Tokens) -> Reconciliation {
        let expected = self.read_tokens;
        let broken = u64::from(reported.0) * 10 < u64::from(expected.0) * 9;
        let is_missed = broken || reported == Tokens(0);
        let cause = match &self.changed {
            Some(change) => Some(MissCause::Changed(change.source.clone())),
            None if self.expired && is_missed => Some(MissCause::Expired),
            None if self.below_minimum && is_missed => Some(MissCause::BelowMinimum),
            None => broken.then_some(MissCause::Unknown),
        };
        Reconciliation { expected, reported, broken, cause }
    }
}

/// What a forecast depends on besides the two requests.
pub(crate) struct Outlook<'a> {
    pub(crate) rules: CacheRules,
    /// How long ago the last call was.
    pub(crate) idle: Option<Duration>,
    pub(crate) price: Option<Price>,
    pub(crate) counter: &'a dyn TokenCounter,
}

/// Forecasts how much of `now` the provider has already seen in `before`.
pub(crate) fn forecast(before: &Sent, now: &Sent, outlook: &Outlook<'_>) -> Forecast {
    if is_expired(outlook.rules, outlook.idle) {
        return Forecast { expired: true, ..Forecast::default() };
    }
    let assumed = before.is_assumed();
    let is_same_model = before.model == now.model;
    let (pieces, messages) = if is_same_model { before.common(now) } else { (0, 0) };
    let read = now.tokens(pieces, messages, outlook.counter);
    // Messages of unknown content cannot be shown to be missing.
    let is_through = assumed && messages == now.n_messages() && pieces == before.n_pieces();
    let changed = (pieces + messages < before.len() && !is_through).then(|| {
        let lost_tokens = lost_tokens(before, now, (pieces, messages), outlook.counter);
        let (source, byte) = match is_same_model {
            true => first_difference(before, now, pieces + messages),
            false => ("model".to_owned(), 0),
        };
        PrefixChange { source, byte, lost_tokens, cost: extra_cost(lost_tokens, outlook.price) }
    });
    let below_minimum = read < outlook.rules.min_tokens;
    let read_tokens = if below_minimum { Tokens(0) } else { read };
    Forecast { read_tokens, changed, assumed, expired: false, below_minimum }
}

/// Returns the tokens of `before` after the common prefix. Messages of unknown content are assumed to cost as much as
/// those now in their place.
fn lost_tokens(before: &Sent, now: &Sent, common: (usize, usize), counter: &dyn TokenCounter) -> Tokens {
    let all = before.tokens(before.n_pieces(), before.n_messages(), counter);
    let kept = before.tokens(common.0, common.1, counter);
    let unknown = match before.is_assumed() {
        true => {
            let n_messages = before.n_messages().min(now.n_messages());
            now.tokens(0, n_messages, counter).saturating_sub(now.tokens(0, common.1, counter))
        }
        false => Tokens(0),
    };
    all.saturating_sub(kept) + unknown
}

/// Returns the source of the first byte that differs, and its position.
fn first_difference(before: &Sent, now: &Sent, position: usize) -> (String, usize) {
    let source = now.source(position).or_else(|| before.source(position));
    let same = match (before.text(position), now.text(position)) {
        (Some(before), Some(now)) => common_prefix(&before, &now),
        _ => 0,
    };
    let holder = if now.source(position).is_some() { now } else { before };
    (source.map(ToString::to_string).unwrap_or_default(), holder.start(position) + same)
}

/// Returns the extra cost of reading tokens at the full price instead of the cached one.
fn extra_cost(tokens: Tokens, price: Option<Price>) -> Option<f64> {
    let input_tokens = u64::from(tokens.0);
    let full = Usage { input_tokens, ..Usage::default() };
    let cached = Usage { cache_read_tokens: Some(input_tokens), ..full };
    let price = price?;
    Some((price.of(full)? - price.of(cached)?).max(0.0))
}

pub(crate) fn common_prefix(a: &str, b: &str) -> usize {
    a.bytes().zip(b.bytes()).take_while(|(a, b)| a == b).count()
}
