//! What changed from one pass to the next.

use serde::Serialize;

use crate::Explanation;
use crate::cache::common_prefix;
use crate::explain::{Part, slot_rank};

/// What changed from one pass to another.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ExplanationDiff {
    /// Sent now and not before.
    pub added: Vec<Change>,
    /// Sent before and not now.
    pub removed: Vec<Change>,
    /// Sent in both with other content.
    pub changed: Vec<Change>,
    /// Sent in both at another place among the others.
    pub moved: Vec<Change>,
    /// Tokens before and now.
    pub total_tokens: (u32, u32),
    /// The first byte of the prefix that differs, with who contributed it; none if one is a prefix of the other.
    pub first_difference: Option<FirstDifference>,
}

/// One part that changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Change {
    /// Who contributed it.
    pub source: String,
    /// Where it goes.
    pub slot: String,
    /// Tokens before and now; zero where it was not sent.
    pub tokens: (u32, u32),
    /// Why it was not sent, where it was not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// Where two prefixes begin to differ.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FirstDifference {
    /// Who contributed it.
    pub source: String,
    /// The position in the concatenated texts of the system parts.
    pub byte: usize,
}

impl Explanation {
    /// Compares two passes.
    pub fn diff(before: &Explanation, now: &Explanation) -> ExplanationDiff {
        let (old, new) = (sent_parts(before), sent_parts(now));
        let mut diff = ExplanationDiff {
            total_tokens: (before.total_tokens.0, now.total_tokens.0),
            first_difference: first_difference(&old, &new),
            ..ExplanationDiff::default()
        };
        for (key, part) in &new {
            match find(&old, key) {
                None => diff.added.push(change(None, Some(part), reason_of(before, part))),
                Some(was) if was.digest != part.digest => {
                    diff.changed.push(change(Some(was), Some(part), None))
                }
                Some(_) => {}
            }
        }
        for (key, part) in &old {
            if find(&new, key).is_none() {
                diff.removed.push(change(Some(part), None, reason_of(now, part)));
            }
        }
        diff.moved = moved(&old, &new);
        diff
    }
}

impl ExplanationDiff {
    /// Whether the two passes send the same.
    pub fn is_empty(&self) -> bool {
        self.added.is_empty() && self.removed.is_empty() && self.changed.is_empty() && self.moved.is_empty()
    }
}

/// A part is known by its source and slot, and by its number among those with the same.
type Key<'a> = (&'a str, &'a str, usize);

fn sent_parts(explanation: &Explanation) -> Vec<(Key<'_>, &Part)> {
    let mut parts: Vec<&Part> =
        explanation.parts.iter().filter(|it| matches!(it.state.as_str(), "kept" | "shortened")).collect();
    parts.sort_by_key(|it| slot_rank(&it.slot));
    let mut keyed: Vec<(Key<'_>, &Part)> = Vec::with_capacity(parts.len());
    let mut counts = std::collections::HashMap::new();
    for part in parts {
        let count = counts.entry((part.source.as_str(), part.slot.as_str())).or_insert(0);
        keyed.push(((&part.source, &part.slot, *count), part));
        *count += 1;
    }
    keyed
}

fn find<'a>(parts: &[(Key<'_>, &'a Part)], key: &Key<'_>) -> Option<&'a Part> {
    parts.iter().find(|(it, _)| it == key).map(|(_, part)| *part)
}

fn change(before: Option<&Part>, now: Option<&Part>, reason: Option<String>) -> Change {
    let known = now.or(before);
    let field = |get: fn(&Part) -> &String| known.map(|it| get(it).clone()).unwrap_or_default();
    Change {
        source: field(|it| &it.source),
        slot: field(|it| &it.slot),
        tokens: (before.map_or(0, |it| it.tokens.0), now.map_or(0, |it| it.tokens.0)),
        reason,
    }
}

/// Why a part was not sent in the other pass.
fn reason_of(other: &Explanation, part: &Part) -> Option<String> {
    other.parts.iter().find(|it| it.source == part.source && it.reason.is_some())?.reason.clone()
}

/// Lists parts whose order among the common ones is not the same.
fn moved(old: &[(Key<'_>, &Part)], new: &[(Key<'_>, &Part)]) -> Vec<Change> {
    let common_old: Vec<&Key<'_>> =
        old.iter().map(|(key, _)| key).filter(|key| find(new, key).is_some()).collect();
    let common_new = new.iter().filter(|(key, _)| find(old, key).is_some());
    common_new
        .zip(common_old)
        .filter(|((key, _), was)| key != *was)
        .map(|((_, part), _)| change(Some(part), Some(part), None))
        .collect()
}

fn first_difference(old: &[(Key<'_>, &Part)], new: &[(Key<'_>, &Part)]) -> Option<FirstDifference> {
    let mut byte = 0;
    for ((_, was), (_, is)) in old.iter().zip(new) {
        let (before, now) = (was.text.as_deref().unwrap_or_default(), is.text.as_deref().unwrap_or_default());
        if was.digest != is.digest || was.source != is.source {
            byte += common_prefix(before, now);
            return Some(FirstDifference { source: is.source.clone(), byte });
        }
        byte += now.len();
    }
    None
}
