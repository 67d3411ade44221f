//! What tools remember of the thread they are called on: notes, which are appended together with the results.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use contexture_session::NewItem;
use serde_json::Value;

use super::tool::Invocation;

/// The notes of one round of calls that are not in the log yet. A note of `None` removes one.
#[derive(Clone, Debug, Default)]
pub(crate) struct RoundNotes(Arc<Mutex<BTreeMap<String, Option<Value>>>>);

impl RoundNotes {
    /// Takes the notes as items to append.
    pub(crate) fn take(&self) -> Vec<NewItem> {
        let notes = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        notes.into_iter().map(|(key, value)| NewItem::note(key, value)).collect()
    }

    /// Returns the keys of the notes.
    pub(crate) fn keys(&self) -> Vec<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).keys().cloned().collect()
    }

    fn get(&self, key: &str) -> Option<Option<Value>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(key).cloned()
    }

    fn set(&self, key: String, value: Option<Value>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(key, value);
    }
}

impl Invocation {
    /// Returns what the thread remembers under a key, and what this round of calls added to it.
    pub fn note(&self, key: &str) -> Option<Value> {
        self.notes.get(key).unwrap_or_else(|| self.log.get().note(key).map(|it| (**it).clone()))
    }

    /// Lets the thread remember a value under a key, or forget it. It is appended in one commit with the results of the
    /// round: after a crash the thread has both or neither. A tool that reads a note before it sets it must run
    /// [alone](super::Tool::alone).
    pub fn set_note(&self, key: impl Into<String>, value: Option<Value>) {
        self.notes.set(key.into(), value);
    }
}
