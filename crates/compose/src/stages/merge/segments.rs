//! Converts contributions into Segments.

use std::sync::Arc;

use contexture_history::neutral::neutralise_envelopes;
use contexture_message::{Message, Part, Role};

use crate::lower::Node;
use crate::segment::{Fate, Offers, Slot, Volatility};
use crate::stages::draft::evidence_in;
use crate::stages::gate::IN_ENVELOPE;
use crate::{Body, Piece, Segment, Source, Turn};

/// Returns the Segment of one text of a contribution.
pub(super) fn piece_segment(node: &Node, slot: Slot, piece: &Piece) -> Segment {
    let max_tokens = node.profile.max_tokens;
    let has_offers = !piece.shorter.is_empty() || max_tokens.is_some();
    let offers = match has_offers {
        true => Arc::new(Offers { shorter: piece.shorter.clone(), max_tokens }),
        false => Offers::none(),
    };
    let (body, fate) = match (&piece.excluded, &piece.evidence) {
        (Some(reason), _) => (Body::Nothing, Fate::Excluded { reason: reason.clone().into() }),
        (None, Some(evidence)) if slot == Slot::Envelope => {
            let parts = vec![Part::Evidence((**evidence).clone())];
            (Body::Messages(vec![Arc::new(Message::parts(Role::User, parts))]), Fate::Kept)
        }
        (None, _) if piece.text.is_empty() => (piece.text.clone().into(), Fate::Empty),
        (None, _) => (piece.text.clone().into(), Fate::Kept),
    };
    let segment = node_segment(node, slot, body);
    let priority = piece.priority.unwrap_or(segment.priority);
    let source = piece.source.clone().unwrap_or(segment.source);
    let (frozen, detail) = (piece.frozen.clone(), piece.detail.clone());
    Segment { source, priority, offers, fate, frozen, detail, ..segment }
}

/// Why content for the envelope is left out if the recorded turn lacks it.
const NOT_IN_ENVELOPE: &str = "left out when the turn began";

/// Returns a Segment without its content: the recorded turn has it in its envelope, or was recorded without it.
pub(super) fn in_envelope(segment: Segment, turn: Option<&Turn>) -> Segment {
    match segment.fate {
        Fate::Empty | Fate::Excluded { .. } => segment,
        _ => {
            let reason = if is_recorded(&segment, turn) { IN_ENVELOPE } else { NOT_IN_ENVELOPE };
            let fate = Fate::Excluded { reason: reason.into() };
            Segment { body: Body::Nothing, offers: Offers::none(), fate, ..segment }
        }
    }
}

/// Returns whether a turn has the content of a Segment in its user messages.
fn is_recorded(segment: &Segment, turn: Option<&Turn>) -> bool {
    let parts = || turn.into_iter().flat_map(Turn::messages).flat_map(|it| &it.content);
    let mut evidence = evidence_in(&segment.body).peekable();
    if evidence.peek().is_some() {
        let has = |chunk: &str| parts().any(|it| matches!(it, Part::Evidence(it) if it.chunk == chunk));
        return evidence.all(|it| has(&it.chunk));
    }
    let Some(text) = segment.text().map(neutralise_envelopes) else { return true };
    parts().any(|it| matches!(it, Part::Text { text: said, .. } if said.contains(&*text)))
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
