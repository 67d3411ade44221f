//! Appends whose outcome is unknown are repeated.

use std::time::Duration;

use super::{Append, Appended, Log};
use crate::{StoreError, ThreadKey, Time};

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
