//! Following a thread without a gap or a repeat.

use std::sync::Arc;

use contexture_history::{Item, Seq};
use futures::TryStreamExt as _;
use futures::stream::{self, Stream};

use crate::store::{Span, Store};
use crate::{StoreError, ThreadKey};

/// How many items are read per page.
const PAGE: usize = 256;

/// Returns every item after a position, each once and in order, now and as they come.
///
/// Items are always read from the log after the last position that was returned; notifications only trigger the next
/// read.
pub(crate) fn follow(
    store: Arc<dyn Store>,
    key: ThreadKey,
    after: Seq,
) -> impl Stream<Item = Result<Item, StoreError>> + Send + use<> {
    let pages = stream::try_unfold((store, key, after), |(store, key, seq)| async move {
        loop {
            let items = store.read(key.clone(), Span::After { seq, max: PAGE }).await?;
            if let Some(last) = items.last().map(|it| it.seq) {
                let items = stream::iter(items.into_iter().map(Ok));
                return Ok::<_, StoreError>(Some((items, (store, key, last))));
            }
            store.changed(key.clone(), seq).await?;
        }
    });
    pages.try_flatten()
}
