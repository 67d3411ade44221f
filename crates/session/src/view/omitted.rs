//! Which turns of a thread are not loaded, and why.

use contexture_history::{Archived, Body, Item, TurnNo};

use crate::State;

/// Turns that the model does not read in full, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OmittedTurns {
    /// The turns, such as `t1..t7`.
    pub turns: String,
    /// The reason, such as `summarised in a3`.
    pub reason: String,
}

const HIDDEN: &str = "hidden context that is older than is kept";

impl OmittedTurns {
    /// Whether it is about turns outside of the window.
    pub(crate) fn is_older(&self) -> bool {
        self.turns.starts_with("..")
    }

    /// Whether it is about hidden envelopes.
    pub(crate) fn is_hidden(&self) -> bool {
        self.reason == HIDDEN
    }
}

/// Lists the turns that archives hide from the model.
pub(crate) fn archived(records: &[Item]) -> Vec<OmittedTurns> {
    let omitted = |item: &Item| match &item.body {
        Body::Summary(summary) => {
            let archived = Archived::of(summary, item.seq);
            let (name, first, last) = (archived.name(), archived.first, archived.last);
            let reason = match &summary.left_out {
                Some(reason) => format!("left out ({name}, items {first} to {last}): {reason}"),
                None => format!("summarised in {name} (items {first} to {last})"),
            };
            Some(OmittedTurns { turns: span(archived.turns), reason })
        }
        _ => None,
    };
    records.iter().filter_map(omitted).collect()
}

/// Returns the loaded turns whose hidden envelopes are left out.
pub(crate) fn hidden_turns(state: &State, items: &[Item]) -> Vec<TurnNo> {
    let is_left_out = |it: &&Item| {
        it.seq <= state.aged_hidden
            && matches!(it.body, Body::Envelope(_))
            && !state.archives.iter().any(|archive| archive.covers(it.seq))
    };
    let mut turns: Vec<TurnNo> = items.iter().filter(is_left_out).map(|it| it.turn).collect();
    turns.dedup();
    turns
}

/// Describes turns whose hidden envelopes are left out.
pub(crate) fn hidden(turns: &[TurnNo]) -> Option<OmittedTurns> {
    let (first, last) = (turns.first()?, turns.last()?);
    Some(OmittedTurns { turns: span((*first, *last)), reason: HIDDEN.to_owned() })
}

/// Describes older turns outside the window.
pub(crate) fn older(first_loaded: TurnNo, window: usize) -> OmittedTurns {
    let last = TurnNo(first_loaded.0.saturating_sub(1));
    OmittedTurns {
        turns: format!("..{last}"),
        reason: format!("older than the newest {window} turns (history_window)"),
    }
}

fn span((first, last): (TurnNo, TurnNo)) -> String {
    if first == last { first.to_string() } else { format!("{first}..{last}") }
}
