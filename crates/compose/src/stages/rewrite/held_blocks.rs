//! The conversation blocks that the turns of a request already contain.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use contexture_history::{EnvelopeTag, window};
use contexture_message::Part;

use super::Rewritten;
use crate::segment::{Fate, Segment, envelope_text};
use crate::stages::setup::Setup;
use crate::{Source, Turn};

/// The names of tags in the envelopes of each turn of the request.
pub(crate) struct HeldBlocks(BTreeMap<Arc<str>, BTreeSet<String>>);

impl HeldBlocks {
    /// Reads the turns that are within the prompt's history limit.
    pub(crate) fn of(setup: &Setup<'_>, rewritten: &Rewritten<'_>) -> Self {
        let turns = &*rewritten.history;
        let mut held: BTreeMap<Arc<str>, BTreeSet<String>> = turns
            .iter()
            .map(|it| (Arc::clone(it.id()), names(it)))
            .filter(|(_, it)| !it.is_empty())
            .collect();
        if !held.is_empty() {
            let window = window(turns, setup.prompt.definition.history.limit, &*setup.counter);
            let kept: BTreeSet<&Arc<str>> = window.kept().map(Turn::id).collect();
            held.retain(|turn, _| kept.contains(turn));
        }
        Self(held)
    }

    /// Lists the names in all turns except these.
    pub(crate) fn besides(&self, left_out: &BTreeSet<Arc<str>>) -> BTreeSet<String> {
        let held = self.0.iter().filter(|(turn, _)| !left_out.contains(*turn));
        held.flat_map(|(_, names)| names.iter().cloned()).collect()
    }

    /// Lists the turns with such names that were dropped to fit the budget.
    pub(crate) fn dropped(&self, segments: &[Segment]) -> BTreeSet<Arc<str>> {
        let id = |it: &Segment| match (&it.fate, &it.source) {
            (Fate::Dropped { .. }, Source::History(turn)) => Some(Arc::clone(turn)),
            _ => None,
        };
        segments.iter().filter_map(id).filter(|it| self.0.contains_key(it)).collect()
    }
}

/// Lists the tags in the envelopes of a turn. Only a turn from a log can contain the engine's tags.
fn names(turn: &Turn) -> BTreeSet<String> {
    if !turn.is_neutral() {
        return BTreeSet::new();
    }
    let envelope = envelope_text(EnvelopeTag::SystemContext, &[]);
    let open = envelope.lines().next().unwrap_or_default();
    let parts = turn.messages().iter().flat_map(|it| &it.content);
    let envelopes = parts.filter_map(|it| match it {
        Part::Text { text, .. } if text.starts_with(open) => Some(text.as_str()),
        _ => None,
    });
    let tag = |line: &str| Some(line.strip_prefix('<')?.strip_suffix('>')?.to_owned());
    envelopes.flat_map(str::lines).filter_map(tag).collect()
}
