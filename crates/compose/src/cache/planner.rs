//! Weighs an edit of earlier bytes against the cache that it breaks.
//!
//! Replacing old tool results with previews, or dropping hidden context, makes every later call shorter. But a
//! provider cannot read from its cache what comes after the first changed byte: that is read once at the full price.
//! The rules in full:
//!
//! 1. While the cache is warm, the tokens that an edit saves would be read at the cached price in each future call.
//!    That is its gain.
//! 2. Unedited tokens after the first changed byte are read (or written to the cache) once at the full price instead
//!    of the cached price. That is its loss.
//! 3. If nothing is cached, or the cache has expired, nothing can be lost: every edit that saves anything is made.
//! 4. An edit is chosen if it gains more than it loses. An edit that must be made is [`forced`], whatever it costs.
//!
//! This module edits nothing and keeps no state: equal inputs give equal decisions.

use std::time::Duration;

use contexture_message::{CacheRules, Price, Tokens};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::is_expired;

/// An edit of bytes that were sent before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edit {
    /// The name used in decisions, such as `previews`.
    pub name: String,
    /// The number of tokens that every later call saves.
    pub saves: Tokens,
    /// Tokens after the first changed byte, counted before the edit, that the provider would have read from its
    /// cache.
    pub behind: Tokens,
}

/// What is known about future calls.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Prospect {
    /// The price of tokens.
    pub price: Option<Price>,
    /// How the provider caches.
    pub rules: CacheRules,
    /// How long ago the last call was.
    pub idle: Option<Duration>,
    /// The expected number of calls, including the next one.
    pub calls: u32,
}

/// The decision about an edit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct EditDecision {
    /// The name of the edit.
    pub edit: String,
    /// Whether it is made.
    pub chosen: bool,
    /// Tokens that every later call saves.
    pub saves_tokens: Tokens,
    /// Tokens that the provider has to read again.
    pub breaks_tokens: Tokens,
    /// The gain, in the currency of the prices; without prices, in tokens at the full price.
    pub gain: f64,
    /// The loss, in the same unit.
    pub loss: f64,
    /// Why the edit was or was not chosen.
    pub reason: String,
}

/// The price of one token.
struct Rates {
    full: f64,
    cached: f64,
    written: f64,
    are_known: bool,
}

impl Rates {
    fn of(price: Option<Price>) -> Self {
        let known = price.and_then(|it| Some((it, it.input?)));
        match known {
            Some((price, input)) => Self {
                full: input / 1e6,
                // As in billing, cached tokens without their own price cost as much as others.
                cached: price.cache_read.unwrap_or(input) / 1e6,
                written: price.cache_write.unwrap_or(input) / 1e6,
                are_known: true,
            },
            None => Self { full: 1.0, cached: 0.1, written: 1.0, are_known: false },
        }
    }

    fn remark(&self) -> &'static str {
        match self.are_known {
            true => "",
            false => " (prices not known: cached reads taken as a tenth, writes as full reads)",
        }
    }
}

/// Decides whether an edit is worth the cache that it breaks.
///
/// ```
/// use contexture_compose::{Edit, Prospect, weigh};
/// use contexture_message::{CacheRules, Tokens};
///
/// let rules = CacheRules { max_breakpoints: 4, min_tokens: Tokens(1024), lifetime_s: 300 };
/// let edit = Edit { name: "previews".into(), saves: Tokens(10_000), behind: Tokens(20_000) };
/// let soon_over = Prospect { rules, calls: 2, ..Prospect::default() };
/// assert!(!weigh(&edit, &soon_over).chosen);
/// assert!(weigh(&edit, &Prospect { calls: 20, ..soon_over }).chosen);
/// ```
pub fn weigh(edit: &Edit, prospect: &Prospect) -> EditDecision {
    let rates = Rates::of(prospect.price);
    let Prospect { rules, idle, calls, .. } = prospect;
    let is_cached = rules.lifetime_s > 0;
    if !is_cached || is_expired(*rules, *idle) {
        return cold(edit, *calls, is_cached, &rates);
    }
    let kept = edit.behind.saturating_sub(edit.saves);
    let gain = f64::from(edit.saves.0) * rates.cached * f64::from(*calls);
    let loss = f64::from(kept.0) * (rates.written.max(rates.full) - rates.cached).max(0.0);
    let chosen = edit.saves > Tokens(0) && gain > loss;
    let verdict = if chosen { "worth more than" } else { "not worth" };
    let reason = format!(
        "{} fewer tokens in each of {calls} calls are {verdict} reading {kept} tokens again{}",
        edit.saves,
        rates.remark()
    );
    decision(edit, chosen, kept, (gain, loss), reason)
}

/// Records an edit that is made whatever it costs, for example because the window is full.
///
/// ```
/// use contexture_compose::{Edit, forced};
/// use contexture_message::Tokens;
///
/// let edit = Edit { name: "previews".into(), saves: Tokens(900), behind: Tokens(5_000) };
/// let decision = forced(&edit, "the window is full");
/// assert!(decision.chosen && decision.reason == "the window is full");
/// ```
pub fn forced(edit: &Edit, why: &str) -> EditDecision {
    decision(edit, true, edit.behind.saturating_sub(edit.saves), (0.0, 0.0), why.to_owned())
}

/// Decides when nothing is in the cache: the next call reads everything at the full price anyway.
fn cold(edit: &Edit, calls: u32, is_cached: bool, rates: &Rates) -> EditDecision {
    let later = if is_cached { rates.cached } else { rates.full };
    let per_token = if calls == 0 { 0.0 } else { rates.full + later * f64::from(calls - 1) };
    let chosen = edit.saves > Tokens(0);
    let state = if is_cached { "the cache has expired" } else { "nothing is cached" };
    let verdict = if chosen { "the edit costs nothing" } else { "but the edit saves nothing" };
    let reason = format!("{state}, {verdict}{}", rates.remark());
    decision(edit, chosen, Tokens(0), (f64::from(edit.saves.0) * per_token, 0.0), reason)
}

fn decision(
    edit: &Edit,
    chosen: bool,
    breaks_tokens: Tokens,
    (gain, loss): (f64, f64),
    reason: String,
) -> EditDecision {
    let (edit, saves_tokens) = (edit.name.clone(), edit.saves);
    EditDecision { edit, chosen, saves_tokens, breaks_tokens, gain, loss, reason }
}
