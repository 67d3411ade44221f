//! Converts contributions into Segments.

use std::sync::Arc;

use crate::lower::Node;
use crate::segment::{Fate, Offers, Slot, Volatility};
use crate::stages::gate::IN_ENVELOPE;
use crate::{Body, Piece, Segment, Source};

/// Returns the Segment of one text of a contribution.
pub(super) fn piece_segment(node: &Node, slot: Slot, piece: &Piece) -> Segment {
    let max_tokens = node.profile.max_tokens;
    let has_offers = !piece.shorter.is_empty() || max_tokens.is_some();
    let offers = match has_offers {
        true => Arc::new(Offers { shorter: piece.shorter.clone(), max_tokens }),
        false => Offers::none(),
    };
    let segment = node_segment(node, slot, piece.text.clone());
    let fate = if piece.text.is_empty() { Fate::Empty } else { Fate::Kept };
    let priority = piece.priority.unwrap_or(segment.priority);
    Segment { priority, offers, fate, frozen: piece.frozen.clone(), ..segment }
}

/// Returns a Segment without its text, which the turn's envelope already contains.
pub(super) fn in_envelope(segment: Segment) -> Segment {
    match segment.fate {
        Fate::Empty => segment,
        _ => {
            let fate = Fate::Excluded { reason: IN_ENVELOPE.into() };
            Segment { body: Body::Nothing, offers: Offers::none(), fate, ..segment }
        }
    }
}

/// Returns a Segment with the options of its entry.
pub(super) fn node_segment(node: &Node, slot: Slot, body: impl Into<Body>) -> Segment {
    let profile = &node.profile;
    Segment {
        priority: profile.priority,
        pinned: profile.pinned,
        cached: profile.cached,
        volatility: profile.volatility.unwrap_or(Volatility::Turn),
        trust: profile.trust,
        ..Segment::new(node.source.clone(), slot, body)
    }
}

/// Returns a Segment of the prompt's own text, which is never dropped.
pub(super) fn own_segment(
    source: Source,
    slot: Slot,
    body: impl Into<Body>,
    volatility: Volatility,
) -> Segment {
    let body = body.into();
    let is_empty = match &body {
        Body::Text(text) => text.trim().is_empty(),
        Body::Messages(messages) => messages.iter().all(|it| it.is_blank()),
        Body::Nothing | Body::Tags(_) | Body::Tool(_) => false,
    };
    let fate = if is_empty { Fate::Empty } else { Fate::Kept };
    Segment { pinned: true, volatility, fate, ..Segment::new(source, slot, body) }
}
