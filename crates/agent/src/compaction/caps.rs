//! Caps: results and messages of a thread that are shown shorter than the limits require.
//!
//! They are kept in the thread, so the same log gives the same bytes in every process.

use std::collections::BTreeSet;
use std::sync::Arc;

use contexture_history::Turn;
use contexture_history::compaction::{Caps, message_handle};
use contexture_message::Part;
use contexture_session::{NewItem, Snapshot};
use serde::Deserialize;
use serde_json::json;

const KEY: &str = "contexture.caps";

/// Returns the caps recorded in a thread.
pub(crate) fn of(thread: &Snapshot) -> Arc<Caps> {
    let caps = thread.note(KEY).and_then(|it| Caps::deserialize(&**it).ok());
    Arc::new(caps.unwrap_or_default())
}

/// Adds caps to others; if both have one for the same handle, the lower one is used. Caps for handles that are no
/// longer in `turns` are removed. Returns `None` if no cap gets lower.
pub(crate) fn with(caps: &Caps, new: Caps, turns: &[Turn]) -> Option<Caps> {
    let is_lower = |(handle, cap): (&String, &contexture_message::Tokens)| {
        caps.get(handle).is_none_or(|before| cap < before)
    };
    if !new.iter().any(is_lower) {
        return None;
    }
    let shown = handles(turns);
    let mut all = caps.clone();
    for (handle, cap) in new {
        let cap = all.get(&handle).map_or(cap, |before| cap.min(*before));
        all.insert(handle, cap);
    }
    all.retain(|handle, _| shown.contains(handle));
    Some(all)
}

/// Returns the item that records caps.
pub(crate) fn record(caps: &Caps) -> NewItem {
    NewItem::note(KEY, Some(json!(caps)))
}

fn handles(turns: &[Turn]) -> BTreeSet<String> {
    let mut handles = BTreeSet::new();
    for turn in turns {
        for message in turn.messages() {
            handles.extend(message_handle(turn.id(), message));
            handles.extend(message.content.iter().filter_map(|it| match it {
                Part::ToolResult(result) => Some(result.call_id.clone()),
                _ => None,
            }));
        }
    }
    handles
}
