//! The differences between two passes.

use std::collections::HashMap;

use schemars::JsonSchema;
use serde::Serialize;

use super::{Explanation, Part};
use crate::cache::common_prefix;
use crate::segment::Slot;

/// The differences between two passes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct ExplanationDiff {
    /// Parts sent now but not before.
    pub added: Vec<Change>,
    /// Parts sent before but not now.
    pub removed: Vec<Change>,
    /// Parts sent in both with different content.
    pub changed: Vec<Change>,
    /// Parts sent in both in a different order.
    pub moved: Vec<Change>,
    /// Tokens before and now.
    pub total_tokens: (u32, u32),
    /// The first byte of the prefix that differs, with its source; `None` if one is a prefix of the other.
    pub first_difference: Option<FirstDifference>,
}

/// One part that changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "PartChange")]
pub struct Change {
    /// The contributor that it comes from.
    pub source: String,
    /// Its place in the request.
    pub slot: String,
    /// Tokens before and now; zero if it was not sent.
    pub tokens: (u32, u32),
    /// Why it was not sent, if it was not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// Where two prefixes begin to differ.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct FirstDifference {
    /// The source of the first difference.
    pub source: String,
    /// Its place in the request.
    pub slot: String,
    /// The position in the system message, if the difference is there.
    pub byte: Option<usize>,
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
        let (old_by_key, new_by_key) = (by_key(&old), by_key(&new));
        for (key, part) in &new {
            match old_by_key.get(key) {
                None => diff.added.push(change(None, Some(part), reason_of(before, part))),
                Some(was) if was.digest != part.digest => {
                    diff.changed.push(change(Some(was), Some(part), None))
                }
                Some(_) => {}
            }
        }
        for (key, part) in &old {
            if !new_by_key.contains_key(key) {
                diff.removed.push(change(Some(part), None, reason_of(now, part)));
            }
        }
        diff.moved = moved(&old, &new);
        diff
    }
}

impl ExplanationDiff {
    /// Returns whether both passes send the same.
    pub fn is_empty(&self) -> bool {
        self.added.is_empty() && self.removed.is_empty() && self.changed.is_empty() && self.moved.is_empty()
    }
}

/// Identifies a part by its source and slot, and by its number among parts that share both.
type Key<'a> = (&'a str, &'a str, usize);

fn sent_parts(explanation: &Explanation) -> Vec<(Key<'_>, &Part)> {
    let mut parts: Vec<&Part> =
        explanation.parts.iter().filter(|it| matches!(it.state.as_str(), "kept" | "shortened")).collect();
    // Parts are in request order except for tools, which providers see first.
    parts.sort_by_key(|it| it.slot != Slot::Tools.as_str());
    let mut keyed: Vec<(Key<'_>, &Part)> = Vec::with_capacity(parts.len());
    let mut counts = HashMap::new();
    for part in parts {
        let count = counts.entry((part.source.as_str(), part.slot.as_str())).or_insert(0);
        keyed.push(((&part.source, &part.slot, *count), part));
        *count += 1;
    }
    keyed
}

fn by_key<'a, 'b>(parts: &'b [(Key<'a>, &'a Part)]) -> HashMap<&'b Key<'a>, &'a Part> {
    parts.iter().map(|(key, part)| (key, *part)).collect()
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

/// Returns why a part was not sent in the other pass.
fn reason_of(other: &Explanation, part: &Part) -> Option<String> {
    other.parts.iter().find(|it| it.source == part.source && it.reason.is_some())?.reason.clone()
}

/// Lists the smallest set of parts whose moves turn the old order of the common parts into the new one.
fn moved(old: &[(Key<'_>, &Part)], new: &[(Key<'_>, &Part)]) -> Vec<Change> {
    let was_at: HashMap<&Key<'_>, usize> = old.iter().enumerate().map(|(at, (key, _))| (key, at)).collect();
    let common: Vec<(usize, &Part)> =
        new.iter().filter_map(|(key, part)| Some((*was_at.get(key)?, *part))).collect();
    let in_order = longest_rising(&common.iter().map(|(at, _)| *at).collect::<Vec<_>>());
    let stays = |position: &usize| in_order.binary_search(position).is_ok();
    (0..common.len())
        .filter(|it| !stays(it))
        .map(|it| change(Some(common[it].1), Some(common[it].1), None))
        .collect()
}

/// Returns the positions of a longest increasing subsequence, in order.
fn longest_rising(values: &[usize]) -> Vec<usize> {
    // For each length, the position of the smallest value that ends an increasing subsequence of that length.
    let mut ends: Vec<usize> = Vec::new();
    let mut before: Vec<Option<usize>> = Vec::with_capacity(values.len());
    for (position, value) in values.iter().enumerate() {
        let length = ends.partition_point(|&end| values[end] < *value);
        before.push(length.checked_sub(1).map(|it| ends[it]));
        match ends.get_mut(length) {
            Some(end) => *end = position,
            None => ends.push(position),
        }
    }
    let mut run: Vec<usize> = std::iter::successors(ends.last().copied(), |&it| before[it]).collect();
    run.reverse();
    run
}

fn first_difference(old: &[(Key<'_>, &Part)], new: &[(Key<'_>, &Part)]) -> Option<FirstDifference> {
    let differs = |((_, was), (_, is)): &(&(Key<'_>, &Part), &(Key<'_>, &Part))| {
        was.digest != is.digest || was.source != is.source
    };
    let ((_, was), (_, is)) = old.iter().zip(new).find(differs)?;
    let text = |it: &Part| it.text.clone().unwrap_or_default();
    let byte = is.start.map(|start| start + common_prefix(&text(was), &text(is)));
    Some(FirstDifference { source: is.source.clone(), slot: is.slot.clone(), byte })
}
