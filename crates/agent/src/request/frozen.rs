//! The frozen prefix: the thread keeps the text of its blocks, which is sent again byte for byte.
//!
//! A frozen block is not evaluated again when it expires or its definition changes. It is evaluated again when the
//! provider's cache is lost anyway (after a compaction or a reset, with another model, or after a pause longer than
//! the cache lifetime), on request, or when another user takes a turn: what a block says may be for one user alone.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use contexture_compose::Pass;
use contexture_history::{Body, Change, Seq};
use contexture_session::{NewItem, Snapshot};
use serde::{Deserialize, Serialize};
use serde_json::json;

const KEY: &str = "contexture.pins";

/// The frozen blocks of a thread.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct FrozenBlocks {
    model: String,
    /// The user of the turn that froze them, empty without one. Records of earlier versions do not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    user: Option<String>,
    /// The number of archives and the start of the history when the blocks were frozen.
    archives: u64,
    history_after: Seq,
    /// The frozen blocks of each prompt.
    prompts: BTreeMap<String, BTreeMap<String, FrozenBody>>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct FrozenBody {
    hash: String,
    body: Arc<str>,
}

/// Returns whether an item of a log is the record of a frozen prefix.
pub fn is_frozen_record(body: &Body) -> bool {
    matches!(body, Body::Change(Change::Noted { key, .. }) if key == KEY)
}

/// Returns the record of a frozen prefix with other texts, if `change` changes one. It is given the name and the text of
/// each block, and says whether it changed the text.
pub fn with_frozen_texts(body: &Body, mut change: impl FnMut(&str, &mut String) -> bool) -> Option<Body> {
    let Body::Change(Change::Noted { key, value: Some(value) }) = body else { return None };
    let mut frozen = FrozenBlocks::deserialize(value).ok().filter(|_| key == KEY)?;
    let mut is_changed = false;
    for (name, block) in frozen.prompts.values_mut().flatten() {
        let mut text = block.body.to_string();
        if change(name, &mut text) {
            (block.body, is_changed) = (text.into(), true);
        }
    }
    is_changed.then(|| Body::Change(Change::Noted { key: key.clone(), value: Some(json!(frozen)) }))
}

/// The facts that decide whether frozen blocks are still valid.
pub(crate) struct FrozenCheck<'a> {
    pub(crate) thread: &'a Snapshot,
    pub(crate) model: &'a str,
    pub(crate) user: Option<&'a str>,
    /// How long ago the last item was appended.
    pub(crate) idle: Duration,
    /// The lifetime of the provider's cache.
    pub(crate) lifetime: Duration,
    /// Whether a new prefix was requested.
    pub(crate) refresh: bool,
}

impl FrozenCheck<'_> {
    /// Whether the provider's cache is lost for a reason that the thread does not tell: a pause, or a refresh.
    pub(crate) fn is_lost(&self) -> bool {
        self.refresh || self.idle > self.lifetime
    }

    fn kept(&self) -> Option<FrozenBlocks> {
        let state = self.thread.state();
        let note = self.thread.note(KEY)?;
        let frozen = FrozenBlocks::deserialize(&**note).ok()?;
        let holds = !self.is_lost()
            && frozen.model == self.model
            && frozen.user.as_deref().is_none_or(|it| it == self.user.unwrap_or_default())
            && (frozen.archives, frozen.history_after) == (state.n_archives, state.history_after);
        holds.then_some(frozen)
    }

    /// Returns the frozen blocks of a prompt.
    pub(crate) fn frozen(&self, prompt: &str) -> BTreeMap<String, Arc<str>> {
        let mut frozen = self.kept().unwrap_or_default();
        let blocks = frozen.prompts.remove(prompt).unwrap_or_default();
        blocks.into_iter().map(|(name, it)| (name, it.body)).collect()
    }

    /// Returns the record of what a pass freezes, if the thread does not have it yet.
    pub(crate) fn record(&self, pass: &Pass) -> Option<NewItem> {
        let shown = pass.frozen_blocks();
        if shown.is_empty() {
            return None;
        }
        let state = self.thread.state();
        let held = self.kept();
        let mut frozen = held.clone().unwrap_or_else(|| FrozenBlocks {
            model: self.model.to_owned(),
            user: Some(self.user.unwrap_or_default().to_owned()),
            archives: state.n_archives,
            history_after: state.history_after,
            prompts: BTreeMap::new(),
        });
        let blocks = frozen.prompts.entry(pass.prompt().to_owned()).or_default();
        blocks.extend(
            shown.into_iter().map(|it| (it.name.to_string(), FrozenBody { hash: it.hash, body: it.body })),
        );
        (held.as_ref() != Some(&frozen)).then(|| NewItem::note(KEY, Some(json!(frozen))))
    }
}

/// Returns the item that removes all frozen blocks, so that the next turn evaluates its prefix again.
pub(crate) fn thawed() -> NewItem {
    NewItem::note(KEY, Some(json!({"anew": true})))
}

/// Whether all frozen blocks were removed and none was added since.
pub(crate) fn is_thawed(thread: &Snapshot) -> bool {
    thread.note(KEY).is_some_and(|it| it["anew"] == true)
}
