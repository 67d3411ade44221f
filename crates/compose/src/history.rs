//! The window over the history that was handed in.
//!
//! Every turn is a Segment of its own, oldest first. The prompt's `history.limit` decides how many take part,
//! counted from the newest back; whole turns only, and the newest turn that has content always takes part.

use std::sync::Arc;

use contexture_message::{TokenCounter, Tokens};

use crate::engine::Setup;
use crate::merge::messages_tokens;
use crate::neutral::neutral_message;
use crate::segment::{Fate, Slot, Trust, Volatility};
use crate::{Body, HistoryLimit, Priority, Segment, Source, Turn};

/// Returns the turns as Segments.
pub(crate) fn history_segments(setup: &Setup<'_>) -> Vec<Segment> {
    let turns = &setup.options.history;
    let newest = turns.iter().rposition(Turn::has_content);
    let limit = setup.prompt.definition().history.limit;
    let mut segments: Vec<Segment> = turns.iter().map(|turn| segment(turn, &setup.counter)).collect();
    let first = limit.map_or(0, |limit| first_within(&segments, limit, newest));
    for (position, segment) in segments.iter_mut().enumerate() {
        segment.pinned = Some(position) == newest;
        if position < first && !segment.pinned {
            segment.fate = Fate::Excluded { reason: limit.map(outside).unwrap_or_default() };
        }
    }
    segments
}

fn segment(turn: &Turn, counter: &Arc<dyn TokenCounter>) -> Segment {
    let body = Body::Messages(turn.messages.iter().map(neutral_message).collect());
    Segment {
        priority: Priority::HISTORY,
        volatility: Volatility::Conversation,
        trust: Trust::User,
        tokens: turn.tokens.unwrap_or_else(|| messages_tokens(&**counter, &turn.messages)),
        fate: if turn.has_content() { Fate::Kept } else { Fate::Empty },
        ..Segment::new(Source::named("history", &turn.id), Slot::History, body)
    }
}

/// Returns the position of the oldest turn within the limit.
fn first_within(turns: &[Segment], limit: HistoryLimit, newest: Option<usize>) -> usize {
    match limit {
        HistoryLimit::Turns(count) => turns.len().saturating_sub(count),
        HistoryLimit::Tokens(limit) => {
            let mut used = Tokens(0);
            let fits = |(position, turn): &(usize, &Segment)| {
                used += turn.tokens;
                used <= limit || Some(*position) == newest
            };
            turns.len() - turns.iter().enumerate().rev().take_while(fits).count()
        }
    }
}

fn outside(limit: HistoryLimit) -> String {
    match limit {
        HistoryLimit::Turns(count) => format!("older than the newest {count} turns (history.limit)"),
        HistoryLimit::Tokens(limit) => format!("beyond {limit} tokens of history (history.limit)"),
    }
}
