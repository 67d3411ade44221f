//! Reads long lists page by page.
//!
//! A page is read once everything of the page before was taken; one that is not full is the last. What is written
//! meanwhile beyond the place that was read is found, as with any cursor.

use contexture_history::{Item, Seq};
use futures::stream::{self, BoxStream};
use futures::{StreamExt as _, TryStreamExt as _};

use super::{Log, LogHead, LogList, SessionInfo, Span, Store, StoreFuture};
use crate::{SessionId, StoreError, Tenant, ThreadKey};

/// How many are read at once.
const PAGE: usize = 256;

/// Something read page by page.
pub type Pages<'a, T> = BoxStream<'a, Result<T, StoreError>>;

/// Returns all logs of a list, in its order; its `max` does not count.
pub fn logs(store: &dyn Store, list: LogList) -> Pages<'_, LogHead> {
    let read = |list: &LogList| store.logs(LogList { max: PAGE, ..list.clone() });
    pages(list, read, |list, last| list.after = Some(last.key()))
}

/// Returns all sessions of a tenant, in the order of their names.
pub fn sessions(store: &dyn Store, tenant: Tenant) -> Pages<'_, SessionInfo> {
    let read = move |after: &Option<SessionId>| store.sessions(tenant.clone(), after.clone(), PAGE);
    pages(None, read, |after, last| *after = Some(last.session.clone()))
}

/// Returns the items of a log after a position, oldest first.
pub fn items_after(store: &dyn Log, key: ThreadKey, after: Seq) -> Pages<'_, Item> {
    let read = move |seq: &Seq| store.read(key.clone(), Span::After { seq: *seq, max: PAGE });
    pages(after, read, |seq, last| *seq = last.seq)
}

fn pages<'a, C: Send + 'a, T: Send + 'a>(
    start: C,
    read: impl Fn(&C) -> StoreFuture<'a, Vec<T>> + Send + 'a,
    advance: fn(&mut C, &T),
) -> Pages<'a, T> {
    let pages = stream::try_unfold((Some(start), read), move |(cursor, read)| {
        let page = cursor.as_ref().map(&read);
        async move {
            let (Some(mut cursor), Some(page)) = (cursor, page) else { return Ok(None) };
            let page = page.await?;
            let is_last = page.len() < PAGE;
            page.last().inspect(|last| advance(&mut cursor, last));
            let cursor = (!is_last).then_some(cursor);
            Ok::<_, StoreError>(Some((stream::iter(page.into_iter().map(Ok)), (cursor, read))))
        }
    });
    pages.try_flatten().boxed()
}
