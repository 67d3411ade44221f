//! The window over the history that was handed in.
//!
//! Every turn is a Segment of its own, oldest first. The prompt's `history.limit` decides how many take part, see
//! [`window`]; the others are excluded with the reason, and so are, before all others, those that a transform left out. Calls and results are paired within each turn, so that any
//! turn can give way later.

use contexture_history::neutral::neutral_message;
use contexture_history::{Repair, RepairedTurn, window};
use contexture_message::Tokens;

use crate::rewrite::Rewritten;
use crate::segment::{Fate, Slot, Trust, Volatility};
use crate::setup::Setup;
use crate::{Body, Priority, Segment, Source, Turn};

/// The history on its way into a request.
pub(crate) struct History {
    pub(crate) segments: Vec<Segment>,
    /// What was done to pair calls with results, by the Segment that was repaired.
    pub(crate) repairs: Vec<(Source, Repair)>,
}

/// Returns the turns as Segments.
pub(crate) fn history_segments(setup: &Setup<'_>, rewritten: &Rewritten<'_>) -> History {
    let turns = &*rewritten.history;
    let window = window(turns, setup.prompt.definition().history.limit, &*setup.counter);
    let (mut kept, mut dropped) = (window.repaired_turns().into_iter(), window.dropped());
    let mut history = History { segments: Vec::with_capacity(turns.len()), repairs: Vec::new() };
    let left_out = rewritten.left_out.iter().map(|(source, reason)| Segment {
        slot: Slot::History,
        ..Segment::excluded(source.clone(), reason.clone())
    });
    history.segments.extend(left_out);
    for position in 0..turns.len() {
        if !window.is_kept(position) {
            history.segments.extend(dropped.next().map(|(turn, reason)| excluded(turn, &reason)));
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
    Source::named("history", turn.id())
}

/// Nothing of a turn outside the window is looked at: old turns must not cost anything.
fn excluded(turn: &Turn, reason: &str) -> Segment {
    let excluded = Segment::excluded(source(turn), format!("{reason} (history.limit)"));
    Segment { slot: Slot::History, ..excluded }
}

fn segment(source: Source, turn: RepairedTurn<'_>, setup: &Setup<'_>) -> Segment {
    // Also a turn that had content may be empty now: it was a result that has no call.
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
