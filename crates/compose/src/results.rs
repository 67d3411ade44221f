//! The turns of a pass as the model sees them: large tool results are previews.
//!
//! The log keeps the whole, see [`contexture_history::compaction`]. Whoever runs the turn decides where the frontier
//! between old and recent results is: moving it changes earlier bytes. Nothing is counted of turns that are known to
//! be small, and turns that do not change are not copied.

use std::borrow::Cow;

use contexture_history::compaction::{self, Frontier, PreviewedTurns, ResultLimits, preview_turns};
use contexture_message::{TokenCounter, Tokens};
use serde::{Deserialize, Serialize};

use crate::{ResolveOptions, Turn};

/// How large tool results of the history and of the running turn are shown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResultView {
    /// How many results are old, counted from the oldest of the history that is handed in.
    pub frontier: Frontier,
    /// How large results may be.
    pub limits: ResultLimits,
}

/// A tool result that the model sees as a preview.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShortenedResult {
    /// The id of its turn.
    pub turn: String,
    /// The id of its call, by which the whole can be read.
    pub call_id: String,
    /// The tool's name.
    pub name: String,
    /// What it costs whole.
    pub before: Tokens,
    /// What the preview costs.
    pub after: Tokens,
}

/// The turns of a pass as the model sees them.
pub(crate) struct TurnView<'a> {
    /// Finished turns, oldest first.
    pub(crate) history: Cow<'a, [Turn]>,
    /// What a log holds of the running turn.
    pub(crate) in_flight: Option<Cow<'a, Turn>>,
    pub(crate) shortened: Vec<ShortenedResult>,
}

impl<'a> TurnView<'a> {
    pub(crate) fn new(options: &'a ResolveOptions, counter: &dyn TokenCounter) -> Self {
        let (history, in_flight) = (&options.history, options.in_flight_turn.as_ref());
        let whole = Self {
            history: Cow::Borrowed(history),
            in_flight: in_flight.map(Cow::Borrowed),
            shortened: Vec::new(),
        };
        let Some(ResultView { frontier, limits }) = &options.results else { return whole };
        let PreviewedTurns { mut turns, changed } =
            preview_turns(history.iter().chain(in_flight), *frontier, limits, counter);
        if changed.is_empty() {
            return whole;
        }
        let active = in_flight.and_then(|_| turns.pop().flatten());
        Self {
            history: with_changes(history, turns),
            in_flight: active.map(Cow::Owned).or(whole.in_flight),
            shortened: changed.into_iter().map(told).collect(),
        }
    }
}

/// Returns the turns with those that have a new form in the place of the old.
fn with_changes(turns: &[Turn], changed: Vec<Option<Turn>>) -> Cow<'_, [Turn]> {
    if changed.iter().all(Option::is_none) {
        return Cow::Borrowed(turns);
    }
    turns.iter().zip(changed).map(|(turn, new)| new.unwrap_or_else(|| turn.clone())).collect()
}

fn told(it: compaction::ShortenedResult) -> ShortenedResult {
    let compaction::ShortenedResult { turn, call_id, name, before, after } = it;
    ShortenedResult { turn: turn.to_string(), call_id, name, before, after }
}
