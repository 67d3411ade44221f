//! What was sent last on a thread, for the forecast of its next call.
//!
//! This process remembers it as it was. For others, the thread keeps the tools and the system message, written anew
//! only when they change; which messages followed, the log says.

use std::sync::Arc;

use contexture_compose::Sent;
use contexture_history::Seq;
use contexture_message::Role;
use contexture_session::{NewItem, Snapshot, Thread};
use serde::{Deserialize, Serialize};
use serde_json::json;

const KEY: &str = "contexture.sent";

/// What was sent, as a thread keeps it.
#[derive(Serialize, Deserialize)]
struct Kept {
    /// How the messages were read then: how many archives there were, where the history began, what was old.
    view: (u64, Seq, Seq, Seq),
    sent: Sent,
}

/// Returns what was sent last, as far as it is known.
pub(crate) fn last(thread: &Thread, snapshot: &Snapshot) -> Option<Arc<Sent>> {
    thread.remembered::<Sent>().or_else(|| kept(snapshot).map(|it| Arc::new(it.sent)))
}

fn kept(snapshot: &Snapshot) -> Option<Kept> {
    let kept = Kept::deserialize(&**snapshot.note(KEY)?).ok()?;
    let n_messages = if kept.view == view(snapshot) { n_sent(snapshot) } else { 0 };
    Some(Kept { sent: kept.sent.assuming(n_messages), ..kept })
}

fn view(snapshot: &Snapshot) -> (u64, Seq, Seq, Seq) {
    let state = snapshot.state();
    // What was prepended since then stands where the history began.
    let began = state.prepended().unwrap_or(state.history_after);
    (state.n_archives, began, state.aged_results, state.aged_hidden)
}

/// How many messages of the log the last call read: all but the answer to it.
fn n_sent(snapshot: &Snapshot) -> usize {
    let mut messages: usize = snapshot.turns().iter().map(|it| it.messages().len()).sum();
    let last = snapshot.turns().last().and_then(|it| it.messages().last());
    messages -= usize::from(last.is_some_and(|it| it.role == Role::Assistant));
    messages
}

/// Returns the record of what was sent, if the thread does not have it yet.
pub(crate) fn record(snapshot: &Snapshot, sent: &Sent) -> Option<NewItem> {
    let view = view(snapshot);
    let is_known = kept(snapshot).is_some_and(|it| it.view == view && it.sent.has_same_prefix(sent));
    let kept = || Kept { view, sent: sent.assuming(0) };
    (!is_known).then(|| NewItem::note(KEY, Some(json!(kept()))))
}
