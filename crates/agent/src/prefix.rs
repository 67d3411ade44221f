//! The frozen prefix: what its blocks said is pinned in the thread, and said again byte for byte.
//!
//! A pinned block is not evaluated again because its time ran out or its definition changed. It is when the provider's
//! cache is lost anyway: after a compaction or a reset, with another model, or after a pause longer than the cache lives;
//! or when someone asks for it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use contexture_compose::Pass;
use contexture_history::Seq;
use contexture_session::{NewItem, Snapshot};
use serde::{Deserialize, Serialize};
use serde_json::json;

const KEY: &str = "contexture.pins";

/// What is pinned in a thread.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Pins {
    model: String,
    /// How many archives there were, and where the history began.
    archives: u64,
    history_after: Seq,
    /// The blocks of each prompt.
    prompts: BTreeMap<String, BTreeMap<String, Pinned>>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Pinned {
    hash: String,
    body: Arc<str>,
}

/// What decides whether pins still hold.
pub(crate) struct Moment<'a> {
    pub(crate) thread: &'a Snapshot,
    pub(crate) model: &'a str,
    /// How long nothing was appended.
    pub(crate) idle: Duration,
    /// How long the provider's cache lives.
    pub(crate) lifetime: Duration,
    /// Someone asked for other bytes.
    pub(crate) refresh: bool,
}

impl Moment<'_> {
    fn pins(&self) -> Option<Pins> {
        let state = self.thread.state();
        let note = self.thread.note(KEY)?;
        let pins = Pins::deserialize(&**note).ok()?;
        let holds = !self.refresh
            && pins.model == self.model
            && (pins.archives, pins.history_after) == (state.n_archives, state.history_after)
            && self.idle <= self.lifetime;
        holds.then_some(pins)
    }

    /// Returns what is pinned for a prompt.
    pub(crate) fn pinned(&self, prompt: &str) -> BTreeMap<String, Arc<str>> {
        let mut pins = self.pins().unwrap_or_default();
        let blocks = pins.prompts.remove(prompt).unwrap_or_default();
        blocks.into_iter().map(|(name, it)| (name, it.body)).collect()
    }

    /// Returns the record of what a pass pins, if it is not on record yet.
    pub(crate) fn record(&self, pass: &Pass) -> Option<NewItem> {
        let said = pass.cached_blocks();
        if said.is_empty() {
            return None;
        }
        let state = self.thread.state();
        let held = self.pins();
        let mut pins = held.clone().unwrap_or_else(|| Pins {
            model: self.model.to_owned(),
            archives: state.n_archives,
            history_after: state.history_after,
            prompts: BTreeMap::new(),
        });
        let blocks = pins.prompts.entry(pass.prompt().to_owned()).or_default();
        blocks.extend(
            said.into_iter().map(|it| (it.name.to_string(), Pinned { hash: it.hash, body: it.body })),
        );
        (held.as_ref() != Some(&pins)).then(|| NewItem::note(KEY, Some(json!(pins))))
    }
}

/// Takes all pins away: the next turn evaluates its prefix anew.
pub(crate) fn unpinned() -> NewItem {
    NewItem::note(KEY, Some(json!({"anew": true})))
}

/// Whether someone took all pins away, and nothing was pinned since.
pub(crate) fn is_unpinned(thread: &Snapshot) -> bool {
    thread.note(KEY).is_some_and(|it| it["anew"] == true)
}
