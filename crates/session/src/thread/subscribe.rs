//! Following a thread without a gap or a repeat.

use std::collections::VecDeque;
use std::sync::Arc;

use contexture_history::{Item, Seq};
use futures::stream::{self, Stream};

use crate::store::{Span, Store};
use crate::{StoreError, ThreadKey};

/// How many items are read per page.
const PAGE: usize = 256;

struct Follower {
    store: Arc<dyn Store>,
    key: ThreadKey,
    seen: Seq,
    read: VecDeque<Item>,
}

/// Returns every item after a position, each once and in order, now and as they come.
///
/// Items are always read from the log after the last position that was returned; notifications only trigger the next
/// read.
pub(crate) fn follow(
    store: Arc<dyn Store>,
    key: ThreadKey,
    after: Seq,
) -> impl Stream<Item = Result<Item, StoreError>> + Send + use<> {
    let follower = Follower { store, key, seen: after, read: VecDeque::new() };
    stream::try_unfold(follower, |mut follower| async move {
        loop {
            if let Some(item) = follower.read.pop_front() {
                follower.seen = item.seq;
                return Ok(Some((item, follower)));
            }
            follower.fill().await?;
        }
    })
}

impl Follower {
    async fn fill(&mut self) -> Result<(), StoreError> {
        let span = Span::After { seq: self.seen, max: PAGE };
        self.read = self.store.read(self.key.clone(), span).await?.into();
        if self.read.is_empty() {
            self.store.changed(self.key.clone(), self.seen).await?;
        }
        Ok(())
    }
}
