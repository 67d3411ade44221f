//! A thread at one moment.

use std::sync::Arc;

use contexture_history::{Body, Change, Item, Limit, Turn, TurnNo, Window, window};
use contexture_message::TokenCounter;

use crate::{ModelChoice, State};

/// A thread at one moment, immutable: its state, its instructions and the newest turns.
///
/// It holds as many turns as the session's `history_window` says, and the open one. Older turns stay in the store, so
/// that neither taking a snapshot nor appending costs more when the thread is old.
#[derive(Clone, Debug, PartialEq)]
pub struct Snapshot {
    state: State,
    instructions: Option<Arc<str>>,
    turns: Vec<Arc<Turn>>,
}

impl Snapshot {
    /// Builds the snapshot of a stored thread from its state and its newest items.
    pub(crate) fn load(state: State, instructions: Option<Arc<str>>, items: &[Item]) -> Self {
        let turns = contexture_history::turns(items).into_iter().map(Arc::new).collect();
        Self { state, instructions, turns }
    }

    /// Returns the snapshot after more items; `window` is how many turns stay at hand.
    #[must_use]
    pub(crate) fn with(&self, items: &[Item], window: usize) -> Self {
        let mut next = self.clone();
        items.iter().for_each(|it| next.apply(it));
        let counted = next.turns.len() - usize::from(next.state.open.is_some() && next.is_open_at_hand());
        next.turns.drain(..counted.saturating_sub(window));
        next
    }

    fn apply(&mut self, item: &Item) {
        self.state.apply(item);
        match &item.body {
            Body::Change(Change::HistoryReset) => {
                self.turns.clear();
                return;
            }
            Body::Change(Change::Instructions { text }) => self.instructions = text.as_deref().map(Arc::from),
            _ => {}
        }
        let id = item.turn.to_string();
        let is_open = self.turns.last().is_some_and(|it| **it.id() == *id);
        if !is_open && item.starts_turn() {
            self.turns.push(Arc::new(Turn::start(item.turn)));
        }
        if let Some(turn) = self.turns.last_mut().filter(|it| **it.id() == *id) {
            Arc::make_mut(turn).apply(item);
        }
    }

    fn is_open_at_hand(&self) -> bool {
        let open = self.state.open.map(|it| it.turn.to_string());
        open.is_some_and(|open| self.turns.last().is_some_and(|it| **it.id() == *open))
    }

    /// Returns where the thread stands.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// Returns the instructions, if any were set.
    pub fn instructions(&self) -> Option<&str> {
        self.instructions.as_deref()
    }

    /// Returns the model, if one was chosen.
    pub fn model(&self) -> Option<&ModelChoice> {
        self.state.model.as_ref()
    }

    /// Returns the newest turn.
    pub fn turn(&self) -> TurnNo {
        self.state.turn
    }

    /// Returns the newest turns at hand, oldest first.
    pub fn turns(&self) -> &[Arc<Turn>] {
        &self.turns
    }

    /// Returns the window over the turns at hand.
    pub fn history(&self, limit: Option<Limit>, counter: &dyn TokenCounter) -> Window<'_, Arc<Turn>> {
        window(&self.turns, limit, counter)
    }
}
