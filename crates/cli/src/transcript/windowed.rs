//! The part of a transcript that fits a limit.

use std::collections::HashMap;
use std::ptr;

use contexture_history::{Cost, Limit, Repair, RepairedTurn, Turn, window};
use contexture_message::{Message, TokenCounter, Tokens, message_tokens};

use super::trace::{self, Piece};
use super::{Calls, Json, Made, Placed, Transcript};

/// The kept part of a transcript, and the reasons why turns were dropped.
#[derive(Debug)]
pub(crate) struct Windowed<'t> {
    /// The ids of the turns that contribute messages.
    pub(crate) turns: Vec<String>,
    /// The messages, in the format of the transcript.
    pub(crate) messages: Vec<Json<'t>>,
    /// The `system` field of a request.
    pub(crate) system: Option<Json<'t>>,
    /// The dropped turns, oldest first, each with the reason.
    pub(crate) dropped: Vec<(String, String)>,
    /// The repairs, each with its turn.
    pub(crate) repairs: Vec<(String, Repair)>,
    /// The cost of the kept messages, including message framing.
    pub(crate) tokens: Tokens,
    /// The transcript reduced to the kept messages.
    pub(crate) text: String,
}

impl<'t> Transcript<'t> {
    /// Returns the part of the transcript that fits a limit.
    pub(crate) fn window(&self, limit: Option<Limit>, counter: &dyn TokenCounter) -> Windowed<'t> {
        let turns = self.counted(limit, counter);
        let window = window(&turns, limit, counter);
        let mut dropped: Vec<(String, String)> =
            window.dropped().map(|(turn, why)| (turn.id().to_string(), why)).collect();
        let leading =
            self.leading.iter().map(|it| Placed { piece: Piece::Whole(*it), turn: None, begins: false });
        let mut pieces: Vec<Placed<'_>> = leading.collect();
        let (mut kept, mut repairs) = (Vec::new(), Vec::new());
        for repaired in window.repaired_turns() {
            let id = repaired.turn.id().to_string();
            repairs.extend(repaired.repairs.iter().map(|it| (id.clone(), it.clone())));
            match repaired.messages.is_empty() {
                true => dropped.push((id, nothing_left(&repaired).to_owned())),
                false => kept.push(id),
            }
            pieces.extend(self.pieces(&repaired));
        }
        self.in_order(&mut dropped);
        let made = self.format.write(&self.entries, &pieces);
        let of_system = self.system.as_ref().map_or(Tokens(0), |it| message_tokens(counter, it));
        let tokens = of_system + made.iter().map(|it| self.tokens(it, counter)).sum();
        let messages = made.into_iter().map(|it| self.json(it)).collect();
        let text = self.text(&messages);
        let system = self.system.as_ref().and(self.source.system).map(Json::Borrowed);
        Windowed { turns: kept, messages, system, dropped, repairs, tokens, text }
    }

    /// Returns the sketches with the real cost of their turns, if the limit depends on it.
    fn counted(&self, limit: Option<Limit>, counter: &dyn TokenCounter) -> Vec<Turn> {
        let name = counter.profile().name;
        let is_needed = matches!(limit, Some(Limit::Tokens(_)));
        let cost = |turn: &Turn| {
            let numbers = turn.messages().iter().filter_map(|it| trace::number(it));
            let tokens = numbers.map(|it| message_tokens(counter, &self.entries[it].message)).sum();
            Cost { counter: (*name).into(), tokens }
        };
        let turns = self.turns.iter();
        turns.map(|it| if is_needed { it.clone().with_cost(cost(it)) } else { it.clone() }).collect()
    }

    /// Returns the kept pieces of a turn.
    fn pieces(&self, turn: &RepairedTurn<'_>) -> impl Iterator<Item = Placed<'_>> {
        // If a turn has a declared id, its first message declares it.
        let first = turn.turn.messages().first().and_then(|it| trace::number(it));
        let given = first.and_then(|it| self.entries[it].fields.get("turn")).filter(|it| !it.is_null());
        let pieces = turn.messages.iter().map(|it| self.piece(it)).collect::<Vec<_>>().into_iter();
        pieces.enumerate().map(move |(idx, piece)| Placed { piece, turn: given, begins: idx == 0 })
    }

    fn piece(&self, sketch: &Message) -> Piece {
        trace::piece(sketch, |number| &self.entries[number].message.content)
    }

    /// Sorts turns in the order of the transcript.
    fn in_order(&self, turns: &mut [(String, String)]) {
        let places: HashMap<&str, usize> =
            self.turns.iter().enumerate().map(|(place, it)| (&**it.id(), place)).collect();
        turns.sort_by_key(|(id, _)| places.get(id.as_str()).copied());
    }

    /// Returns the cost of an output message.
    fn tokens(&self, made: &Made, counter: &dyn TokenCounter) -> Tokens {
        match made {
            Made::Same(number) => message_tokens(counter, &self.entries[*number].message),
            Made::New(fields) => {
                let read = self.format.read(fields, &mut Calls::default());
                read.map_or(Tokens(0), |(_, message)| message_tokens(counter, &message))
            }
        }
    }

    fn text(&self, messages: &Vec<Json<'t>>) -> String {
        let is_same = messages.len() == self.entries.len()
            && messages.iter().zip(&self.entries).all(|(out, came)| ptr::eq(&**out, came.raw));
        self.source.layout.written(messages, is_same)
    }
}

fn nothing_left(turn: &RepairedTurn<'_>) -> &'static str {
    match turn.turn.has_content() {
        true => "it is empty: nothing is left of it after the repair",
        false => "it is empty: nothing is said in it",
    }
}

/// Describes a repair.
pub(crate) fn reason(repair: &Repair) -> String {
    // A provider's result does not name its tool.
    repair.to_string().replace(" of ``", "")
}
