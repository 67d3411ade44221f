//! The newest messages of a history, regardless of turns.
//!
//! For callers with a fixed message limit. Calls and results stay together: if the cut would separate them, the
//! results are left out too, so fewer messages than requested may be returned. The cost is proportional to the result.

use std::borrow::Borrow;
use std::sync::Arc;

use contexture_message::{Message, Part};

use crate::{Turn, repair};

/// Returns at most `count` of the newest messages, each call with its results.
///
/// The limit counts messages, not turns. A call whose results reach into the newest messages is left out with them.
/// Repairs never produce more than `count` messages.
///
/// ```
/// use contexture_history::{Turn, newest_messages};
/// use contexture_message::Message;
///
/// let turns = [Turn::new("t1", vec![Message::user("a"), Message::assistant("b"), Message::user("c")])];
/// let newest = newest_messages(&turns, 2);
/// assert_eq!(newest.iter().filter_map(|it| it.as_text()).collect::<Vec<_>>(), ["b", "c"]);
/// ```
pub fn newest_messages<T: Borrow<Turn>>(turns: &[T], count: usize) -> Vec<Arc<Message>> {
    let (mut pieces, mut n_messages) = (Vec::new(), 0);
    let mut is_paired = true;
    for turn in turns.iter().rev().map(Borrow::borrow) {
        if n_messages == count {
            break;
        }
        let messages = if turn.has_content() { turn.messages() } else { &[] };
        let taken = &messages[messages.len().saturating_sub(count - n_messages)..];
        n_messages += taken.len();
        is_paired &= turn.is_paired();
        pieces.push(taken);
    }
    let mut newest: Vec<Arc<Message>> = Vec::with_capacity(n_messages);
    pieces.into_iter().rev().for_each(|it| newest.extend_from_slice(it));
    // In paired turns results directly follow their calls, so a cut between them leaves results at the start.
    let n_cut =
        newest.iter().take_while(|it| !it.content.is_empty() && it.content.iter().all(is_result)).count();
    let is_clean = newest.get(n_cut).is_none_or(|it| !it.content.iter().any(is_result));
    if is_paired && is_clean {
        newest.drain(..n_cut);
        return newest;
    }
    let mended = repair(&newest).messages;
    match mended.len().checked_sub(count) {
        None | Some(0) => mended,
        // Cutting the start of paired messages can only remove results there, never add any.
        Some(excess) => repair(&mended[excess..]).messages,
    }
}

fn is_result(part: &Part) -> bool {
    matches!(part, Part::ToolResult(_))
}
