//! API rounds: one assistant message with the results of its tools.
//!
//! The input is a list of messages or items; the output is [`Round`]s that cover it without gaps. The rules:
//!
//! 1. A round is an assistant message and everything up to the next one. User messages before an assistant message
//!    belong to the round of that message.
//! 2. A call and its results are in one round, wherever the results are: if they come late, rounds are joined.
//! 3. Items of different turns are in different rounds, unless rule 2 joins them. A summary is a separate round.
//! 4. Items that the model does not read belong to the round before them.
//!
//! Results are matched with calls as in [`repair`](crate::repair()): a result belongs to the nearest message before it
//! that has an unanswered call with its id.

use std::borrow::Borrow;
use std::collections::HashMap;
use std::ops::Range;

use contexture_message::{Message, Part, Role};

use crate::{Body, Item, TurnNo};

/// One API round of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Round {
    /// Its range in the list.
    pub span: Range<usize>,
    /// Whether it has an assistant message. The last round may still lack one.
    pub is_answered: bool,
    /// Whether a call in it has no result.
    pub is_open: bool,
    /// Whether it is a summary of earlier items.
    pub is_summary: bool,
}

/// Returns the rounds of a list of messages, oldest first.
///
/// ```
/// use contexture_history::compaction::rounds;
/// use contexture_message::Message;
///
/// let messages = [Message::user("Hi"), Message::assistant("Hello"), Message::user("Where?"), Message::assistant("Here")];
/// let spans: Vec<_> = rounds(&messages).into_iter().map(|it| it.span).collect();
/// assert_eq!(spans, [0..2, 2..4]);
/// ```
pub fn rounds<M: Borrow<Message>>(messages: &[M]) -> Vec<Round> {
    grouped(messages.iter().map(|it| (None, Piece::Message(it.borrow()))))
}

/// Returns the rounds of items in the order in which the model reads them.
pub(crate) fn item_rounds<I: Borrow<Item>>(items: &[I]) -> Vec<Round> {
    grouped(items.iter().map(|it| {
        let item: &Item = it.borrow();
        (Some(item.turn), piece(item))
    }))
}

/// The role of a list entry in a round.
enum Piece<'a> {
    Message(&'a Message),
    /// A user message written by the engine.
    Event,
    Summary,
    /// An entry that the model does not read as a message.
    Aside,
}

fn piece(item: &Item) -> Piece<'_> {
    match &item.body {
        _ if !item.visibility.history => Piece::Aside,
        Body::Message(message) => Piece::Message(message),
        Body::SystemEvent(_) => Piece::Event,
        Body::Summary(_) => Piece::Summary,
        Body::Envelope(_) | Body::Application(_) | Body::Change(_) => Piece::Aside,
    }
}

fn grouped<'a>(pieces: impl Iterator<Item = (Option<TurnNo>, Piece<'a>)>) -> Vec<Round> {
    let mut links = Links::default();
    let mut rounds: Vec<Round> = Vec::new();
    let mut turn = None;
    for (position, (piece_turn, piece)) in pieces.enumerate() {
        if let Piece::Message(message) = piece {
            links.take_in(position, message);
        }
        let is_other_turn = turn != piece_turn;
        turn = piece_turn;
        let begins = rounds.last().is_none_or(|last| {
            is_other_turn || last.is_summary || matches!(piece, Piece::Summary) || {
                last.is_answered && begins_round(&piece)
            }
        });
        if begins {
            let span = position..position;
            rounds.push(Round { span, is_answered: false, is_open: false, is_summary: false });
        }
        if let Some(round) = rounds.last_mut() {
            round.span.end = position + 1;
            round.is_answered |= is_answer(&piece);
            round.is_summary |= matches!(piece, Piece::Summary);
        }
    }
    joined(rounds, &links)
}

fn begins_round(piece: &Piece<'_>) -> bool {
    match piece {
        Piece::Message(message) => {
            message.role != Role::Tool && !matches!(message.content.first(), Some(Part::ToolResult(_)))
        }
        Piece::Event => true,
        Piece::Summary | Piece::Aside => false,
    }
}

fn is_answer(piece: &Piece<'_>) -> bool {
    let asks = |it: &Part| matches!(it, Part::ToolCall(_));
    matches!(piece, Piece::Message(it) if it.role == Role::Assistant || it.content.iter().any(asks))
}

/// Joins rounds whose calls have results in a later round, and marks those with open calls.
fn joined(rounds: Vec<Round>, links: &Links<'_>) -> Vec<Round> {
    let mut out: Vec<Round> = Vec::with_capacity(rounds.len());
    let mut reach = 0;
    for mut round in rounds {
        round.is_open = round.span.clone().any(|it| links.open_at(it));
        let furthest = round.span.clone().filter_map(|it| links.furthest.get(&it)).max();
        match out.last_mut().filter(|_| reach >= round.span.start) {
            Some(last) => {
                last.span.end = round.span.end;
                last.is_answered |= round.is_answered;
                last.is_open |= round.is_open;
                last.is_summary = false;
            }
            None => out.push(round),
        }
        reach = reach.max(furthest.copied().unwrap_or(0));
    }
    out
}

/// Which position answers which call.
#[derive(Default)]
struct Links<'a> {
    /// The positions of calls without a result, by id.
    open: HashMap<&'a str, Vec<usize>>,
    /// For each position with calls, the position of the last result.
    furthest: HashMap<usize, usize>,
    /// For each position with calls, the number of calls without a result.
    n_open: HashMap<usize, usize>,
}

impl<'a> Links<'a> {
    fn take_in(&mut self, position: usize, message: &'a Message) {
        for part in &message.content {
            match part {
                Part::ToolCall(call) => {
                    self.open.entry(&call.id).or_default().push(position);
                    *self.n_open.entry(position).or_default() += 1;
                }
                Part::ToolResult(result) => {
                    let call = self.open.get_mut(result.call_id.as_str()).and_then(Vec::pop);
                    if let Some(call) = call {
                        self.furthest.insert(call, position);
                        *self.n_open.entry(call).or_default() -= 1;
                    }
                }
                Part::Text { .. }
                | Part::Image(_)
                | Part::File(_)
                | Part::Evidence(_)
                | Part::Thinking(_) => {}
            }
        }
    }

    fn open_at(&self, position: usize) -> bool {
        self.n_open.get(&position).is_some_and(|it| *it > 0)
    }
}
