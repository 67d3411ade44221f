//! Selects which turns of the history are sent.
//!
//! Every turn is a separate Segment, oldest first. The prompt's `history.limit` decides how many are included, see
//! [`window`]; the others are excluded with the reason. Calls and results are paired within each turn, so that any
//! turn can be dropped later. Turns that were not passed in, or that a transform left out, are listed before them.

use std::sync::Arc;

use contexture_history::neutral::neutral_message;
use contexture_history::{Repair, RepairedTurn, window};
use contexture_message::Tokens;

use crate::segment::{Fate, Slot, Trust, Volatility};
use crate::stages::rewrite::Rewritten;
use crate::stages::setup::Setup;
use crate::{Body, Priority, Segment, Source, Turn};

/// The history on its way into a request.
pub(crate) struct History {
    pub(crate) segments: Vec<Segment>,
    /// The repairs that paired calls with results, by the repaired Segment.
    pub(crate) repairs: Vec<(Source, Repair)>,
}

/// Returns the turns as Segments.
pub(crate) fn history_segments(setup: &Setup<'_>, rewritten: &Rewritten<'_>) -> History {
    let (turns, absent) = (&*rewritten.history, &setup.options.conversation.absent);
    let window = window(turns, setup.prompt.definition.history.limit, &*setup.counter);
    let (mut kept, mut dropped) = (window.repaired_turns().into_iter(), window.dropped());
    let mut segments = Vec::with_capacity(absent.len() + rewritten.left_out.len() + turns.len());
    segments.extend(
        absent.iter().map(|it| excluded(Source::Noted(it.source.as_str().into()), it.reason.clone())),
    );
    segments
        .extend(rewritten.left_out.iter().map(|(source, reason)| excluded(source.clone(), reason.clone())));
    let mut history = History { segments, repairs: Vec::new() };
    for position in 0..turns.len() {
        if !window.is_kept(position) {
            let outside = dropped.next();
            history.segments.extend(
                outside.map(|(turn, reason)| excluded(source(turn), format!("{reason} (history.limit)"))),
            );
            continue;
        }
        let Some(turn) = kept.next() else { continue };
        let source = source(turn.turn);
        history.repairs.extend(turn.repairs.iter().map(|it| (source.clone(), it.clone())));
        let segment = Segment { pinned: window.is_pinned(position), ..segment(source, turn, setup) };
        history.segments.push(segment);
    }
    history
}

fn source(turn: &Turn) -> Source {
    Source::History(Arc::clone(turn.id()))
}

/// Returns the Segment of a turn outside the window without reading the turn: old turns must not cost anything.
fn excluded(source: Source, reason: String) -> Segment {
    Segment { slot: Slot::History, ..Segment::excluded(source, reason) }
}

fn segment(source: Source, turn: RepairedTurn<'_>, setup: &Setup<'_>) -> Segment {
    // A turn that had content may be empty now: it consisted of a result without a call.
    let (fate, tokens) = match turn.messages.iter().all(|it| it.is_blank()) {
        true => (Fate::Empty, Tokens(0)),
        false => (Fate::Kept, turn.tokens(&*setup.counter)),
    };
    let messages = match turn.turn.is_neutral() {
        true => turn.messages,
        false => turn.messages.iter().map(neutral_message).collect(),
    };
    Segment {
        priority: Priority::HISTORY,
        volatility: Volatility::Conversation,
        trust: Trust::User,
        tokens,
        fate,
        ..Segment::new(source, Slot::History, Body::Messages(messages))
    }
}
