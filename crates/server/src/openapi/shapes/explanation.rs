//! Why a request looks like it does.
#![expect(dead_code, reason = "they describe, and are never made")]

use serde_json::Value;
use utoipa::ToSchema;

use super::message::Usage;

/// Where every token of a request comes from, and why something is missing.
#[derive(ToSchema)]
pub(crate) struct Explanation {
    /// Everything that was considered, in request order, with its state; tools come last.
    parts: Vec<ExplainedPart>,
    /// What did not take part.
    excluded: Vec<Exclusion>,
    /// What did not fit.
    dropped: Vec<Dropped>,
    /// How many messages are sent.
    messages: u64,
    /// The tools that are sent.
    tools: Vec<String>,
    /// What the whole request costs.
    total_tokens: u64,
    /// The counter.
    counter: Counter,
    /// What was allowed and used.
    budget: Budget,
    /// What is known about the provider's cache.
    #[schema(value_type = Object)]
    cache: Value,
    /// The repairs that put every tool result directly after its call.
    #[schema(required = false)]
    repairs: Vec<Value>,
    /// Tool results that are shown as previews.
    #[schema(required = false)]
    shortened_results: Vec<Value>,
    /// How long contributors took, in milliseconds.
    #[schema(required = false)]
    timings: Vec<Value>,
    /// The hash of the request.
    fingerprint: String,
    /// What the author should look at.
    warnings: Vec<String>,
    /// What each transform did to the history.
    #[schema(required = false)]
    transforms: Vec<Value>,
}

/// A piece of a request, explained.
#[derive(ToSchema)]
pub(crate) struct ExplainedPart {
    /// Its source, such as `context:brand`.
    source: String,
    /// Where it goes.
    slot: String,
    /// What it costs.
    tokens: u64,
    /// Its rank.
    priority: Value,
    /// `kept`, `shortened`, `dropped`, `excluded` or `empty`.
    state: String,
    /// Why it is not simply kept.
    reason: Option<String>,
    /// How often it changes.
    volatility: Value,
    /// Whether it can't be dropped.
    pinned: Option<bool>,
    /// Where it begins in the system message, in bytes.
    start: Option<u64>,
    /// Its text, where it is a text.
    text: Option<String>,
    /// The hash of its content.
    digest: Option<String>,
}

/// Something that did not take part.
#[derive(ToSchema)]
pub(crate) struct Exclusion {
    /// Who.
    source: String,
    /// Why.
    reason: String,
}

/// Something that did not fit.
#[derive(ToSchema)]
pub(crate) struct Dropped {
    /// Who.
    source: String,
    /// What it would have cost.
    tokens: u64,
    /// Its rank.
    priority: Value,
    /// Why.
    reason: String,
}

/// The counter of the tokens.
#[derive(ToSchema)]
pub(crate) struct Counter {
    /// Such as `o200k_base`.
    name: String,
    /// Whether the provider counts the same.
    exact: bool,
}

/// What was allowed and used.
#[derive(ToSchema)]
pub(crate) struct Budget {
    /// The limit of the composed system text.
    #[schema(required)]
    token_budget: Option<u64>,
    /// The limit of the whole request.
    input_budget: Option<u64>,
    /// What the composed system text costs.
    used: u64,
}

/// What changed from one pass to another.
#[derive(ToSchema)]
pub(crate) struct PassDiff {
    /// Whether both send the same.
    equal: bool,
    /// Sent now and not before.
    added: Vec<Value>,
    /// Sent before and not now.
    removed: Vec<Value>,
    /// Sent in both with other content.
    changed: Vec<Value>,
    /// Sent in both at another place.
    moved: Vec<Value>,
    /// Tokens before and now.
    total_tokens: Vec<u64>,
    /// The first byte of the prefix that differs, with its source.
    first_difference: Option<Value>,
    /// Other fields of the request that changed: `field`, `before`, `now`.
    request: Vec<Value>,
    /// Texts that changed, each as a diff of its lines: `source`, `slot`, `diff`.
    texts: Vec<Value>,
}

/// What came of a model call.
#[derive(ToSchema)]
pub(crate) struct PassResult {
    /// How long it took.
    took_ms: u64,
    /// What it cost.
    usage: Usage,
    /// What was foretold of the provider's cache, and what it reported.
    cache: Option<Value>,
    /// Why the model stopped.
    stop: Option<Value>,
    /// What went wrong.
    error: Option<String>,
}
