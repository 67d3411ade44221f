//! The state of a board: its value, and the version of every path. It is what a replay of the board's records gives.

use std::collections::{BTreeMap, VecDeque};

use contexture_history::Timestamp;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use super::pointer::Pointer;

/// How many keys of writes are remembered, so that a repeated write is made once.
const KEYS: usize = 256;

/// The author of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum BoardAuthor {
    /// A model, through a tool.
    Model,
    /// The application, in Rust or over HTTP.
    Application,
    /// A person.
    User,
}

/// What a write did.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BoardRecord {
    /// The author of the write.
    pub author: BoardAuthor,
    /// The thread and turn of the write, such as `s1 t7`, if it was made in one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn: Option<String>,
    /// The author's reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The key by which a repeated write is recognised.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// What changed, no path above another.
    pub changes: Vec<PathChange>,
}

/// A change of one path.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PathChange {
    /// The path.
    pub path: Pointer,
    /// The value before; absent if there was none.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    pub before: Option<Value>,
    /// The value after; absent if it was removed.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    pub after: Option<Value>,
}

/// A null is a value too.
fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}

/// A record with its number, which is the version of all paths that it changed.
#[derive(Clone, Debug, PartialEq)]
pub struct BoardEvent {
    /// The number of the record. Numbers increase; some are left out.
    pub version: u64,
    /// The time of the write.
    pub at: Timestamp,
    /// What was written.
    pub record: BoardRecord,
}

/// The state of a board.
///
/// The version of a path is the number of the newest record that changed it, a path above or a path below. A writer that
/// read the board at a version may write every path whose version is not higher.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BoardState {
    value: Value,
    /// The newest record of each path that was written. Nothing older than its paths above is kept.
    versions: BTreeMap<Pointer, u64>,
    version: u64,
    /// The keys of the newest writes.
    keys: VecDeque<(String, u64)>,
}

impl BoardState {
    /// Returns the state of a board that holds a value and was never written.
    pub(crate) fn new(value: Value) -> Self {
        Self { value, ..Self::default() }
    }

    /// Returns what the board holds.
    pub fn value(&self) -> &Value {
        &self.value
    }

    /// Returns the number of the newest record, 0 if there is none.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Returns the version of a path, 0 if it was never written.
    pub fn version_of(&self, path: &Pointer) -> u64 {
        let above = path.upwards().filter_map(|it| self.versions.get(&it).copied());
        let below = self.versions.range(path..).take_while(|(it, _)| path.covers(it)).map(|(_, it)| *it);
        above.chain(below).max().unwrap_or(0)
    }

    /// Returns the paths that changed after a version, with their versions, in the order of the paths. A path below
    /// another that changed too is left out.
    pub fn changed_since(&self, version: u64) -> Vec<(&Pointer, u64)> {
        let mut changed: Vec<(&Pointer, u64)> = Vec::new();
        for (path, at) in self.versions.iter().filter(|(_, at)| **at > version) {
            match changed.last_mut().filter(|(above, _)| above.covers(path)) {
                Some((_, newest)) => *newest = (*newest).max(*at),
                None => changed.push((path, *at)),
            }
        }
        changed
    }

    /// Returns the number of the write with a key, if it is one of the newest.
    pub(crate) fn written_with(&self, key: &str) -> Option<u64> {
        self.keys.iter().find(|(it, _)| it == key).map(|(_, version)| *version)
    }

    /// Applies a record. Fails if the record was not made of this state.
    pub(crate) fn apply(&mut self, version: u64, record: &BoardRecord) -> Result<(), String> {
        for PathChange { path, before, after } in &record.changes {
            if path.get(&self.value) != before.as_ref() {
                return Err(format!("`{path}` does not hold what the record says it held"));
            }
            let is_done = match after {
                Some(value) => path.set(&mut self.value, value.clone()),
                None => path.remove_field(&mut self.value),
            };
            if !is_done {
                return Err(format!("`{path}` can't hold what the record says"));
            }
            self.touch(path, version);
        }
        if let Some(key) = &record.key {
            self.keys.push_back((key.clone(), version));
            let n_old = self.keys.len().saturating_sub(KEYS);
            drop(self.keys.drain(..n_old));
        }
        self.version = version;
        Ok(())
    }

    fn touch(&mut self, path: &Pointer, version: u64) {
        let below: Vec<Pointer> =
            self.versions.range(path..).map(|(it, _)| it).take_while(|it| path.covers(it)).cloned().collect();
        for path in below {
            self.versions.remove(&path);
        }
        self.versions.insert(path.clone(), version);
    }
}
