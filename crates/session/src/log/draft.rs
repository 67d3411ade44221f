//! Items without positions, and the items that must precede them.

use contexture_history::{Body, Change, TurnNo, TurnStatus};
use contexture_message::{Part, Role};

use crate::{NewItem, State};

/// Items without positions: the turn of each, and its content.
pub(crate) type Draft = Vec<(TurnNo, NewItem)>;

/// Returns what must precede a new turn: a turn that is suspended does not wait on. One in flight has been ended before
/// (`live::lost_turns`).
pub(crate) fn closing(state: &State) -> Draft {
    let interrupted = |turn| (turn, ended(TurnStatus::Interrupted, Some("another turn began")));
    state.open.map(|it| interrupted(it.turn)).into_iter().collect()
}

pub(crate) fn ended(status: TurnStatus, reason: Option<&str>) -> NewItem {
    let reason = reason.map(str::to_owned);
    NewItem::of(Body::Change(Change::TurnEnded { status, reason, code: None, usage: None }))
}

/// Gives items that are appended outside of a running turn their turns: each user message begins one.
pub(crate) fn draft_items(state: &State, items: &[NewItem]) -> Draft {
    let mut draft = if items.iter().any(begins) { closing(state) } else { Draft::new() };
    let mut turn = state.turn;
    for item in items {
        if begins(item) {
            turn = turn.next();
        }
        draft.push((turn, item.clone()));
    }
    draft
}

/// Whether a turn begins with it: the user speaks, and does not only bring tool results.
pub(crate) fn begins(item: &NewItem) -> bool {
    let Body::Message(message) = &item.body else { return false };
    let is_result = |part: &Part| matches!(part, Part::ToolResult(_));
    message.role == Role::User && (message.content.is_empty() || !message.content.iter().all(is_result))
}
