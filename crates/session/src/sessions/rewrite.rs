//! Rewriting items of a thread, so that everyone who has the thread in memory reads it again.

use std::sync::Arc;

use contexture_history::{Body, Change, Cost, Item, Timestamp, Visibility};
use contexture_message::Tokens;
use serde_json::json;

use crate::store::{Append, Guard, Head, LogState, Store};
use crate::{StoreError, ThreadKey};

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
    loop {
        let head = Head::read(store, key).await?;
        let mut state = head.ok_or_else(|| StoreError::no_thread(&key.thread))?.state;
        let expected = state.end;
        let record = Item {
            seq: expected.next(),
            turn: state.turn,
            visibility: Visibility::NONE,
            cost: Cost { counter: Arc::from(""), tokens: Tokens(0) },
            author: None,
            at,
            body: Body::Change(Change::Noted { key: REWRITTEN.to_owned(), value: Some(json!({"at": at})) }),
        };
        state.apply(&record);
        let append = Append::new(Some(expected), vec![record], Guard::Any);
        match store.append(key.clone(), Append { state: Some(LogState::from(&state)), ..append }).await {
            Err(StoreError::Conflict { .. }) => {}
            done => return done.map(drop),
        }
    }
}
