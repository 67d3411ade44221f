//! The audit log: administrative actions on the server and its data. One system stream in the store.

use std::sync::Arc;

use contexture_history::Timestamp;
use contexture_session::records::{NewRecord, Record, Records, StreamKey, Writes};
use contexture_session::{StoreError, Tenant, Time};
use serde::{Deserialize, Serialize};

use crate::Caller;
use crate::events::writer::EventWriter;

/// The kind of the stream.
const AUDIT: &str = "audit";
/// The actor when no key is required.
const ANONYMOUS: &str = "anybody";
/// How many entries are read per page when filtering by tenant.
const PAGE: usize = 500;
/// How many pages are read for one response; the caller continues after them.
const PAGES: usize = 20;
/// The actor for actions of the server itself.
pub(crate) const SERVER: &str = "server";

/// The tenant of system data: keys and the audit log.
pub(crate) fn system() -> Tenant {
    Tenant::default()
}

pub(crate) fn stream() -> StreamKey {
    StreamKey::of_tenant(&system(), AUDIT)
}

/// Something that was done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditEvent {
    /// The actor: `key:ID`, `cli`, `server`, or `anybody` where no key is required.
    pub actor: String,
    /// The action, such as `key.created` or `session.deleted`.
    pub act: String,
    /// The target of the action.
    pub target: String,
    /// The tenant whose data was affected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<Tenant>,
    /// More about it, if there is more to say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
}

impl AuditEvent {
    /// Returns an event.
    pub fn new(actor: &str, act: &str, target: &str) -> Self {
        let (actor, act, target) = (actor.to_owned(), act.to_owned(), target.to_owned());
        Self { actor, act, target, tenant: None, detail: None }
    }

    /// Returns an event caused by a request, on data of the caller's tenant.
    pub fn of(caller: &Caller, act: &str, target: &str) -> Self {
        let actor = caller.key.as_ref().map_or_else(|| ANONYMOUS.to_owned(), |it| format!("key:{it}"));
        Self::new(&actor, act, target).of_tenant(&caller.tenant)
    }

    /// Sets the tenant whose data was affected.
    #[must_use]
    pub fn of_tenant(mut self, tenant: &Tenant) -> Self {
        self.tenant = Some(tenant.clone());
        self
    }

    /// Sets details. They must not contain secrets.
    #[must_use]
    pub fn detail(mut self, detail: impl Into<String>) -> Self {
        self.detail = Some(detail.into());
        self
    }

    /// Returns the record of the audit log, to be written together with what was done.
    pub(crate) fn record(&self, at: Timestamp) -> NewRecord {
        NewRecord { stream: stream(), at, data: serde_json::to_string(self).unwrap_or_default() }
    }
}

/// An act, as the log has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditEntry {
    /// Its number in the log, from 1.
    pub number: u64,
    /// The time of the action.
    pub at: Timestamp,
    /// The event itself.
    pub act: AuditEvent,
}

/// Returns the newest acts before a number (`None`: from the newest on), newest first.
pub async fn audit_log(
    records: &dyn Records,
    before: Option<u64>,
    max: usize,
) -> Result<Vec<AuditEntry>, StoreError> {
    let records = records.read_back(stream(), before, max).await?;
    Ok(records.into_iter().map(entry).collect())
}

/// Returns the newest events on data of a tenant, and the number to continue before, if there may be more.
pub(crate) async fn audit_log_of(
    records: &dyn Records,
    tenant: &Tenant,
    mut before: Option<u64>,
    max: usize,
) -> Result<(Vec<AuditEntry>, Option<u64>), StoreError> {
    let mut acts = Vec::new();
    for _ in 0..PAGES {
        let page = records.read_back(stream(), before, PAGE).await?;
        let is_last = page.len() < PAGE;
        for entry in page.into_iter().map(entry) {
            before = Some(entry.number);
            acts.extend(Some(entry).filter(|it| it.act.tenant.as_ref() == Some(tenant)));
            if acts.len() == max {
                return Ok((acts, before.filter(|it| *it > 1)));
            }
        }
        if is_last {
            return Ok((acts, None));
        }
    }
    Ok((acts, before))
}

fn entry(record: Record) -> AuditEntry {
    let unreadable = || AuditEvent::new("?", "unreadable", "");
    let act = serde_json::from_str(&record.data).unwrap_or_else(|_| unreadable());
    AuditEntry { number: record.number, at: record.at, act }
}

/// Writes the audit log of a server that runs.
#[derive(Clone, Debug)]
pub(crate) struct Audit {
    event_writer: EventWriter,
    time: Arc<dyn Time>,
}

impl Audit {
    pub(crate) fn new(event_writer: EventWriter, time: Arc<dyn Time>) -> Self {
        Self { event_writer, time }
    }

    /// Hands an act over to be written; it is written however long the store is away.
    pub(crate) fn note(&self, act: &AuditEvent) {
        let AuditEvent { actor, act: what, target, .. } = act;
        tracing::info!(actor, act = what, target, "audit");
        let records = vec![act.record(self.time.now())];
        self.event_writer.write(Writes { records, ..Writes::default() });
    }

    /// Writes an act down. By the time it returns it is in the log.
    pub(crate) async fn record(&self, act: AuditEvent) {
        self.note(&act);
        self.event_writer.flush().await;
    }
}
