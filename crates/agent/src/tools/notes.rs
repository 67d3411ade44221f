//! What tools remember of the thread they are called on: notes, which are appended together with the results.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use contexture_session::NewItem;
use serde_json::Value;

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

    pub(super) fn get(&self, key: &str) -> Option<Option<Value>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(key).cloned()
    }

    pub(super) fn set(&self, key: String, value: Option<Value>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(key, value);
    }
}
