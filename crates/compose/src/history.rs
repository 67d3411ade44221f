//! The window over the history that was handed in.
//!
//! Every turn is a Segment of its own, oldest first. The prompt's `history.limit` decides how many take part,
//! counted from the newest back; whole turns only, and the newest turn that has content always takes part.

use contexture_message::Tokens;

use crate::neutral::neutral_message;
use crate::segment::{Fate, Slot, Trust, Volatility, messages_tokens};
use crate::setup::Setup;
use crate::{Body, HistoryLimit, Priority, Segment, Source, Turn};

/// Returns the turns as Segments.
pub(crate) fn history_segments(setup: &Setup<'_>) -> Vec<Segment> {
    let turns = &setup.options.history;
    let newest = turns.iter().rposition(Turn::has_content);
    let limit = setup.prompt.definition().history.limit;
    let counter_name = setup.counter.profile().name;
    let tokens = |turn: &Turn| match &turn.cost {
        Some(cost) if cost.counter == counter_name => cost.tokens,
        _ => messages_tokens(&*setup.counter, &turn.messages),
    };
    let first = limit.map_or(0, |limit| first_within(turns, limit, newest, &tokens));
    let segment = |(position, turn): (usize, &Turn)| {
        let is_newest = Some(position) == newest;
        match position < first && !is_newest {
            // Nothing of a turn outside the window is looked at: old turns must not cost anything.
            true => Segment {
                slot: Slot::History,
                ..Segment::excluded(source(turn), limit.map(outside).unwrap_or_default())
            },
            false => Segment { pinned: is_newest, tokens: tokens(turn), ..segment(turn) },
        }
    };
    turns.iter().enumerate().map(segment).collect()
}

fn source(turn: &Turn) -> Source {
    Source::named("history", &turn.id)
}

fn segment(turn: &Turn) -> Segment {
    let body = Body::Messages(turn.messages.iter().map(neutral_message).collect());
    Segment {
        priority: Priority::HISTORY,
        volatility: Volatility::Conversation,
        trust: Trust::User,
        fate: if turn.has_content() { Fate::Kept } else { Fate::Empty },
        ..Segment::new(source(turn), Slot::History, body)
    }
}

/// Returns the position of the oldest turn within the limit.
fn first_within(
    turns: &[Turn],
    limit: HistoryLimit,
    newest: Option<usize>,
    tokens: &impl Fn(&Turn) -> Tokens,
) -> usize {
    match limit {
        HistoryLimit::Turns(count) => turns.len().saturating_sub(count),
        HistoryLimit::Tokens(limit) => {
            let mut used = Tokens(0);
            let fits = |(position, turn): &(usize, &Turn)| {
                used += tokens(turn);
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
