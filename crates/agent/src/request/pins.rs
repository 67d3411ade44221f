//! The frozen prefix: the text of its blocks is pinned in the thread and sent again byte for byte.
//!
//! A pinned block is not evaluated again when it expires or its definition changes. It is evaluated again when the
//! provider's cache is lost anyway (after a compaction or a reset, with another model, or after a pause longer than
//! the cache lifetime), or on request.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use contexture_compose::Pass;
use contexture_history::Seq;
use contexture_session::{NewItem, Snapshot};
use serde::{Deserialize, Serialize};
use serde_json::json;

const KEY: &str = "contexture.pins";

/// The pins of a thread.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Pins {
    model: String,
    /// The number of archives and the start of the history when the blocks were pinned.
    archives: u64,
    history_after: Seq,
    /// The pinned blocks of each prompt.
    prompts: BTreeMap<String, BTreeMap<String, Pinned>>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Pinned {
    hash: String,
    body: Arc<str>,
}

/// The facts that decide whether pins are still valid.
pub(crate) struct PinCheck<'a> {
    pub(crate) thread: &'a Snapshot,
    pub(crate) model: &'a str,
    /// How long ago the last item was appended.
    pub(crate) idle: Duration,
    /// The lifetime of the provider's cache.
    pub(crate) lifetime: Duration,
    /// Whether a new prefix was requested.
    pub(crate) refresh: bool,
}

impl PinCheck<'_> {
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

    /// Returns the pinned blocks of a prompt.
    pub(crate) fn pinned(&self, prompt: &str) -> BTreeMap<String, Arc<str>> {
        let mut pins = self.pins().unwrap_or_default();
        let blocks = pins.prompts.remove(prompt).unwrap_or_default();
        blocks.into_iter().map(|(name, it)| (name, it.body)).collect()
    }

    /// Returns the record of what a pass pins, if the thread does not have it yet.
    pub(crate) fn record(&self, pass: &Pass) -> Option<NewItem> {
        let shown = pass.frozen_blocks();
        if shown.is_empty() {
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
            shown.into_iter().map(|it| (it.name.to_string(), Pinned { hash: it.hash, body: it.body })),
        );
        (held.as_ref() != Some(&pins)).then(|| NewItem::note(KEY, Some(json!(pins))))
    }
}

/// Returns the item that removes all pins, so that the next turn evaluates its prefix again.
pub(crate) fn unpinned() -> NewItem {
    NewItem::note(KEY, Some(json!({"anew": true})))
}

/// Whether all pins were removed and nothing was pinned since.
pub(crate) fn is_unpinned(thread: &Snapshot) -> bool {
    thread.note(KEY).is_some_and(|it| it["anew"] == true)
}
