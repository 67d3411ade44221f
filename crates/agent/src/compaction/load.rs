//! How full a request is.

use contexture_compose::{Body, Fate, Pass, Slot};
use contexture_message::Tokens;

/// The size of a request, including turns that did not fit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Load {
    /// The cost of the whole request, including dropped turns.
    pub(crate) used: Tokens,
    /// The cost of the history.
    pub(crate) history: Tokens,
    /// How many messages the history has.
    pub(crate) messages: usize,
}

impl Load {
    /// Measures a pass. Turns outside the prompt's own history window do not count: the author excluded them.
    pub(crate) fn of(pass: &Pass) -> Self {
        let mut load = Load { used: pass.total_tokens(), ..Load::default() };
        for segment in pass.segments().iter().filter(|it| it.slot == Slot::History) {
            match segment.fate {
                Fate::Excluded { .. } | Fate::Empty => continue,
                Fate::Dropped { .. } => load.used += segment.tokens,
                Fate::Kept | Fate::Shortened { .. } => {}
            }
            load.history += segment.tokens;
            load.messages += match &segment.body {
                Body::Messages(messages) => messages.len(),
                Body::Nothing | Body::Text(_) | Body::Tags(_) | Body::Tool(_) => 0,
            };
        }
        load
    }
}
