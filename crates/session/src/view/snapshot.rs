//! A thread at one moment.

use std::collections::BTreeMap;
use std::sync::Arc;

use contexture_history::{Body, Change, Item, Limit, Turn, TurnNo, TurnStatus, Window, window};
use contexture_message::{TokenCounter, Tokens};
use serde_json::Value;

use super::omitted::{self, OmittedTurns};
use crate::log::notes::{PREPENDED, prepended_turn};
use crate::{ModelChoice, State};

/// A thread at one moment, immutable: its state, its instructions and the newest turns.
///
/// It holds the open turn and as many turns as `history_window` allows. Older turns stay in the store, so taking a
/// snapshot or appending does not get slower as the thread grows.
#[derive(Clone, Debug, PartialEq)]
pub struct Snapshot {
    state: State,
    instructions: Option<Arc<str>>,
    turns: Vec<Arc<Turn>>,
    notes: BTreeMap<String, Arc<Value>>,
    omitted: Vec<OmittedTurns>,
    /// The loaded turns whose hidden envelopes are left out.
    hidden: Vec<TurnNo>,
    /// How many tool results in the loaded turns are old.
    n_old_results: usize,
}

impl Snapshot {
    /// Builds the snapshot of a stored thread from its state and what is read of its newest items.
    pub(crate) fn load(
        state: State,
        instructions: Option<Arc<str>>,
        notes: BTreeMap<String, Arc<Value>>,
        items: &[Item],
        omitted: Vec<OmittedTurns>,
        hidden: Vec<TurnNo>,
    ) -> Self {
        let said = contexture_history::turns(items).into_iter().map(|it| Arc::new(settled(it, &state)));
        let leading = state.prepended().and_then(|_| prepended_turn(notes.get(PREPENDED)?));
        let turns = leading.into_iter().chain(said).collect();
        let old = items.iter().filter(|it| it.seq <= state.aged_results && it.visibility.history);
        let n_old_results = old.filter_map(|it| it.body.as_message()).map(|it| it.n_tool_results()).sum();
        Self { state, instructions, turns, notes, omitted, hidden, n_old_results }
    }

    /// Returns the snapshot after more items; `window` is the number of turns to keep loaded.
    #[must_use]
    pub(crate) fn with(&self, items: &[Item], window: usize) -> Self {
        let mut next = self.clone();
        items.iter().for_each(|it| next.apply(it));
        next.slide(window);
        next
    }

    /// Drops turns outside the window. Summaries and prepended messages stay, since they are older than any window.
    fn slide(&mut self, window: usize) {
        let is_open = self.state.open.is_some() && self.is_open_turn_loaded();
        let is_counted = |it: &Turn| !it.is_summary() && !it.is_leading();
        let counted = self.turns.iter().filter(|it| is_counted(it)).count() - usize::from(is_open);
        let mut surplus = counted.saturating_sub(window);
        if surplus == 0 {
            return;
        }
        let mut n_gone = 0;
        self.turns.retain(|turn| {
            let stays = !is_counted(turn) || surplus == 0;
            if !stays {
                surplus -= 1;
                n_gone += turn.n_tool_results();
            }
            stays
        });
        self.n_old_results = self.n_old_results.saturating_sub(n_gone);
        let first = self.turns.iter().find_map(|it| TurnNo::parse(it.id()));
        let first = first.unwrap_or_default();
        self.hidden.retain(|it| *it >= first);
        self.omitted.retain(|it| !it.is_older() && !it.is_hidden());
        self.omitted.insert(0, omitted::older(first, window));
        self.omitted.extend(omitted::hidden(&self.hidden));
    }

    fn apply(&mut self, item: &Item) {
        self.state.apply(item);
        match &item.body {
            Body::Change(Change::HistoryReset) => {
                self.turns.clear();
                self.omitted.clear();
                self.hidden.clear();
                self.n_old_results = 0;
                return;
            }
            Body::Change(Change::Noted { key, value }) => {
                if key == PREPENDED {
                    self.turns.retain(|it| !it.is_leading());
                    self.turns.splice(..0, value.as_ref().and_then(prepended_turn));
                }
                self.notes.remove(key);
                self.notes.extend(value.clone().map(|it| (key.clone(), Arc::new(it))));
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

    fn is_open_turn_loaded(&self) -> bool {
        let open = self.state.open.map(|it| it.turn.to_string());
        open.is_some_and(|open| self.turns.last().is_some_and(|it| **it.id() == *open))
    }

    /// Returns the state of the thread.
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

    /// Returns the loaded turns, oldest first.
    pub fn turns(&self) -> &[Arc<Turn>] {
        &self.turns
    }

    /// Returns about how much the loaded turns cost.
    pub(crate) fn tokens(&self) -> Tokens {
        self.turns.iter().filter_map(|it| it.cost()).map(|it| it.tokens).sum()
    }

    /// Returns what the engine remembers of the thread under a key.
    pub fn note(&self, key: &str) -> Option<&Arc<Value>> {
        self.notes.get(key)
    }

    /// Returns what the engine remembers of the thread under the keys that begin so, sorted by key.
    pub fn notes_under<'a>(&'a self, prefix: &'a str) -> impl Iterator<Item = (&'a str, &'a Arc<Value>)> {
        let notes = self.notes.range(prefix.to_owned()..).map(|(key, it)| (key.as_str(), it));
        notes.take_while(move |(key, _)| key.starts_with(prefix))
    }

    /// Lists the turns that are not loaded, with the reasons: summarised, left out, or outside the window.
    pub fn omitted(&self) -> &[OmittedTurns] {
        &self.omitted
    }

    /// Returns how many tool results in the loaded turns, starting with the oldest, are old.
    pub fn n_old_results(&self) -> usize {
        self.n_old_results
    }

    /// Returns the window over the loaded turns.
    pub fn history(&self, limit: Option<Limit>, counter: &dyn TokenCounter) -> Window<'_, Arc<Turn>> {
        window(&self.turns, limit, counter)
    }
}

/// Returns a turn that is over as such. Where a summary covers its end, its other items do not say so.
fn settled(turn: Turn, state: &State) -> Turn {
    let is_open = state.open.is_some_and(|it| *it.turn.to_string() == **turn.id());
    let is_over = !is_open && turn.status() == TurnStatus::InFlight;
    if is_over { turn.with_status(TurnStatus::Completed) } else { turn }
}
