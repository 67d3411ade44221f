//! The window: which turns of a history are included in a request.
//!
//! The input is turns, oldest first, and a limit; the output is a [`Window`] over them. The rules:
//!
//! 1. A turn is included whole or not at all.
//! 2. `{turns: N}` takes the newest N turns. `{tokens: N}` packs turns from the newest backward and stops at the first
//!    that does not fit. Without a limit, all turns are included.
//! 3. A turn in flight, which can only be the last, is always included and does not count against the limit.
//! 4. Under `{tokens: N}` the newest turn with content, besides one in flight, is always included. Tool results alone
//!    are not content: they may have no matching call. A limit of 0 takes no turn.
//! 5. A turn that contributes nothing still counts toward `{turns}`, even if it is the newest; it costs no tokens.
//!    A turn whose calls lack results is packed with the cost of the results that will complete them.
//! 6. A [leading](Turn::leading) turn, which can only be the first, is always included and does not count.
//! 7. A turn costs what was counted when it was stored, if the same counter asks; otherwise it is counted here, once.
//!
//! Turns outside the window are not examined: the work is proportional to the result, not to the length of the
//! conversation. Calls and results are paired when messages are read out, see [`repair`](crate::repair()).

pub(crate) mod limit;
pub(crate) mod newest;

use std::borrow::Borrow;
use std::sync::Arc;

use contexture_message::{Message, TokenCounter, Tokens};

use crate::repair::mend::{Difference, Group, Mended, mend};
use crate::{Limit, Repair, Repaired, Turn, TurnStatus};

/// The turns of a history that are included in a request.
#[derive(Clone, Debug)]
pub struct Window<'a, T> {
    turns: &'a [T],
    limit: Option<Limit>,
    span: Span,
    /// The costs of the kept turns, newest first.
    costs: Vec<Tokens>,
}

/// Which turns are kept: one that precedes all others, the newest ones, and maybe one older turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    /// How many turns precede all others: one or none.
    pub(crate) n_leading: usize,
    /// The index of the first of the newest turns that are kept.
    pub(crate) first: usize,
    /// The index of the newest turn with content, besides one in flight. It may be before `first`.
    pub(crate) newest: Option<usize>,
}

/// A kept turn with its repaired messages.
#[derive(Clone, Debug)]
pub struct RepairedTurn<'a> {
    /// The turn as it was passed in.
    pub turn: &'a Turn,
    /// Its messages, each call with its result. Empty if the turn contributes nothing.
    pub messages: Vec<Arc<Message>>,
    /// The repairs that were made.
    pub repairs: Vec<Repair>,
    before: Tokens,
    difference: Difference,
}

/// Chooses the turns to include.
///
/// ```
/// use contexture_history::{Limit, Turn, window};
/// use contexture_message::{Encoding, Message};
///
/// let turns: Vec<Turn> = (1..=4).map(|n| Turn::new(format!("t{n}"), vec![Message::user("hi")])).collect();
/// let window = window(&turns, Some(Limit::Turns(2)), &Encoding::O200kBase);
/// let kept: Vec<&str> = window.kept().map(|it| &**it.id()).collect();
/// assert_eq!(kept, ["t3", "t4"]);
/// assert_eq!(window.dropped().next().map(|(_, why)| why).as_deref(), Some("older than the newest 2 turns"));
/// ```
pub fn window<'a, T: Borrow<Turn>>(
    turns: &'a [T],
    limit: Option<Limit>,
    counter: &dyn TokenCounter,
) -> Window<'a, T> {
    let name = counter.profile().name;
    let cost = |turn: &T| turn.borrow().tokens(counter, &name);
    let (n_leading, n_settled) = (n_leading(turns), n_settled(turns));
    let newest = newest_speaking(turns).filter(|_| limit != Some(Limit::Tokens(Tokens(0))));
    let mut costs: Vec<Tokens> = turns[n_settled..].iter().map(cost).collect();
    let first = match limit {
        None => n_leading,
        Some(Limit::Turns(count)) => n_settled.saturating_sub(count).max(n_leading),
        Some(Limit::Tokens(Tokens(0))) => n_settled.max(n_leading),
        Some(Limit::Tokens(limit)) => {
            let (mut first, mut used) = (n_settled, Tokens(0));
            while let Some(position) = first.checked_sub(1).filter(|it| *it >= n_leading) {
                let tokens = cost(&turns[position]);
                let packed = packed(turns[position].borrow(), tokens, counter);
                if used + packed > limit && Some(position) != newest {
                    break;
                }
                used += packed;
                costs.push(tokens);
                first = position;
            }
            first
        }
    };
    // A limit on turns excludes older turns whatever they hold.
    let newest = newest.filter(|it| !matches!(limit, Some(Limit::Turns(_))) || *it >= first);
    let span = Span { n_leading, first, newest };
    let n_counted = costs.len();
    costs.extend(turns[first..].iter().rev().skip(n_counted).map(cost));
    costs.extend(span.older().map(|it| cost(&turns[it])));
    costs.extend(turns[..n_leading].iter().map(cost));
    Window { turns, limit, span, costs }
}

/// Returns the cost of a turn after it is repaired by itself. A result without a call in this turn is still counted,
/// since its call may be in another turn.
fn packed(turn: &Turn, tokens: Tokens, counter: &dyn TokenCounter) -> Tokens {
    if turn.is_paired() {
        return tokens;
    }
    let repaired = mend(&[group(turn)]).into_iter().map(|it| it.difference.tokens(tokens, counter));
    repaired.fold(tokens, Tokens::max)
}

/// Returns the number of turns besides one in flight.
fn n_settled<T: Borrow<Turn>>(turns: &[T]) -> usize {
    let is_in_flight = turns.last().is_some_and(|it| it.borrow().status() == TurnStatus::InFlight);
    turns.len() - usize::from(is_in_flight)
}

/// Returns the number of turns that precede all others: one or none.
fn n_leading<T: Borrow<Turn>>(turns: &[T]) -> usize {
    usize::from(turns.first().is_some_and(|it| it.borrow().is_leading()))
}

/// Returns the last turn with content, besides one in flight and one that precedes all others.
fn newest_speaking<T: Borrow<Turn>>(turns: &[T]) -> Option<usize> {
    let newest = turns[..n_settled(turns)].iter().rposition(|it| it.borrow().has_words());
    newest.filter(|it| *it >= n_leading(turns))
}

/// Returns which turns `{turns: count}` keeps.
pub(crate) fn newest_turns<T: Borrow<Turn>>(turns: &[T], count: usize) -> Span {
    let n_leading = n_leading(turns);
    let first = n_settled(turns).saturating_sub(count).max(n_leading);
    Span { n_leading, first, newest: newest_speaking(turns).filter(|it| *it >= first) }
}

impl Span {
    /// Returns the kept turn that is older than the others, if there is one.
    pub(crate) fn older(self) -> Option<usize> {
        self.newest.filter(|it| *it < self.first)
    }
}

impl<'a, T: Borrow<Turn>> Window<'a, T> {
    /// Lists the included turns, oldest first, including those that contribute nothing.
    pub fn kept(&self) -> impl Iterator<Item = &'a Turn> + use<'a, T> {
        let (leading, older) = (&self.turns[..self.span.n_leading], self.span.older());
        let older = older.map(|it| &self.turns[it]);
        leading.iter().chain(older).chain(&self.turns[self.span.first..]).map(Borrow::borrow)
    }

    /// Lists the excluded turns, oldest first, each with the reason.
    pub fn dropped(&self) -> impl Iterator<Item = (&'a Turn, String)> + use<'a, T> {
        let older = self.span.older();
        let reason = match self.limit {
            None => String::new(),
            Some(Limit::Turns(0) | Limit::Tokens(Tokens(0))) => "the limit is 0".to_owned(),
            Some(Limit::Turns(1)) => "older than the newest turn".to_owned(),
            Some(Limit::Turns(count)) => format!("older than the newest {count} turns"),
            Some(Limit::Tokens(limit)) => format!("beyond {limit} tokens of history"),
        };
        let before = self.turns[..self.span.first].iter().enumerate().skip(self.span.n_leading);
        let outside = before.filter(move |(idx, _)| Some(*idx) != older);
        outside.map(move |(_, it)| (it.borrow(), reason.clone()))
    }

    /// Whether the turn at this index is included.
    pub fn is_kept(&self, idx: usize) -> bool {
        let is_newest = (self.span.first..self.turns.len()).contains(&idx);
        is_newest || idx < self.span.n_leading || Some(idx) == self.span.older()
    }

    /// Whether the turn at this index is included under any limit: the newest with content, one in flight, and one
    /// that precedes all others.
    pub fn is_pinned(&self, idx: usize) -> bool {
        Some(idx) == self.span.newest
            || idx < self.span.n_leading
            || (n_settled(self.turns)..self.turns.len()).contains(&idx)
    }

    /// Returns the total cost of the kept turns, as they were passed in.
    pub fn tokens(&self) -> Tokens {
        self.costs.iter().copied().sum()
    }

    /// Returns all included messages, each call with its result. If every turn is paired, the messages are shared.
    pub fn messages(&self) -> Repaired {
        let speaking = || self.kept().filter(|it| it.has_content());
        if speaking().all(Turn::is_paired) {
            let mut messages = Vec::with_capacity(speaking().map(|it| it.messages().len()).sum());
            speaking().for_each(|it| messages.extend_from_slice(it.messages()));
            return Repaired { messages, repairs: Vec::new() };
        }
        let mut repaired = Repaired::default();
        for turn in self.repaired_turns() {
            repaired.messages.extend(turn.messages);
            repaired.repairs.extend(turn.repairs);
        }
        repaired
    }

    /// Returns the kept turns one by one, oldest first, each with its repaired messages.
    ///
    /// Each turn is complete by itself: a result found in another turn is moved to the turn of its call.
    pub fn repaired_turns(&self) -> Vec<RepairedTurn<'a>> {
        let groups: Vec<Group<'_>> = self.kept().map(group).collect();
        let kept = self.kept().zip(self.costs.iter().rev()).zip(mend(&groups));
        kept.map(|((turn, before), Mended { messages, repairs, difference })| RepairedTurn {
            turn,
            messages,
            repairs,
            before: *before,
            difference,
        })
        .collect()
    }
}

impl RepairedTurn<'_> {
    /// Returns the cost of the messages. For a repaired turn only the added and removed messages are counted.
    pub fn tokens(&self, counter: &dyn TokenCounter) -> Tokens {
        self.difference.tokens(self.before, counter)
    }
}

fn group(turn: &Turn) -> Group<'_> {
    // A turn without content would only add blank messages.
    let messages = if turn.has_content() { turn.messages() } else { &[] };
    Group { messages, is_paired: turn.is_paired(), is_neutral: turn.is_neutral() }
}
