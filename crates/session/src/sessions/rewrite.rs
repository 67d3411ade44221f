//! Rewriting items of a thread, so that everyone who has the thread in memory reads it again.

use contexture_history::{Body, Change, Item, Timestamp};
use serde_json::json;

use crate::journal::record;
use crate::store::Store;
use crate::store::surely::append_beside;
use crate::{State, StoreError, ThreadKey};

/// The note that items were rewritten, with the time.
const REWRITTEN: &str = "contexture.rewritten";

/// Puts other content in the place of items of a thread, see [`Store::rewrite`], and appends a record of it.
///
/// The record makes the thread longer, so every process that has a snapshot of it loads it again before it writes. It
/// needs no lease: a running turn goes on, with the new content from its next append on.
pub async fn rewrite_thread(
    store: &dyn Store,
    key: &ThreadKey,
    items: Vec<Item>,
    at: Timestamp,
) -> Result<(), StoreError> {
    store.rewrite(key.clone(), items).await?;
    let noted = Change::Noted { key: REWRITTEN.to_owned(), value: Some(json!({"at": at})) };
    let record = |state: &State| Item { turn: state.turn, ..record(Body::Change(noted.clone()), at) };
    append_beside(store, key, "", record).await
}
