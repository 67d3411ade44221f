//! Items without positions, and the items that must precede them.

use contexture_history::{Body, Change, TurnNo, TurnStatus};
use contexture_message::{Part, Role};

use crate::{NewItem, State};

/// Items without positions: the turn of each, and its content.
pub(crate) type Draft = Vec<(TurnNo, NewItem)>;

/// The recorded reason for a turn whose writer was lost.
pub(crate) const LOST: &str = "its writer was lost";

/// Returns the items that must precede any append: an in-flight turn without a writer is recorded as interrupted.
///
/// A suspended turn waits on, unless a new turn begins (`begins`).
pub(crate) fn closing(state: &State, begins: bool) -> Draft {
    match state.open {
        Some(open) if open.status == TurnStatus::InFlight => {
            vec![(open.turn, ended(TurnStatus::Interrupted, Some(LOST)))]
        }
        Some(open) if begins => {
            vec![(open.turn, ended(TurnStatus::Interrupted, Some("another turn began")))]
        }
        _ => Draft::new(),
    }
}

pub(crate) fn ended(status: TurnStatus, reason: Option<&str>) -> NewItem {
    let reason = reason.map(str::to_owned);
    NewItem::of(Body::Change(Change::TurnEnded { status, reason, code: None, usage: None }))
}

/// Gives items that are appended outside of a running turn their turns: each user message begins one.
pub(crate) fn draft_items(state: &State, items: &[NewItem]) -> Draft {
    let mut draft = closing(state, items.iter().any(begins));
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
