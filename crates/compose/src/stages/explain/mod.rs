//! Explains why a request looks the way it does.
//!
//! Builds an [`Explanation`] from the arranged Segments that the request was rendered from. It only reads them:
//! nothing runs again and no token is counted again.

mod diff;

use std::collections::{HashMap, HashSet};

use contexture_history::{Repair, RepairKind, TransformChange};
use contexture_message::{Evidence, Request, Tokens};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use xxhash_rust::xxh3::xxh3_64;

pub use self::diff::{Change, ExplanationDiff, FirstDifference};
use super::arrange::Arranged;
use super::draft::{SystemPiece, evidence_in, system_order};
use super::rewrite::ShortenedResult;
use crate::cache::{CacheFacts, Digests};
use crate::evaluated::Timing;
use crate::segment::{Body, Slot, Volatility};
use crate::{CapabilityInfo, Fate, Priority, Segment, Source};

/// Why a request looks the way it does. Serializes to the `explanation` of `resolve --json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Explanation {
    /// Everything that was considered, in request order, and whether it was sent; tools come last.
    pub parts: Vec<Part>,
    /// The sources that were not included.
    pub excluded: Vec<Exclusion>,
    /// The sources that did not fit the budget.
    pub dropped: Vec<Drop>,
    /// The number of messages in the request.
    pub messages: usize,
    /// The names of the tools in the request.
    pub tools: Vec<String>,
    /// The token count of the whole request.
    pub total_tokens: Tokens,
    /// The token counter that was used.
    pub counter: CounterInfo,
    /// The token limits and how much of them is used.
    pub budget: BudgetInfo,
    /// What is known about the provider's cache.
    pub cache: CacheFacts,
    /// The repairs that put every tool result directly after its call.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub repairs: Vec<RepairInfo>,
    /// The tool results that are shown as previews.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub shortened_results: Vec<ShortenedResult>,
    /// How long contributors took, if a clock was running.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub timings: Vec<TimingInfo>,
    /// The hash of the request.
    pub fingerprint: String,
    /// Problems that the author should look at.
    pub warnings: Vec<String>,
    /// The changes of each transform to the history, in the order in which they ran.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub transforms: Vec<TransformInfo>,
    /// The capabilities of the prompt, with the sources that came from each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub capabilities: Vec<CapabilityInfo>,
}

/// The effect of one transform.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TransformInfo {
    /// The transform's name.
    pub name: String,
    /// The number of messages before the transform.
    pub before: usize,
    /// The number of messages after the transform.
    pub after: usize,
}

/// One Segment, explained.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "ExplainedPart")]
pub struct Part {
    /// The contributor that it comes from.
    pub source: String,
    /// Its place in the request.
    pub slot: String,
    /// Its token count.
    pub tokens: Tokens,
    /// Its priority under a budget.
    #[schemars(with = "f64")]
    pub priority: Priority,
    /// `kept`, `shortened`, `dropped`, `excluded` or `empty`.
    pub state: String,
    /// Why it is not sent whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// How often it changes.
    pub volatility: Volatility,
    /// Whether it is exempt from being dropped.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub pinned: bool,
    /// The byte at which it begins in the system message. Shares of the tag block are spread over the block.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start: Option<usize>,
    /// Its text, if it is a text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// The hash of its content, for comparing passes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// What its contributor tells about it, such as the rank and the score of a search hit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<Value>,
}

/// A source that was not included.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Exclusion {
    /// The source that was excluded.
    pub source: String,
    /// The rule that excluded it. The part of the same source also has the condition and the values that it read.
    pub reason: String,
}

/// A source that did not fit the budget.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "DroppedPart")]
pub struct Drop {
    /// The source that was dropped.
    pub source: String,
    /// The number of tokens it would have taken.
    pub tokens: Tokens,
    /// Its priority under the budget.
    #[schemars(with = "f64")]
    pub priority: Priority,
    /// Why it was dropped.
    pub reason: String,
}

/// The token counter that was used.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CounterInfo {
    /// The counter's name, such as `o200k_base`.
    pub name: String,
    /// Whether its counts equal the provider's.
    pub exact: bool,
}

/// The token limits and how much of them is used.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BudgetInfo {
    /// The limit of the composed system text.
    pub token_budget: Option<Tokens>,
    /// The limit of the whole request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input_budget: Option<Tokens>,
    /// The token count of the composed system text.
    pub used: Tokens,
}

/// A repair in a turn that is sent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RepairInfo {
    /// The turn's id, or `in_flight`.
    pub turn: String,
    /// The id of the call or of the result.
    pub call_id: String,
    /// The tool's name.
    pub name: String,
    /// The kind of repair.
    pub what: RepairKind,
}

/// How long a contributor took.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TimingInfo {
    /// The contributor that was timed.
    pub source: String,
    /// The family of contributors that it belongs to, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub family: Option<String>,
    /// The elapsed time in milliseconds.
    pub ms: f64,
}

/// Explains an arranged draft.
pub(crate) fn explain(
    arranged: &Arranged,
    request: &Request,
    fingerprint: &str,
    digests: &Digests,
) -> Explanation {
    let draft = &arranged.draft;
    let usage = &draft.usage;
    let starts = starts_of(&arranged.pieces);
    let shares = draft.tree.shares();
    Explanation {
        parts: part_order(arranged)
            .into_iter()
            .map(|it| part(it, arranged, (&starts, &shares), digests))
            .collect(),
        excluded: draft.segments.iter().filter_map(exclusion).collect(),
        dropped: draft.segments.iter().filter_map(drop_record).collect(),
        messages: request.messages.len(),
        tools: request.tools.iter().map(|it| it.name.clone()).collect(),
        total_tokens: usage.total,
        counter: CounterInfo { name: usage.counter.clone(), exact: usage.exact },
        budget: BudgetInfo {
            token_budget: usage.token_budget,
            input_budget: usage.input_budget,
            used: usage.system,
        },
        cache: arranged.cache.clone(),
        repairs: repairs(arranged),
        shortened_results: draft.shortened.clone(),
        timings: timings(arranged),
        fingerprint: fingerprint.to_owned(),
        warnings: draft.warnings.clone(),
        transforms: transforms(arranged),
        capabilities: draft.capabilities.to_vec(),
    }
}

fn transforms(arranged: &Arranged) -> Vec<TransformInfo> {
    let info =
        |it: &TransformChange| TransformInfo { name: it.name.clone(), before: it.before, after: it.after };
    arranged.draft.transforms.iter().map(info).collect()
}

/// Lists the Segments in the order in which they are sent; those that are not sent keep their position.
fn part_order(arranged: &Arranged) -> Vec<usize> {
    let segments = &arranged.draft.segments;
    let mut order = system_order(segments, arranged.arrangement);
    let mut others: Vec<usize> = (0..segments.len()).filter(|&it| !segments[it].slot.is_system()).collect();
    others.sort_by_key(|&it| (segments[it].slot == Slot::Tools, segments[it].slot));
    order.extend(others);
    order
}

/// The byte at which each piece of the system message begins, by Segment.
type Starts = HashMap<usize, usize>;

fn starts_of(pieces: &[SystemPiece]) -> Starts {
    pieces.iter().filter_map(|it| Some((it.segment?, it.bytes.start))).collect()
}

fn part(
    position: usize,
    arranged: &Arranged,
    (starts, shares): (&Starts, &[String]),
    digests: &Digests,
) -> Part {
    let segment = &arranged.draft.segments[position];
    let text = match &segment.body {
        Body::Text(text) => Some(text.as_str().to_owned()),
        Body::Tags(entry) => shares.get(*entry).cloned(),
        Body::Messages(_) if segment.slot == Slot::Envelope => {
            Some(evidence_in(&segment.body).map(Evidence::labelled_text).collect::<Vec<_>>().join("\n"))
        }
        Body::Nothing | Body::Messages(_) | Body::Tool(_) => None,
    };
    Part {
        source: segment.source.to_string(),
        slot: segment.slot.as_str().to_owned(),
        tokens: if matches!(segment.fate, Fate::Excluded { .. }) { Tokens(0) } else { segment.tokens },
        priority: segment.priority,
        state: segment.fate.state().to_owned(),
        reason: segment.fate.reason(),
        volatility: segment.volatility,
        pinned: segment.pinned,
        start: starts.get(&position).copied(),
        digest: digest(&segment.body, text.as_deref(), digests),
        text,
        detail: segment.detail.as_deref().cloned(),
    }
}

fn digest(body: &Body, text: Option<&str>, digests: &Digests) -> Option<String> {
    let bytes: Vec<u8> = match body {
        Body::Messages(messages) => messages.iter().flat_map(|it| digests.of(it).to_le_bytes()).collect(),
        // Plain data with string keys always serializes.
        Body::Tool(tool) => serde_json::to_vec(&**tool.tool()).unwrap_or_default(),
        Body::Nothing | Body::Text(_) | Body::Tags(_) => text?.into(),
    };
    Some(format!("{:016x}", xxh3_64(&bytes)))
}

fn exclusion(segment: &Segment) -> Option<Exclusion> {
    match &segment.fate {
        Fate::Excluded { reason } => {
            Some(Exclusion { source: segment.source.to_string(), reason: reason.rule.clone() })
        }
        Fate::Kept | Fate::Shortened { .. } | Fate::Dropped { .. } | Fate::Empty => None,
    }
}

fn drop_record(segment: &Segment) -> Option<Drop> {
    match &segment.fate {
        Fate::Dropped { reason } => Some(Drop {
            source: segment.source.to_string(),
            tokens: segment.tokens,
            priority: segment.priority,
            reason: reason.clone(),
        }),
        Fate::Kept | Fate::Shortened { .. } | Fate::Excluded { .. } | Fate::Empty => None,
    }
}

fn repairs(arranged: &Arranged) -> Vec<RepairInfo> {
    let draft = &arranged.draft;
    if draft.repairs.is_empty() {
        return Vec::new();
    }
    // Dropped Segments need no repairs reported. An empty one may be empty because of a repair.
    let is_there = |it: &&Segment| !matches!(it.fate, Fate::Dropped { .. } | Fate::Excluded { .. });
    let there: HashSet<&Source> = draft.segments.iter().filter(is_there).map(|it| &it.source).collect();
    let info = |(source, Repair { call_id, name, what }): &(Source, Repair)| RepairInfo {
        turn: match source {
            Source::History(turn) => turn.to_string(),
            other => other.to_string(),
        },
        call_id: call_id.clone(),
        name: name.clone(),
        what: *what,
    };
    draft.repairs.iter().filter(|(source, _)| there.contains(source)).map(info).collect()
}

fn timings(arranged: &Arranged) -> Vec<TimingInfo> {
    let info = |it: &Timing| TimingInfo {
        source: it.source.to_string(),
        family: it.family.clone(),
        ms: it.took.as_secs_f64() * 1000.0,
    };
    arranged.draft.timings.iter().filter(|it| !it.took.is_zero()).map(info).collect()
}
