//! How full a request is.

use contexture_compose::{Body, Fate, Pass, Slot};
use contexture_message::Tokens;

/// How full a request is, with what did not fit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Load {
    /// What everything would cost, also the turns that were dropped.
    pub(crate) used: Tokens,
    /// What the history costs.
    pub(crate) history: Tokens,
    /// How many messages it has.
    pub(crate) messages: usize,
}

impl Load {
    /// Weighs a pass. What its window keeps out does not count: that was the author's wish.
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
