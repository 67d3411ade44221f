//! Tombstones: what was forgotten and must not be learnt again from what is older than that.
//!
//! A tombstone has a hash of the words and the places where they were said, and not the words themselves.

use std::collections::{BTreeMap, BTreeSet};

use contexture_history::Timestamp;
use contexture_history::compaction::normal;
use contexture_session::sources::NewSource;
use serde::{Deserialize, Serialize};

use super::error::MemoryError;
use super::record::short_hash;
use super::sources::{self, Kind, document};
use super::space::MemorySpace;

/// What was forgotten.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Tombstone {
    /// When. What is said later may be learnt.
    pub(crate) at: Timestamp,
    /// A hash of the words.
    pub(crate) words: Option<String>,
    /// How many words they are, to find them within a longer text.
    #[serde(skip_serializing_if = "is_zero")]
    pub(crate) n_words: usize,
    /// A thread, of which everything up to then was forgotten.
    pub(crate) thread: Option<String>,
    /// The turns of the thread, if not all were.
    pub(crate) turns: Vec<String>,
}

impl Tombstone {
    /// Returns the tombstone of a text.
    pub(crate) fn of_text(text: &str, at: Timestamp) -> Self {
        let n_words = ending(&normal(text)).split(' ').count();
        Self { at, words: Some(words(text)), n_words, ..Self::default() }
    }

    /// Returns the tombstone of a thread, or of some of its turns.
    pub(crate) fn of_turns(thread: &str, turns: Vec<String>, at: Timestamp) -> Self {
        Self { at, thread: Some(thread.to_owned()), turns, ..Self::default() }
    }

    fn name(&self) -> String {
        let Self { words, thread, turns, at: _, n_words: _ } = self;
        short_hash(&format!("{words:?}\n{thread:?}\n{turns:?}"))
    }

    /// Returns it as a document, which has no words to find.
    pub(crate) fn document(&self, space: &MemorySpace) -> Result<NewSource, MemoryError> {
        let id = Kind::Tombstone.id(&self.name())?;
        Ok(space.with_analyzer(|it| document(id, self.at.0.to_string(), self, &[], (self.at, it))))
    }
}

fn is_zero(count: &usize) -> bool {
    *count == 0
}

fn words(text: &str) -> String {
    short_hash(&format!("words\n{}", ending(&normal(text))))
}

/// Returns a text without the marks at its end: a fact is often written without the period of its sentence.
fn ending(text: &str) -> &str {
    text.trim_end_matches(['.', '!', '?', ',', ';', ':'])
}

/// The tombstones of a namespace.
#[derive(Debug, Default)]
pub(crate) struct Tombstones {
    words: BTreeMap<String, Timestamp>,
    lengths: BTreeSet<usize>,
    threads: BTreeMap<String, Timestamp>,
    turns: BTreeMap<(String, String), Timestamp>,
}

impl Tombstones {
    /// Reads those of a namespace.
    pub(crate) async fn of(space: &MemorySpace) -> Result<Self, MemoryError> {
        let mut tombstones = Self::default();
        for info in space.all(Kind::Tombstone, "").await? {
            let Tombstone { at, words, n_words, thread, turns } = sources::data(&info)?;
            tombstones.words.extend(words.map(|it| (it, at)));
            tombstones.lengths.extend(Some(n_words).filter(|it| *it > 0));
            match thread {
                Some(thread) if turns.is_empty() => {
                    tombstones.threads.insert(thread, at);
                }
                Some(thread) => {
                    tombstones.turns.extend(turns.into_iter().map(|it| ((thread.clone(), it), at)));
                }
                None => {}
            }
        }
        Ok(tombstones)
    }

    /// Whether words that were said at a time were forgotten since.
    pub(crate) fn covers_words(&self, text: &str, said: Timestamp) -> bool {
        self.words.get(&words(text)).is_some_and(|at| said <= *at)
    }

    /// Whether a turn was forgotten.
    pub(crate) fn covers_turn(&self, thread: &str, turn: &str, said: Timestamp) -> bool {
        let of_thread = self.threads.get(thread);
        let of_turn = self.turns.get(&(thread.to_owned(), turn.to_owned()));
        of_thread.into_iter().chain(of_turn).any(|at| said <= *at)
    }

    /// Whether a text contains forgotten words.
    pub(crate) fn covers_part(&self, text: &str, said: Timestamp) -> bool {
        if self.words.is_empty() {
            return false;
        }
        let all = normal(text);
        let all: Vec<&str> = all.split(' ').collect();
        let is_gone = |it: &[&str]| self.covers_words(&it.join(" "), said);
        self.covers_words(text, said) || self.lengths.iter().any(|n| all.windows(*n).any(is_gone))
    }
}
