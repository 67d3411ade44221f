//! Groups a transcript into turns: a plain list of messages, some with the id of their turn.
//!
//! The rules:
//!
//! 1. A message with an id belongs to that turn, which begins with the first such message. If another turn has begun
//!    since, the message is added to the end of its own turn, so that a late result reaches its call.
//! 2. A message without an id begins a turn if it is from the user, and belongs to the turn before otherwise. A
//!    message with only tool results does not count as from the user, whatever its role.
//! 3. Turns without an id are named `t1`, `t2`, … by position, skipping names that any message uses.
//! 4. System messages without an id before everything else belong to no turn.

use std::collections::HashSet;

use contexture_message::{Message, Part, Role};
use indexmap::IndexMap;

use crate::Turn;

/// The contents of a transcript.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Transcript {
    /// The system messages at the beginning.
    pub system: Vec<Message>,
    /// The turns, oldest first.
    pub turns: Vec<Turn>,
}

/// Groups the messages of a transcript into turns.
///
/// ```
/// use contexture_history::group_turns;
/// use contexture_message::Message;
///
/// let said = [Message::user("a"), Message::assistant("b"), Message::user("c")];
/// let transcript = group_turns(said.map(|it| (None, it)));
/// let ids: Vec<&str> = transcript.turns.iter().map(|it| &**it.id()).collect();
/// assert_eq!(ids, ["t1", "t2"]);
/// ```
pub fn group_turns(messages: impl IntoIterator<Item = (Option<String>, Message)>) -> Transcript {
    let messages: Vec<_> = messages.into_iter().collect();
    let mut names = Names::given(&messages);
    let mut system = Vec::new();
    let mut turns: IndexMap<String, Vec<Message>> = IndexMap::new();
    let mut open: Option<String> = None;
    for (id, message) in messages {
        let id = match (id, open.take()) {
            (None, None) if message.role == Role::System => {
                system.push(message);
                continue;
            }
            (Some(id), _) => id,
            (None, Some(open)) if !begins_turn(&message) => open,
            (None, _) => names.next(turns.len() + 1),
        };
        turns.entry(id.clone()).or_default().push(message);
        open = Some(id);
    }
    let turns = turns.into_iter().map(|(id, messages)| Turn::new(id, messages)).collect();
    Transcript { system, turns }
}

/// Whether a message without an id begins a turn.
fn begins_turn(message: &Message) -> bool {
    let is_result = |it: &Part| matches!(it, Part::ToolResult(_));
    message.role == Role::User && (message.content.is_empty() || !message.content.iter().all(is_result))
}

/// The names of turns in a transcript.
struct Names {
    /// All names that the messages use.
    given: HashSet<String>,
    /// The number of the last generated name.
    last: usize,
}

impl Names {
    fn given(messages: &[(Option<String>, Message)]) -> Self {
        let given = messages.iter().filter_map(|(id, _)| id.clone()).collect();
        Self { given, last: 0 }
    }

    /// Generates a name for the turn at `place`, counted from 1.
    fn next(&mut self, place: usize) -> String {
        self.last = place.max(self.last + 1);
        while self.given.contains(&format!("t{}", self.last)) {
            self.last += 1;
        }
        format!("t{}", self.last)
    }
}
