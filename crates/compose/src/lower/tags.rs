//! Checks the tags that are known before anything runs.
//!
//! Reads the sketches of all tag values, in which the results of templates and functions are `null`. Reports the
//! faults that every pass would hit: invalid tag names, invalid messages, and a tag that is text in one place and
//! nested in another. Entries under a condition are checked alone, because they may never be included together with
//! others.

use std::collections::{HashMap, HashSet};

use serde_json::Value;

use super::node::Item;
use crate::tags::{TagEntry, aggregate};
use crate::{Error, Source};

/// What is known of the tag values of an entry.
pub(super) type Sketch = Value;

/// Lists the faults in the tags of a prompt that do not depend on the input.
pub(super) fn tag_faults(own: &[Value], items: &[Item], sketches: &HashMap<usize, Sketch>) -> Vec<Error> {
    if own.is_empty() && sketches.is_empty() {
        return Vec::new();
    }
    let mut found: Vec<(Source, &Value, bool)> = own.iter().map(|it| (Source::Prompt, it, true)).collect();
    collect(items, true, &mut HashSet::new(), &mut |item, always| {
        let Item::Node(node) = item else { return };
        found.extend(sketches.get(&node.identity).map(|it| (node.source.clone(), it, always)));
    });
    let alone = |(source, value, _): &(Source, &Value, bool)| {
        aggregate(&[TagEntry { source: &source.notation(), value }]).err().map(Error::from)
    };
    let faults: Vec<Error> = found.iter().filter_map(alone).collect();
    if !faults.is_empty() {
        return faults;
    }
    let together = found.iter().filter(|(_, _, always)| *always);
    let together: Vec<_> = together.map(|(source, value, _)| (source.notation(), value)).collect();
    let together: Vec<TagEntry<'_>> =
        together.iter().map(|(source, value)| TagEntry { source, value }).collect();
    aggregate(&together).err().map(Error::from).into_iter().collect()
}

/// Visits all contributors in resolved order; the flag says whether one is included in every pass.
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
