//! How far back a read goes.
//!
//! Stores read commits from the newest back and ask a [`BackwardScan`] after each whether it has enough. So every
//! store stops at the same place, and none reads more than one commit too many.

use contexture_history::{Item, TurnNo};

use super::{NewestTurns, Span};

/// Collects commits from the newest back until a [`Span`] has what it asks for.
#[derive(Debug)]
pub struct BackwardScan {
    span: Span,
    items: Vec<Item>, // Newest first.
    counted: usize,
    turn: Option<TurnNo>,
    done: bool,
}

impl BackwardScan {
    /// Starts at the end of the log; `None` for a span that is read forward.
    pub fn new(span: &Span) -> Option<BackwardScan> {
        let done = match span {
            Span::After { .. } => return None,
            Span::NewestItems { count, .. } => *count == 0,
            Span::NewestTurns(_) => false,
        };
        Some(BackwardScan { span: span.clone(), items: Vec::new(), counted: 0, turn: None, done })
    }

    /// Whether nothing more is wanted.
    pub fn is_done(&self) -> bool {
        self.done
    }

    /// Takes the commit before those taken so far, its items oldest first.
    pub fn push(&mut self, commit: Vec<Item>) {
        for item in commit.into_iter().rev() {
            if self.done || !self.wants(&item) {
                self.done = true;
                return;
            }
            self.items.push(item);
        }
    }

    /// Returns what was taken, oldest first.
    pub fn finish(mut self) -> Vec<Item> {
        self.items.reverse();
        self.items
    }

    fn wants(&mut self, item: &Item) -> bool {
        match &self.span {
            Span::After { .. } => false,
            Span::NewestItems { count, client } => {
                self.counted += usize::from(!client || item.visibility.client);
                self.done = self.counted >= *count;
                true
            }
            Span::NewestTurns(wanted) => self.wants_turn(*wanted, item),
        }
    }

    fn wants_turn(&mut self, wanted: NewestTurns, item: &Item) -> bool {
        if item.seq <= wanted.after {
            return false;
        }
        if wanted.open == Some(item.turn) {
            return true;
        }
        if self.turn != Some(item.turn) {
            // Between two turns: only here a read may stop, a turn is never split.
            if self.counted >= wanted.turns {
                return false;
            }
            self.turn = Some(item.turn);
            self.counted += 1;
        }
        true
    }
}
