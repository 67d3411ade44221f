//! The audit log: administrative actions on the server and its data. One journal in the store.

use std::sync::Arc;
use std::time::Duration;

use contexture_history::Timestamp;
use contexture_session::{
    Journal, JournalRecord, NewSession, SessionId, SessionKey, Store, StoreError, Tenant, Time,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize, Serializer};

use crate::Caller;
use crate::tasks::Tasks;

/// The name of the journal, and of the session that it belongs to.
const AUDIT: &str = "audit";
/// The actor when no key is required.
const ANONYMOUS: &str = "anybody";
/// How many entries are read per page when filtering by tenant.
const PAGE: usize = 500;
/// How many pages are read for one response; the caller continues after them.
const PAGES: usize = 20;
/// The actor for actions of the server itself.
pub(crate) const SERVER: &str = "server";

/// How long to wait before a record is tried again that the store does not take.
const PAUSE: Duration = Duration::from_millis(500);

/// Returns the session of system data, in a tenant that no key opens.
fn system_session() -> SessionKey {
    let tenant = Tenant::parse("~system").expect("it is the name of a tenant");
    SessionKey { tenant, session: SessionId::parse(AUDIT).expect("it is the name of a session") }
}

fn journal(store: &Arc<dyn Store>) -> Journal {
    Journal::new(Arc::clone(store), system_session(), AUDIT)
}

/// Something that was done.
#[must_use]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AuditEvent {
    /// The actor: `key:ID`, `cli`, `server`, or `anybody` where no key is required.
    pub actor: String,
    /// The action, such as `key.created`.
    pub act: String,
    /// The target of the action.
    pub target: String,
    /// The tenant whose data was affected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub tenant: Option<Tenant>,
    /// More details, if there are any.
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
    pub fn of_tenant(mut self, tenant: &Tenant) -> Self {
        self.tenant = Some(tenant.clone());
        self
    }

    /// Sets details. They must not contain secrets.
    pub fn detail(mut self, detail: impl Into<String>) -> Self {
        self.detail = Some(detail.into());
        self
    }

    /// Writes the event into the audit log. By the time it returns it is there.
    pub(crate) async fn write(&self, store: &Arc<dyn Store>, at: Timestamp) -> Result<(), StoreError> {
        let value = serde_json::to_value(self).unwrap_or_default();
        match journal(store).append(&value, at, false).await {
            Err(StoreError::NotFound { .. }) => {}
            done => return done.map(|_| ()),
        }
        let new = NewSession { key: system_session(), label: None, at };
        match store.create_session(new).await {
            Ok(()) | Err(StoreError::Exists { .. }) => {}
            Err(err) => return Err(err),
        }
        journal(store).append(&value, at, false).await.map(|_| ())
    }
}

/// Something that was done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct AuditEntry {
    /// Its number in the log.
    pub number: u64,
    /// The time of the action.
    #[serde(rename = "time", serialize_with = "as_text")]
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub at: Timestamp,
    /// The event itself.
    #[serde(flatten)]
    pub act: AuditEvent,
}

/// Returns the newest acts before a number (`None`: from the newest on), newest first.
pub async fn audit_log(
    store: &Arc<dyn Store>,
    before: Option<u64>,
    max: usize,
) -> Result<Vec<AuditEntry>, StoreError> {
    Ok(audit_page(store, None, before, max).await?.0)
}

/// Returns the newest acts before a number, of all tenants or on data of one, and the number to continue before, if
/// there may be more.
pub(crate) async fn audit_page(
    store: &Arc<dyn Store>,
    tenant: Option<&Tenant>,
    mut before: Option<u64>,
    max: usize,
) -> Result<(Vec<AuditEntry>, Option<u64>), StoreError> {
    let mut acts = Vec::new();
    let n_records = if tenant.is_some() { PAGE } else { max };
    for _ in 0..PAGES {
        let page = journal(store).newest(before, n_records).await?;
        let is_last = page.len() < n_records;
        for entry in page.into_iter().map(entry) {
            before = Some(entry.number);
            acts.extend(Some(entry).filter(|it| tenant.is_none() || it.act.tenant.as_ref() == tenant));
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

fn as_text<S: Serializer>(at: &Timestamp, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&at.to_millis())
}

fn entry(record: JournalRecord) -> AuditEntry {
    let unreadable = |_| AuditEvent::new("?", "unreadable", "");
    let act = AuditEvent::deserialize(record.value).unwrap_or_else(unreadable);
    AuditEntry { number: record.number, at: record.at, act }
}

/// Writes the audit log of a server that runs. Clones share everything.
#[derive(Clone, Debug)]
pub(crate) struct Audit {
    store: Arc<dyn Store>,
    time: Arc<dyn Time>,
    /// Each writes an act down.
    pub(crate) tasks: Tasks,
}

impl Audit {
    pub(crate) fn new(store: Arc<dyn Store>, time: Arc<dyn Time>) -> Self {
        Self { store, time, tasks: Tasks::default() }
    }

    /// Hands an act over to be written; it is written however long the store is away.
    pub(crate) fn note(&self, act: &AuditEvent) {
        self.tasks.running.spawn(self.clone().keep(act.clone()));
    }

    /// Writes an act down. By the time it returns it is in the log.
    pub(crate) async fn record(&self, act: AuditEvent) {
        // In a task of its own: a caller who goes away must not prevent it.
        let _ = self.tasks.running.spawn(self.clone().keep(act)).await;
    }

    async fn keep(self, act: AuditEvent) {
        let AuditEvent { actor, act: what, target, .. } = &act;
        tracing::info!(actor, act = what, target, "audit");
        let at = self.time.now();
        while let Err(err) = act.write(&self.store, at).await {
            tracing::warn!(error = %err, "the audit log can't be written yet; retrying");
            tokio::time::sleep(PAUSE).await;
        }
    }
}
