//! What has happened in the running turn.

use std::sync::Arc;

use contexture_history::neutral::neutral_message;
use contexture_message::{Message, Part, Role};

use crate::render::is_engines;
use crate::rewrite::Rewritten;

/// Returns what has happened in this turn so far. In a turn of a log, the engine's tags are the engine's.
pub(super) fn in_flight(rewritten: &Rewritten<'_>) -> Vec<Arc<Message>> {
    let (turn, plain) = (rewritten.turn.iter(), rewritten.plain.iter());
    let logged = turn.flat_map(|turn| {
        let neutral = |it| if turn.is_neutral() { Arc::clone(it) } else { neutral_message(it) };
        turn.messages().iter().map(neutral)
    });
    logged.chain(plain.map(neutral_message)).filter(|it| !it.is_blank()).collect()
}

/// Whether the user says exactly this in a message, whatever the engine has put behind it.
pub(super) fn is_said(message: &Message, text: &str) -> bool {
    let mut words = message.content.iter().filter(|it| !is_engines(it));
    match (words.next(), words.next()) {
        (Some(Part::Text { text: said }), None) => message.role == Role::User && said == text,
        _ => false,
    }
}
