//! Start keys: repeating a key returns the first run, for as long as that run exists.
//!
//! A caller with a start key does not know the session of the first run, so a key belongs to the tenant and may
//! outlive its run. A key whose run is gone is free, and the process that notices frees it. Freeing also creates a
//! marker that names the deleted run, which can be created only once: a process with an outdated view can never take
//! the key from the run that has it now.

use contexture_history::Timestamp;
use contexture_session::{
    Document, DocumentList, Records, SessionId, Sessions, StoreError, Tenant, Writes, pages,
};
use futures::TryStreamExt as _;
use futures::future::ready;

use super::{PartialRunRecord, document};
use crate::keys::{self, Keys};
use crate::{RunError, RunId};

/// Finds the run that was begun with a key, if it is still there.
pub(crate) async fn run_of(
    records: &dyn Records,
    tenant: &Tenant,
    key: &str,
    now: Timestamp,
) -> Result<Option<RunId>, RunError> {
    let Some(found) = document(records, keys::start_key(tenant, key)).await? else { return Ok(None) };
    let run = RunId::parse(&found.data)?;
    if is_there(records, tenant, &run).await? {
        return Ok(Some(run));
    }
    free(records, tenant, key, &run, now).await?;
    Ok(None)
}

async fn is_there(records: &dyn Records, tenant: &Tenant, run: &RunId) -> Result<bool, StoreError> {
    let keys = Keys { tenant: tenant.clone(), run: run.clone() };
    Ok(document(records, keys.run()).await?.is_some())
}

/// Returns the marker that the key of a run was freed. It is written whenever a key is removed: a process that read
/// the key earlier and finds the run gone then leaves the new owner of the key alone.
pub(crate) fn freed_note(tenant: &Tenant, gone: &RunId, now: Timestamp) -> Document {
    Document { key: keys::freed(tenant, gone), at: now, data: String::new() }
}

/// Frees the key of a deleted run. Returns whether it was still taken.
async fn free(
    records: &dyn Records,
    tenant: &Tenant,
    key: &str,
    gone: &RunId,
    now: Timestamp,
) -> Result<bool, StoreError> {
    let (creates, deletes) = (vec![freed_note(tenant, gone, now)], vec![keys::start_key(tenant, key)]);
    match records.write(Writes { creates, deletes, ..Writes::default() }).await {
        Ok(_) => Ok(true),
        // Another process was faster.
        Err(StoreError::Exists { .. }) => Ok(false),
        Err(err) => Err(err),
    }
}

/// Frees keys in all tenants that were written before a time and whose runs are gone. Returns how many.
pub(crate) async fn free_old(
    records: &dyn Records,
    before: Timestamp,
    now: Timestamp,
) -> Result<u64, RunError> {
    let mut n_freed = 0;
    let mut keys = pages::documents(records, DocumentList::of_kind(keys::START_KEY));
    while let Some(Document { key, at, data }) = keys.try_next().await? {
        // A key that names no valid run is ignored.
        let Ok(run) = RunId::parse(&data) else { continue };
        if at < before && !is_there(records, &key.tenant, &run).await? {
            n_freed += u64::from(free(records, &key.tenant, &key.name, &run, now).await?);
        }
    }
    Ok(n_freed)
}

/// Deletes a session and everything in it, including its runs and their start keys. Returns whether it existed.
///
/// [`Sessions::delete`] leaves the start keys behind. They are free then, and are removed when runs are pruned.
pub async fn delete_session(
    sessions: &Sessions,
    records: &dyn Records,
    session: &SessionId,
    now: Timestamp,
) -> Result<bool, RunError> {
    let tenant = sessions.tenant();
    let used = used_in(records, tenant, session).await?;
    let was_there = sessions.delete(session).await?;
    for (key, run) in used {
        free(records, tenant, &key, &run, now).await?;
    }
    Ok(was_there)
}

/// Lists the start keys of a session's runs.
async fn used_in(
    records: &dyn Records,
    tenant: &Tenant,
    session: &SessionId,
) -> Result<Vec<(String, RunId)>, RunError> {
    let (tenant, session) = (Some(tenant.clone()), Some(session.clone()));
    let list = DocumentList { tenant, session, ..DocumentList::of_kind(keys::RUN) };
    let used = |it: Document| {
        let key = PartialRunRecord::read(&it.data)?.key?;
        Some((key, RunId::new(it.key.session?, it.key.name)))
    };
    Ok(pages::documents(records, list).try_filter_map(|it| ready(Ok(used(it)))).try_collect().await?)
}
