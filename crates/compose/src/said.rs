//! The conversation blocks that the turns of a request already contain.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use contexture_history::window;
use contexture_message::Part;

use crate::merge::Draft;
use crate::render::envelope;
use crate::rewrite::Rewritten;
use crate::segment::{Fate, Slot};
use crate::setup::Setup;
use crate::{Source, Turn};

/// The names of tags in the envelopes of each turn of the request.
pub(crate) struct SaidBlocks(BTreeMap<Source, BTreeSet<String>>);

impl SaidBlocks {
    /// Reads the turns that are within the prompt's history limit.
    pub(crate) fn of(setup: &Setup<'_>, rewritten: &Rewritten<'_>) -> Self {
        let turns = &*rewritten.history;
        let mut said: BTreeMap<Source, BTreeSet<String>> =
            turns.iter().map(|it| (source(it.id()), names(it))).filter(|(_, it)| !it.is_empty()).collect();
        if !said.is_empty() {
            let window = window(turns, setup.prompt.definition().history.limit, &*setup.counter);
            let kept: BTreeSet<Source> = window.kept().map(|it| source(it.id())).collect();
            said.retain(|turn, _| kept.contains(turn));
        }
        Self(said)
    }

    /// Lists the names in all turns except these.
    pub(crate) fn besides(&self, left_out: &BTreeSet<Source>) -> BTreeSet<String> {
        let said = self.0.iter().filter(|(turn, _)| !left_out.contains(turn));
        said.flat_map(|(_, names)| names.iter().cloned()).collect()
    }

    /// Lists the turns with such names that a draft has dropped to fit its budget.
    pub(crate) fn dropped(&self, draft: &Draft) -> BTreeSet<Source> {
        let segments = draft.segments.iter();
        let dropped =
            segments.filter(|it| it.slot == Slot::History && matches!(it.fate, Fate::Dropped { .. }));
        dropped.map(|it| it.source.clone()).filter(|it| self.0.contains_key(it)).collect()
    }
}

fn source(turn: &Arc<str>) -> Source {
    Source::named("history", turn)
}

/// Lists the tags in the envelopes of a turn. Only a turn from a log can contain the engine's tags.
fn names(turn: &Turn) -> BTreeSet<String> {
    if !turn.is_neutral() {
        return BTreeSet::new();
    }
    let envelope = envelope(&[]);
    let open = envelope.lines().next().unwrap_or_default();
    let parts = turn.messages().iter().flat_map(|it| &it.content);
    let envelopes = parts.filter_map(|it| match it {
        Part::Text { text } if text.starts_with(open) => Some(text.as_str()),
        _ => None,
    });
    let tag = |line: &str| Some(line.strip_prefix('<')?.strip_suffix('>')?.to_owned());
    envelopes.flat_map(str::lines).filter_map(tag).collect()
}
