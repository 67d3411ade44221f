//! The last request sent on a thread, used to forecast the cache use of the next call.
//!
//! This process remembers the exact request. For other processes, the thread records the tools and the system message
//! whenever they change; the messages that followed are in the log.

use std::sync::Arc;

use contexture_compose::Sent;
use contexture_history::Seq;
use contexture_message::Role;
use contexture_session::{NewItem, Snapshot, Thread};
use serde::{Deserialize, Serialize};
use serde_json::json;

const KEY: &str = "contexture.sent";

/// The last request as the thread records it.
#[derive(Serialize, Deserialize)]
struct SentRecord {
    /// How the log was read then: the number of archives, the start of the history, and what counted as old.
    view: (u64, Seq, Seq, Seq),
    sent: Sent,
}

/// Returns the last request, as far as it is known.
pub(crate) fn last(thread: &Thread, snapshot: &Snapshot) -> Option<Arc<Sent>> {
    thread.remembered::<Sent>().or_else(|| recorded(snapshot).map(|it| Arc::new(it.sent)))
}

fn recorded(snapshot: &Snapshot) -> Option<SentRecord> {
    let record = SentRecord::deserialize(&**snapshot.note(KEY)?).ok()?;
    let n_messages = if record.view == view(snapshot) { n_sent(snapshot) } else { 0 };
    Some(SentRecord { sent: record.sent.assuming(n_messages), ..record })
}

fn view(snapshot: &Snapshot) -> (u64, Seq, Seq, Seq) {
    let state = snapshot.state();
    // Items prepended since then change where the history begins.
    let began = state.prepended().unwrap_or(state.history_after);
    (state.n_archives, began, state.aged_results, state.aged_hidden)
}

/// Returns how many messages of the log the last call read: all but its answer.
fn n_sent(snapshot: &Snapshot) -> usize {
    let mut messages: usize = snapshot.turns().iter().map(|it| it.messages().len()).sum();
    let last = snapshot.turns().last().and_then(|it| it.messages().last());
    messages -= usize::from(last.is_some_and(|it| it.role == Role::Assistant));
    messages
}

/// Returns the record of the last request, if the thread does not have it yet.
pub(crate) fn record(snapshot: &Snapshot, sent: &Sent) -> Option<NewItem> {
    let view = view(snapshot);
    let is_known = recorded(snapshot).is_some_and(|it| it.view == view && it.sent.has_same_prefix(sent));
    let record = || SentRecord { view, sent: sent.assuming(0) };
    (!is_known).then(|| NewItem::note(KEY, Some(json!(record()))))
}
