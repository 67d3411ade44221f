//! The composed system message: the order of its pieces, and its text.

use std::ops::Range;

use contexture_message::Tokens;

use super::Draft;
use super::replacement::kept_entries;
use crate::Segment;
use crate::define::Arrangement;
use crate::segment::{Body, SEPARATOR, Slot, Volatility};
use crate::tags::TagStyle;

/// Returns the positions of all Segments of the system message, in order.
pub(crate) fn system_order(segments: &[Segment], arrangement: Arrangement) -> Vec<usize> {
    let mut order: Vec<usize> = (0..segments.len()).filter(|&it| segments[it].slot.is_system()).collect();
    // The sort is stable: Segments with equal keys stay in the author's order.
    order.sort_by_cached_key(|&it| {
        let segment = &segments[it];
        let rank = match arrangement {
            Arrangement::Author if segment.source.is_own() => 0,
            Arrangement::Author if segment.frozen.is_some() => 1,
            Arrangement::Author => 2 + u8::from(!segment.cached),
            Arrangement::CacheFirst => 2 * segment.volatility as u8 + u8::from(segment.frozen.is_none()),
        };
        (segment.slot, if segment.slot == Slot::System { rank } else { 0 })
    });
    order
}

/// The composed system message, and the byte ranges of its pieces.
#[derive(Debug, Default)]
pub(crate) struct SystemText {
    pub(crate) text: String,
    pub(crate) pieces: Vec<SystemPiece>,
}

/// Joins the pieces of the system message that are sent, in the given order.
pub(crate) fn system_text(draft: &Draft, order: &[usize]) -> SystemText {
    let tags = tag_block(draft);
    let sent = order.iter().map(|&it| &draft.segments[it]).filter(|it| it.fate.is_sent());
    let size: usize = sent.filter_map(|it| Some(it.text()?.len() + SEPARATOR.len())).sum();
    let mut system = SystemText { text: String::with_capacity(size + tags.len()), pieces: Vec::new() };
    let mut tags = Some(tags).filter(|it| !it.is_empty());
    for &position in order {
        let segment = &draft.segments[position];
        if !segment.fate.is_sent() {
            continue;
        }
        match &segment.body {
            Body::Text(text) => match draft.replacement_text(position) {
                Some(replacement) if replacement.trim().is_empty() => {}
                Some(replacement) => system.push(Some(position), &replacement),
                None => system.push(Some(position), text),
            },
            // The text that replaces the tag block already contains these values.
            Body::Tags(_) if draft.replacement.is_some() => {}
            // The first share is replaced by the whole block.
            Body::Tags(_) => {
                if let Some(block) = tags.take() {
                    system.push(None, &block);
                }
            }
            Body::Nothing | Body::Messages(_) | Body::Tool(_) => {}
        }
    }
    system
}

impl SystemText {
    fn push(&mut self, segment: Option<usize>, text: &str) {
        if !self.text.is_empty() {
            self.text.push_str(SEPARATOR);
        }
        let start = self.text.len();
        self.text.push_str(text);
        self.pieces.push(SystemPiece { segment, bytes: start..self.text.len() });
    }
}

fn tag_block(draft: &Draft) -> String {
    let entries = kept_entries(&draft.segments);
    if entries.is_empty() || draft.replacement.is_some() {
        return String::new();
    }
    let mut kept = vec![false; entries.iter().max().map_or(0, |it| it + 1)];
    entries.into_iter().for_each(|it| kept[it] = true);
    draft.tree.render_kept(TagStyle::default(), &|entry| kept.get(entry).copied().unwrap_or(false))
}

/// One piece of the system message and its position there.
#[derive(Clone, Debug)]
pub(crate) struct SystemPiece {
    /// The Segment, or `None` for the tag block, which several Segments share.
    pub(crate) segment: Option<usize>,
    pub(crate) bytes: Range<usize>,
}

impl SystemPiece {
    pub(crate) fn volatility(&self, draft: &Draft) -> Volatility {
        match self.segment {
            Some(segment) => draft.segments[segment].volatility,
            None => shares(draft).map(|it| it.volatility).max().unwrap_or_default(),
        }
    }

    pub(crate) fn tokens(&self, draft: &Draft) -> Tokens {
        match self.segment {
            Some(segment) => draft.segments[segment].tokens,
            None => shares(draft).map(|it| it.tokens).sum(),
        }
    }
}

fn shares(draft: &Draft) -> impl Iterator<Item = &Segment> {
    draft.segments.iter().filter(|it| it.fate.is_sent() && it.slot == Slot::Tags)
}
