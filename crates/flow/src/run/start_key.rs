//! Start keys: repeating a key returns the first run, for as long as that run exists.
//!
//! A caller with a start key does not know the session of the first run, so a key belongs to the tenant and may
//! outlive its run. A key whose run is gone is free, and the process that notices frees it. Freeing also creates a
//! marker that names the deleted run, which can be created only once: a process with an outdated view can never take
//! the key from the run that has it now.

use contexture_history::Timestamp;
use contexture_session::{Document, DocumentList, Records, SessionId, Sessions, StoreError, Tenant, Writes};

use super::error::RunError;
use super::id::RunId;
use super::keys::{self, Keys};
use super::run_record::{PartialRunRecord, document};

/// How many documents are read per page.
const PAGE: usize = 256;

/// Finds the run that was begun with a key, if it is still there.
pub(super) async fn run_of(
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
pub(super) fn freed_note(tenant: &Tenant, gone: &RunId, now: Timestamp) -> Document {
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
pub(super) async fn free_old(
    records: &dyn Records,
    before: Timestamp,
    now: Timestamp,
) -> Result<u64, RunError> {
    let mut n_freed = 0;
    let mut after = None;
    loop {
        let kind = keys::START_KEY.to_owned();
        let list = DocumentList { kind, tenant: None, session: None, after: after.take(), max: PAGE };
        let page = records.list(list).await?;
        after = page.last().map(|it| it.key.clone());
        for key in page.iter().filter(|it| it.at < before) {
            // A key that names no valid run is ignored.
            let Ok(run) = RunId::parse(&key.data) else { continue };
            let tenant = &key.key.tenant;
            if !is_there(records, tenant, &run).await? {
                n_freed += u64::from(free(records, tenant, &key.key.name, &run, now).await?);
            }
        }
        if page.len() < PAGE {
            return Ok(n_freed);
        }
    }
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
    let mut used = Vec::new();
    let mut after = None;
    loop {
        let list = DocumentList {
            kind: keys::RUN.to_owned(),
            tenant: Some(tenant.clone()),
            session: Some(session.clone()),
            after: after.take(),
            max: PAGE,
        };
        let page = records.list(list).await?;
        after = page.last().map(|it| it.key.clone());
        used.extend(page.iter().filter_map(|it| {
            let key = PartialRunRecord::read(&it.data)?.key?;
            Some((key, RunId::new(session.clone(), it.key.name.clone())))
        }));
        if page.len() < PAGE {
            return Ok(used);
        }
    }
}
