//! What the model reads of a conversation, and its cost.

use std::sync::Arc;

use contexture_history::compaction::{Frontier, preview_turns};
use contexture_history::{Turn, window};
use contexture_message::{TokenCounter, Tokens};
use contexture_session::Snapshot;

use crate::request::Resolver;

/// The size of what the model reads of a conversation: within the prompt's own window, with previews as shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ShownSize {
    pub(crate) messages: usize,
    pub(crate) tokens: Tokens,
}

impl ShownSize {
    pub(crate) fn of(resolver: &Resolver, snapshot: &Snapshot, counter: &dyn TokenCounter) -> Self {
        let turns = shown_turns(resolver, snapshot, counter);
        let shown = window(&turns, resolver.prompt.definition().history.limit, counter);
        Self { messages: shown.kept().map(|it| it.messages().len()).sum(), tokens: shown.tokens() }
    }
}

/// Returns the loaded turns as shown, with previews.
pub(crate) fn shown_turns(resolver: &Resolver, snapshot: &Snapshot, counter: &dyn TokenCounter) -> Vec<Turn> {
    let turns = snapshot.turns().iter().map(Arc::as_ref);
    let frontier = Frontier(snapshot.n_old_results());
    let shown = preview_turns(turns, frontier, &resolver.results(snapshot), counter).turns;
    snapshot.turns().iter().zip(shown).map(|(turn, new)| new.unwrap_or_else(|| (**turn).clone())).collect()
}
