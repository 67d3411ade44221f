//! Finds what can be shortened in a conversation, and by how much.
//!
//! The input is the conversation as it is shown now; the output is its [`Shrinkable`] parts. [`lowered`] caps the
//! largest of them first, and as few as possible.

use std::cmp::Reverse;

use contexture_message::{Message, Part, Role, TokenCounter, Tokens, part_tokens};

use super::cut::{Caps, cuttable_tokens, is_summary, message_handle};
use crate::{Turn, TurnStatus};

/// A part of a conversation that can be shortened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shrinkable {
    /// The kind of part.
    pub kind: ShrinkableKind,
    /// The handle of the full text in the log.
    pub handle: String,
    /// Its cost as it is shown now.
    pub tokens: Tokens,
}

/// The kinds of parts that can be shortened, in the order in which they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ShrinkableKind {
    /// A tool result that the model has read.
    ReadResult,
    /// A tool result of the newest round: the model reads it with the next request.
    UnreadResult,
    /// The text of a user or assistant message in the turn in flight.
    Message,
}

/// Lists the parts of `turns` that can be shortened, oldest first. The last turn may be in flight.
pub fn shrinkable(turns: &[Turn], counter: &dyn TokenCounter) -> Vec<Shrinkable> {
    let mut found = Vec::new();
    let current = turns.last().filter(|it| it.status() == TurnStatus::InFlight).map(Turn::id);
    for turn in turns {
        let is_current = Some(turn.id()) == current;
        let last_answer = turn.messages().iter().rposition(|it| it.role == Role::Assistant);
        for (position, message) in turn.messages().iter().enumerate() {
            let is_unread = is_current && last_answer.is_none_or(|it| position > it);
            let kind = if is_unread { ShrinkableKind::UnreadResult } else { ShrinkableKind::ReadResult };
            found.extend(results(message, kind, counter));
            found.extend(
                message_handle(turn.id(), message).filter(|_| is_current && !is_summary(message)).map(
                    |handle| Shrinkable {
                        kind: ShrinkableKind::Message,
                        handle,
                        tokens: cuttable_tokens(message, counter),
                    },
                ),
            );
        }
    }
    found
}

fn results(
    message: &Message,
    kind: ShrinkableKind,
    counter: &dyn TokenCounter,
) -> impl Iterator<Item = Shrinkable> {
    message.content.iter().filter_map(move |part| match part {
        Part::ToolResult(result) => {
            let tokens = part_tokens(counter, part);
            Some(Shrinkable { kind, handle: result.call_id.clone(), tokens })
        }
        _ => None,
    })
}

/// Caps the largest parts first, each at no less than `floor`, until `excess` tokens are saved. The others stay.
///
/// ```
/// use contexture_history::compaction::{Shrinkable, ShrinkableKind, lowered};
/// use contexture_message::Tokens;
///
/// let result = |handle: &str, tokens| {
///     let (kind, handle) = (ShrinkableKind::ReadResult, handle.to_owned());
///     Shrinkable { kind, handle, tokens: Tokens(tokens) }
/// };
/// let results = [result("a", 900), result("b", 200), result("c", 700)];
/// let caps = lowered(results.iter(), Tokens(1000), Tokens(100));
/// assert_eq!(caps, [("a".to_owned(), Tokens(100)), ("c".to_owned(), Tokens(500))].into());
/// ```
pub fn lowered<'a>(all: impl IntoIterator<Item = &'a Shrinkable>, excess: Tokens, floor: Tokens) -> Caps {
    let mut all: Vec<&Shrinkable> = all.into_iter().collect();
    // A stable sort: among equals the older one is capped first.
    all.sort_by_key(|it| Reverse(it.tokens));
    let mut left = excess;
    let mut caps = Caps::new();
    for it in all.into_iter().take_while(|it| it.tokens > floor) {
        if left == Tokens(0) {
            break;
        }
        let cap = it.tokens.saturating_sub(left).max(floor);
        left = left.saturating_sub(it.tokens.saturating_sub(cap));
        caps.insert(it.handle.clone(), cap);
    }
    caps
}
