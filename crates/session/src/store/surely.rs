//! Appends that are repeated: because their outcome is unknown, or because they come after whatever is the end.

use std::time::Duration;

use contexture_history::Item;

use super::{Append, Appended, Guard, Head, Log, LogState, Store};
use crate::{State, StoreError, ThreadKey, Time};

/// How long to wait before an append is repeated, the first and the last time; each time four times as long.
const FIRST_REPEAT: Duration = Duration::from_millis(20);
const LAST_REPEAT: Duration = Duration::from_millis(1280);

/// Appends, and repeats an append whose outcome is unknown a few times. It has a nonce, so it lands once.
pub async fn append_surely(
    log: &dyn Log,
    time: &dyn Time,
    key: &ThreadKey,
    append: Append,
) -> Result<Appended, StoreError> {
    let mut pause = FIRST_REPEAT;
    loop {
        match log.append(key.clone(), append.clone()).await {
            Err(StoreError::Unavailable { .. }) if pause <= LAST_REPEAT => {
                time.sleep(pause).await;
                pause *= 4;
            }
            done => return done,
        }
    }
}

/// Appends an item to a thread without being its writer, at the end, wherever that is by then. The item gets its position
/// here.
pub(crate) async fn append_beside(
    store: &dyn Store,
    key: &ThreadKey,
    nonce: &str,
    item: impl Fn(&State) -> Item,
) -> Result<(), StoreError> {
    loop {
        let mut state = Head::existing(store, key).await?.state;
        let expected = state.end;
        let item = Item { seq: expected.next(), ..item(&state) };
        state.apply(&item);
        let (nonce, state) = (nonce.to_owned(), Some(LogState::from(&state)));
        let append = Append { nonce, state, ..Append::new(Some(expected), vec![item], Guard::Any) };
        match store.append(key.clone(), append).await {
            Err(StoreError::Conflict { .. }) => {}
            done => return done.map(drop),
        }
    }
}
