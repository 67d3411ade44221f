//! A board as the model reads it: a snapshot, and what changed since.
//!
//! Both are JSON in a tag. `<`, `>` and `&` are written as escapes of JSON, so no text of a board can open or close a
//! tag, and the snapshot that a thread keeps can be read back.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::state::BoardState;

/// The snapshot of a board in the frozen prefix.
#[derive(Debug, Serialize, Deserialize)]
struct Shown {
    version: u64,
    state: Value,
}

/// Returns the snapshot of a board; nothing for a board that holds what a new one does.
pub(crate) fn snapshot(state: &BoardState, initial: &Value) -> String {
    match state.value() == initial {
        true => String::new(),
        false => escaped(&json!(Shown { version: state.version(), state: state.value().clone() })),
    }
}

/// Returns what a board holds now in the paths that changed since a snapshot; nothing if none did.
///
/// A thread that keeps an empty snapshot is told everything that was written, also if the board is empty again: an
/// earlier turn may have been told what was there in between.
pub(crate) fn changes(state: &BoardState, shown: &str) -> Result<Option<String>, serde_json::Error> {
    let since = match shown.is_empty() {
        true => 0,
        false => serde_json::from_str::<Shown>(shown)?.version,
    };
    let changed = state.changed_since(since);
    if changed.is_empty() {
        return Ok(None);
    }
    let (mut values, mut removed) = (Map::new(), Vec::new());
    for (path, _) in changed {
        match path.get(state.value()) {
            Some(value) => drop(values.insert(path.to_string(), value.clone())),
            None => removed.push(path.to_string()),
        }
    }
    let mut told = json!({"version": state.version(), "changed": values});
    if !removed.is_empty() {
        told["removed"] = json!(removed);
    }
    Ok(Some(escaped(&told)))
}

/// Writes JSON without characters that mean something in a tag. They occur within its texts only.
fn escaped(value: &Value) -> String {
    value.to_string().replace('&', "\\u0026").replace('<', "\\u003c").replace('>', "\\u003e")
}
