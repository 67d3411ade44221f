//! The log of a run: how its entries are written and read.

use std::sync::Arc;

use contexture_history::{Application, Body, Item, Seq, Timestamp};
use contexture_session::{
    Append, Appended, Fence, Guard, LogHead, Names, Store, StoreError, ThreadKey, Time, append_surely, pages,
    record_item,
};
use futures::TryStreamExt as _;
use serde::Deserialize;
use serde_json::Value;

use super::{StoredRun, damaged};
use crate::{RunError, RunEvent, RunId, Wait};

/// The kind of items that hold events.
const EVENT: &str = "flow";
/// The kind of items that tell a run to stop.
const CANCEL: &str = "flow.cancel";
/// The kind of items with messages to runs of earlier versions.
const INBOX: &str = "flow.inbox";

/// An entry of a run's log.
#[derive(Clone, Debug, PartialEq)]
#[expect(clippy::large_enum_variant, reason = "nearly all entries are events")]
pub(crate) enum Entry {
    /// Something happened.
    Event(RunEvent),
    /// The run is to stop.
    Cancel,
}

/// A message to a run, as earlier versions kept it.
#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum InboxMessage {
    Answer { wait: String, value: Value },
    Cancel,
}

/// The log of a run in its store.
#[derive(Clone, Debug)]
pub(crate) struct RunLog {
    pub(crate) run: RunId,
    pub(crate) key: ThreadKey,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) time: Arc<dyn Time>,
    pub(crate) names: Arc<dyn Names>,
}

impl RunLog {
    fn error(&self, err: StoreError) -> RunError {
        RunError::of(&self.run, err)
    }

    pub(crate) async fn head(&self) -> Result<LogHead, RunError> {
        let head = self.store.head(self.key.clone()).await?;
        head.ok_or_else(|| RunError::NotFound { run: self.run.to_string() })
    }

    /// Reads the run as it is now.
    pub(crate) async fn load(&self) -> Result<StoredRun, RunError> {
        let mut stored = StoredRun::read(self.head().await?)?;
        for (seq, entry) in self.entries(stored.end).await? {
            stored.take(seq, entry);
        }
        Ok(stored)
    }

    /// Reads all entries after a position. What is no entry that is known here has only its position.
    pub(crate) async fn entries(&self, after: Seq) -> Result<Vec<(Seq, Option<Entry>)>, RunError> {
        let mut entries = Vec::new();
        let mut items = pages::items_after(&*self.store, self.key.clone(), after);
        while let Some(item) = items.try_next().await.map_err(|err| self.error(err))? {
            entries.push((item.seq, self.entry(item.body)?));
        }
        Ok(entries)
    }

    pub(crate) fn entry(&self, body: Body) -> Result<Option<Entry>, RunError> {
        let Body::Application(Application { kind, value }) = body else { return Ok(None) };
        entry(&kind, value).map_err(|err| damaged(&self.run, &err))
    }

    /// Returns an append where the log ends, without a state and keys.
    pub(crate) fn draft(&self, end: Seq, entries: impl IntoIterator<Item = Entry>, guard: Guard) -> Append {
        let items = items(end, entries, self.time.now());
        Append { nonce: self.names.next(), ..Append::new(Some(end), items, guard) }
    }

    /// Appends. Returns `None` if the log does not end where it was expected to.
    pub(crate) async fn append(&self, append: Append) -> Result<Option<Appended>, RunError> {
        match append_surely(&*self.store, &*self.time, &self.key, append).await {
            Ok(appended) => Ok(Some(appended)),
            Err(StoreError::Conflict { .. }) => Ok(None),
            Err(err) => Err(self.error(err)),
        }
    }

    /// Takes, extends or releases the lease.
    pub(crate) async fn lease(&self, guard: Guard) -> Result<Fence, RunError> {
        let fence = self.store.lease(self.key.clone(), guard).await.map_err(|err| self.error(err))?;
        Ok(fence.unwrap_or_default())
    }
}

fn entry(kind: &str, value: Value) -> serde_json::Result<Option<Entry>> {
    Ok(match kind {
        EVENT => Some(Entry::Event(serde_json::from_value(value)?)),
        CANCEL => Some(Entry::Cancel),
        INBOX => match serde_json::from_value(value)? {
            InboxMessage::Cancel => Some(Entry::Cancel),
            InboxMessage::Answer { wait, value } => answer(wait, value).map(Entry::Event),
        },
        _ => None,
    })
}

/// Returns the event of an answer; `None` if nothing waits under such an id.
pub(crate) fn answer(wait: String, value: Value) -> Option<RunEvent> {
    let (node, firing) = Wait::place_of(&wait)?;
    Some(RunEvent::NodeAnswer { node: node.into(), firing, wait, value })
}

/// Returns the items of entries that follow a position.
pub(crate) fn items(end: Seq, entries: impl IntoIterator<Item = Entry>, at: Timestamp) -> Vec<Item> {
    let item = |(idx, entry)| {
        let (kind, value) = match entry {
            // It is plain data: its maps have names as keys.
            Entry::Event(event) => (EVENT, serde_json::to_value(event).unwrap_or_default()),
            Entry::Cancel => (CANCEL, Value::Null),
        };
        Item { seq: end.plus(idx), ..record_item(kind, value, at) }
    };
    (1..).zip(entries).map(item).collect()
}
