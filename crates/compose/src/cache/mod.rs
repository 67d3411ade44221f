//! Provider caches: their rules, records of what was sent, forecasts, and whether an edit is worth breaking one.

mod digests;
mod forecast;
mod planner;
mod same_bytes;
mod sent;

use std::time::Duration;

use contexture_message::{Breakpoint, CacheRules, Tokens};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub(crate) use self::digests::Digests;
pub use self::forecast::{Forecast, MissCause, PrefixChange, Reconciliation};
pub(crate) use self::forecast::{Outlook, common_prefix, forecast};
pub use self::planner::{Edit, EditDecision, Prospect, forced, weigh};
pub use self::sent::Sent;
pub(crate) use self::sent::{SentGroup, SentMessages, SentPiece, SentText};

/// Returns the rules to assume if the caller passes none in; no caching for unknown providers.
pub(crate) fn assumed_rules(model: Option<&str>) -> CacheRules {
    let name = model.unwrap_or_default().to_ascii_lowercase();
    let is = |word: &str| name.contains(word);
    if is("claude") || is("anthropic") {
        CacheRules { max_breakpoints: 4, min_tokens: Tokens(1024), lifetime_s: 300 }
    } else if is("gpt") || is("openai") || is("gemini") {
        CacheRules { max_breakpoints: 0, min_tokens: Tokens(1024), lifetime_s: 300 }
    } else {
        CacheRules { max_breakpoints: 0, min_tokens: Tokens(0), lifetime_s: 0 }
    }
}

/// Returns whether a cache that was not read for this long has expired.
pub(crate) fn is_expired(rules: CacheRules, idle: Option<Duration>) -> bool {
    rules.lifetime_s > 0 && idle.is_some_and(|it| it > Duration::from_secs(rules.lifetime_s))
}

/// What is known about the cache before the call, and after it what the provider reported.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CacheFacts {
    /// Tokens at the beginning of the request that do not change with the turn.
    pub prefix_tokens: Tokens,
    /// The breakpoints in the provider's cache.
    pub breakpoints: Vec<Breakpoint>,
    /// What the provider should read from its cache, if it is known what was sent before.
    #[serde(default)]
    pub forecast: Option<Forecast>,
    /// What the provider read, once it has reported it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reconciliation: Option<Reconciliation>,
    /// The edits of earlier bytes that were weighed against the cache.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub edits: Vec<EditDecision>,
}
