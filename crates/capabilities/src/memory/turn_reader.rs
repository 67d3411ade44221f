//! Which turns of a thread a namespace may learn from.
//!
//! A conversation may have turns of several users, and of none. The item that begins a turn has its user as author; the
//! memory of a user takes what was said in that user's turns, and nothing else. Messages that the application adds
//! without a turn count for the author it gives, or for all whose memory reads the thread.

use contexture_history::{Body, Change, Item, Timestamp};
use serde::{Deserialize, Serialize};

use super::namespace::Namespace;

/// The turn that was read last. Items are shown to it in the order of the log.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct TurnReader {
    turn: u64,
    /// When it began. What it says is as old as that: it may come from a request of then.
    began: Timestamp,
    is_own: bool,
    /// The newest turn that belongs to another user.
    #[serde(skip_serializing_if = "Option::is_none")]
    last_foreign: Option<u64>,
}

impl TurnReader {
    /// Reads one more item. Returns the time when its turn began, if the namespace may learn from it.
    pub(crate) fn read(&mut self, namespace: &Namespace, item: &Item) -> Option<Timestamp> {
        if item.turn.0 != self.turn || is_begin(item) {
            (self.turn, self.began, self.is_own) = (item.turn.0, item.at, is_own(namespace, item));
        }
        if !self.is_own {
            self.last_foreign = Some(self.turn);
        }
        self.is_own.then_some(self.began)
    }

    /// Whether all turns from this one on that were read so far belong to the namespace.
    pub(crate) fn is_own_since(&self, turn: u64) -> bool {
        self.last_foreign.is_none_or(|it| it < turn)
    }
}

fn is_begin(item: &Item) -> bool {
    matches!(item.body, Body::Change(Change::TurnBegan { .. }))
}

fn is_own(namespace: &Namespace, item: &Item) -> bool {
    match (&namespace.user, &item.author) {
        (None, _) => true,
        (Some(_), None) => !is_begin(item),
        (Some(user), Some(author)) => user == author,
    }
}
