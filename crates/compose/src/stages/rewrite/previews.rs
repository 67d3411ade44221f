//! Replaces large tool results with previews.
//!
//! The log keeps the whole results, see [`contexture_history::compaction`]. The code that runs the turn decides where
//! the frontier between old and recent results is, because moving it changes earlier bytes. Turns known to be small
//! are not counted, and unchanged turns are not copied.

use std::borrow::Cow;
use std::collections::HashMap;

use contexture_history::compaction::{self, Frontier, PreviewedTurns, preview_turns};
use contexture_message::{TokenCounter, Tokens};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Rewritten;
use crate::{Conversation, ResultView, Turn};

/// A tool result that the model sees as a preview.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ShortenedResult {
    /// The id of its turn.
    pub turn: String,
    /// The id of its call, with which the whole result can be read.
    pub call_id: String,
    /// The tool's name.
    pub name: String,
    /// The token count of the whole result.
    pub before: Tokens,
    /// The token count of the preview.
    pub after: Tokens,
}

impl Rewritten<'_> {
    /// Replaces large results with previews. Transforms have already run, so previews cannot show what they removed.
    pub(crate) fn previewed(mut self, conversation: &Conversation, counter: &dyn TokenCounter) -> Self {
        let Some(ResultView { frontier, limits }) = &conversation.results else { return self };
        let frontier = if self.changes.is_empty() { *frontier } else { self.moved(*frontier, conversation) };
        let turns = self.history.iter().chain(self.turn.as_deref());
        let PreviewedTurns { mut turns, changed } = preview_turns(turns, frontier, limits, counter);
        if changed.is_empty() {
            return self;
        }
        let active = self.turn.as_ref().and_then(|_| turns.pop().flatten());
        self.history = with_changes(self.history, turns);
        self.turn = active.map(Cow::Owned).or(self.turn);
        self.shortened = changed.into_iter().map(shortened).collect();
        self
    }

    /// Returns the frontier among the turns that the transforms left, so that the same results count as old.
    fn moved(&self, frontier: Frontier, conversation: &Conversation) -> Frontier {
        let mut left = frontier.0;
        let mut old: HashMap<&str, usize> = HashMap::new();
        for turn in conversation.history.iter().chain(conversation.logged()) {
            let n_old = left.min(turn.n_tool_results());
            left -= n_old;
            old.insert(turn.id(), n_old);
        }
        let turns = self.history.iter().chain(self.turn.as_deref());
        Frontier(
            turns.map(|it| old.get(&**it.id()).map_or(0, |n_old| (*n_old).min(it.n_tool_results()))).sum(),
        )
    }
}

/// Returns the turns with the changed ones replaced.
fn with_changes(turns: Cow<'_, [Turn]>, changed: Vec<Option<Turn>>) -> Cow<'_, [Turn]> {
    if changed.iter().all(Option::is_none) {
        return turns;
    }
    turns.iter().zip(changed).map(|(turn, new)| new.unwrap_or_else(|| turn.clone())).collect()
}

fn shortened(it: compaction::ShortenedResult) -> ShortenedResult {
    let compaction::ShortenedResult { turn, call_id, name, before, after } = it;
    ShortenedResult { turn: turn.to_string(), call_id, name, before, after }
}
