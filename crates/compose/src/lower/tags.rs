//! Checks the tags that are known before anything runs.
//!
//! In come the sketches of all tag values: what templates and functions will say is `null` in them. Out come the faults
//! that every pass would meet: names that no tag has, messages that are none, and one tag that is text here and nested
//! there. Entries under a condition are checked alone, for others of them may never stand beside them.

use std::collections::{HashMap, HashSet};

use serde_json::Value;

use super::node::Item;
use crate::tags::{TagEntry, aggregate};
use crate::{Error, Source};

/// What is known of the tag values of an entry.
pub(super) type Sketch = Value;

/// Lists what is wrong with the tags of a prompt, whatever its input is.
pub(super) fn tag_faults(own: &[Value], items: &[Item], sketches: &HashMap<usize, Sketch>) -> Vec<Error> {
    if own.is_empty() && sketches.is_empty() {
        return Vec::new();
    }
    let mut found: Vec<(Source, &Value, bool)> = own.iter().map(|it| (Source::prompt(), it, true)).collect();
    collect(items, true, &mut HashSet::new(), &mut |item, always| {
        let Item::Node(node) = item else { return };
        found.extend(sketches.get(&node.identity).map(|it| (node.source.clone(), it, always)));
    });
    let alone = |(source, value, _): &(Source, &Value, bool)| {
        aggregate(&[TagEntry { source: source.as_str(), value }]).err().map(Error::from)
    };
    let faults: Vec<Error> = found.iter().filter_map(alone).collect();
    if !faults.is_empty() {
        return faults;
    }
    let together: Vec<TagEntry<'_>> = found
        .iter()
        .filter(|(_, _, always)| *always)
        .map(|(source, value, _)| TagEntry { source: source.as_str(), value })
        .collect();
    aggregate(&together).err().map(Error::from).into_iter().collect()
}

/// Goes over all contributors in resolved order; the flag says whether one is there in every pass.
fn collect(
    items: &[Item],
    always: bool,
    seen: &mut HashSet<(usize, bool)>,
    note: &mut impl FnMut(&Item, bool),
) {
    for item in items {
        match item {
            Item::Choice(choice) => choice.arms.iter().for_each(|arm| collect(arm, false, seen, note)),
            Item::Node(node) => {
                let always = always && !node.is_gated;
                if seen.insert((node.identity, always)) {
                    collect(&node.children, always, seen, note);
                    note(item, always);
                }
            }
        }
    }
}
