//! Weighs an edit of earlier bytes against the cache that it breaks.
//!
//! Turning old tool results into previews, or dropping hidden context, makes every later call shorter. But a provider
//! can't read from its cache what stands behind the first changed byte: it is read once at the full price. The rule, in
//! full:
//!
//! 1. While the cache is warm, what an edit saves is read at the cached price in each of the calls to come. That is its
//!    gain.
//! 2. What stands behind the first changed byte and stays is read (or written to the cache) once at the full instead of
//!    the cached price. That is its loss.
//! 3. Where nothing is cached, or the cache has expired, nothing can be lost: whatever saves anything is done.
//! 4. An edit is chosen if it gains more than it loses. One that must be made is [`forced`], whatever it costs.
//!
//! Nothing is edited here, and nothing is remembered: equal figures give equal decisions.

use std::time::Duration;

use contexture_message::{CacheRules, Price, Tokens};
use serde::{Deserialize, Serialize};

use crate::cache::is_expired;

/// An edit of bytes that were sent before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edit {
    /// What it is called in decisions, such as `previews`.
    pub name: String,
    /// How many tokens fewer every later call reads.
    pub saves: Tokens,
    /// Tokens behind the first changed byte, as they are before the edit, that the provider would have read from its
    /// cache.
    pub behind: Tokens,
}

/// What is known about the calls to come.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Prospect {
    /// What tokens cost.
    pub price: Option<Price>,
    /// How the provider caches.
    pub rules: CacheRules,
    /// How long ago the last call was.
    pub idle: Option<Duration>,
    /// How many calls are expected, the next one included.
    pub calls: u32,
}

/// What was decided about an edit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EditDecision {
    /// The name of the edit.
    pub edit: String,
    /// Whether it is made.
    pub chosen: bool,
    /// Tokens that it saves in every later call.
    pub saves_tokens: Tokens,
    /// Tokens that it makes the provider read anew.
    pub breaks_tokens: Tokens,
    /// What it gains, in the currency of the prices; without prices, in tokens at the full price.
    pub gain: f64,
    /// What it loses, in the same measure.
    pub loss: f64,
    /// Why it was decided like that.
    pub reason: String,
}

/// What one token costs.
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
                // As when a call is paid for: cached tokens without a price of their own cost what others do.
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
        "{} fewer tokens in each of {calls} calls are {verdict} reading {kept} tokens anew{}",
        edit.saves,
        rates.remark()
    );
    decision(edit, chosen, kept, (gain, loss), reason)
}

/// Records an edit that is made whatever it costs, such as because the window is full.
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

/// Nothing is in the cache: the next call reads everything at the full price anyway.
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
