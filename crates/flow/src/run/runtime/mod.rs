//! Runs from outside: begin, drive, answer, cancel, list, follow.

pub(super) mod follow;
pub(super) mod forget;
pub(super) mod list;
pub(super) mod messages;
pub(super) mod start;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use contexture_agent::CancellationToken;
use contexture_history::Timestamp;
use contexture_session::{Append, Documents, Guard, Names, Sessions, Store, Tenant, Time};
use serde_json::Value;

use super::driver::{Driver, RuntimeConfig};
use super::error::RunError;
use super::record::info::RunInfo;
use super::record::log::{Entry, RunLog};
use super::record::{RunRecord, StoredRun, damaged};
use super::state::State;
use crate::keys;
use crate::{
    CompileInputs, Flow, FlowDefinition, Library, Nodes, RunEvent, RunId, RunStatus, Services, lower,
};

/// The dependencies of a runtime.
#[derive(Debug)]
pub struct RuntimeParts {
    /// The sessions, of any tenant. Their store is that of the runs.
    pub sessions: Sessions,
    /// Keeps the definitions of flows, and what `cache` nodes remember.
    pub documents: Arc<dyn Documents>,
    /// Tells the time and waits.
    pub time: Arc<dyn Time>,
    /// Generates names.
    pub names: Arc<dyn Names>,
    /// What the application provides to runs.
    pub library: Arc<dyn Library>,
    /// How runs are driven.
    pub config: RuntimeConfig,
}

/// The runs of one tenant. Clones share everything.
///
/// A run makes progress while it is driven: [`start`](Self::start) records it, [`drive`](Self::drive) runs it until it
/// ends or waits. The two may happen in different processes.
#[derive(Clone, Debug)]
pub struct Runtime {
    pub(super) parts: Arc<RuntimeParts>,
    pub(super) tenant: Tenant,
    /// Definitions that were written here, and when.
    pub(super) fresh_definitions: Arc<Mutex<BTreeMap<(Tenant, String), Timestamp>>>,
}

impl Runtime {
    /// Returns the runs of the default tenant.
    pub fn new(parts: RuntimeParts) -> Self {
        Self { parts: Arc::new(parts), tenant: Tenant::default(), fresh_definitions: Arc::default() }
    }

    /// Returns the runs of another tenant in the same store.
    #[must_use]
    pub fn of_tenant(&self, tenant: Tenant) -> Self {
        Self { tenant, ..self.clone() }
    }

    pub(super) fn store(&self) -> &dyn Store {
        &**self.parts.sessions.store()
    }

    pub(super) fn documents(&self) -> &dyn Documents {
        &*self.parts.documents
    }

    pub(super) fn log(&self, run: &RunId) -> RunLog {
        RunLog {
            run: run.clone(),
            key: run.log(&self.tenant),
            store: Arc::clone(self.parts.sessions.store()),
            time: Arc::clone(&self.parts.time),
            names: Arc::clone(&self.parts.names),
        }
    }

    pub(super) fn sessions(&self) -> Sessions {
        self.parts.sessions.of_tenant(self.tenant.clone())
    }

    /// Drives a run until it ends or everything in it waits for an answer. Cancelling `stop` releases the run
    /// immediately, without loss. Returns [`RunError::Driven`] if another driver has the run.
    pub async fn drive(&self, run: &RunId, stop: CancellationToken) -> Result<RunInfo, RunError> {
        if let Some(driver) = self.acquire(run).await? {
            driver.drive(stop).await?;
        }
        self.info(run).await
    }

    /// Whether another process drives a run, or was killed while it did and still holds it.
    pub async fn is_driven(&self, run: &RunId) -> Result<bool, RunError> {
        Ok(StoredRun::read(self.log(run).head().await?)?.is_driven())
    }

    /// Takes a run up, if it is not over.
    async fn acquire(&self, run: &RunId) -> Result<Option<Driver>, RunError> {
        let log = self.log(run);
        let stored = log.load().await?;
        if stored.record.status.is_over() {
            return Ok(None);
        }
        if stored.is_driven() {
            return Err(RunError::Driven { run: run.to_string() });
        }
        // Before anything is written: a run whose flow can't be rebuilt stays unchanged.
        let flow = match self.flow_of(run, &stored.record).await {
            Err(RunError::FlowChanged { .. } | RunError::Damaged { .. }) if stored.record.state.cancelled => {
                end_cancelled(&log, stored).await?;
                return Ok(None);
            }
            flow => flow?,
        };
        let services = self.services(run, stored.record.user.clone()).await?;
        Driver::open(log, flow, services, self.parts.config, &stored).await
    }

    async fn services(&self, run: &RunId, user: Option<String>) -> Result<Arc<Services>, RunError> {
        let session = self.sessions().open(run.session()).await?;
        Ok(Arc::new(Services {
            agent: self.parts.library.agent(),
            library: Arc::clone(&self.parts.library),
            tenant: self.tenant.clone(),
            user,
            session,
            documents: Arc::clone(&self.parts.documents),
            time: Arc::clone(&self.parts.time),
            threads: Mutex::default(),
        }))
    }

    /// Finds the flow that a run was begun with, and looks whether what is on record fits it.
    pub(super) async fn flow_of(&self, run: &RunId, run_record: &RunRecord) -> Result<Flow, RunError> {
        let flow = self.flow_at_start(run, run_record).await?;
        run_record.state.check(&flow).map_err(|why| damaged(run, &why))?;
        Ok(flow)
    }

    /// Finds the flow that a run was begun with: a run does not change because its file does.
    async fn flow_at_start(&self, run: &RunId, run_record: &RunRecord) -> Result<Flow, RunError> {
        let current = self.parts.library.flow(&run_record.flow);
        if let Some(flow) = current.filter(|it| it.fingerprint() == run_record.fingerprint) {
            return Ok(flow);
        }
        let changed =
            |why: String| RunError::FlowChanged { run: run.to_string(), flow: run_record.flow.clone(), why };
        let key = keys::definition(&self.tenant, &run_record.fingerprint);
        let document = self.documents().document(key).await?;
        let document = document.ok_or_else(|| changed("that version is not kept".to_owned()))?;
        let document: Value = serde_json::from_str(&document.data).map_err(|err| damaged(run, &err))?;
        rebuild_flow(&run_record.flow, &document, self.parts.library.nodes()).map_err(changed)
    }

    /// Returns what can be said of a run.
    pub async fn info(&self, run: &RunId) -> Result<RunInfo, RunError> {
        Ok(self.log(run).load().await?.info())
    }
}

/// Rebuilds a flow from its stored definition. Custom nodes are the current ones.
fn rebuild_flow(id: &str, document: &Value, nodes: Nodes) -> Result<Flow, String> {
    let read = |value: &Value| FlowDefinition::read(id, value).map_err(|err| err.to_string());
    let mut compile_inputs = CompileInputs { nodes, ..CompileInputs::default() };
    for sub in document["subs"].as_array().into_iter().flatten() {
        let sub = read(sub)?;
        compile_inputs.flows.insert(sub.id.clone(), Arc::new(sub));
    }
    lower(&read(&document["flow"])?, &compile_inputs).map_err(|err| err.to_string())
}

/// Ends a run that can't be driven any more, because its flow is gone or its state can't be read; otherwise it would
/// be due forever.
async fn end_cancelled(log: &RunLog, stored: StoredRun) -> Result<(), RunError> {
    let StoredRun { record, end, .. } = stored;
    let (status, outputs) = (RunStatus::Cancelled, record.outputs.clone());
    let event = RunEvent::RunEnd { status, outputs, node: None, error: None };
    let record = RunRecord { status, upto: end.plus(1).0, state: State::default(), ..record };
    let state = Some(record.log_state(log.time.now()));
    let append = Append { state, ..log.draft(end, [Entry::Event(event)], Guard::Free) };
    match log.append(append).await? {
        Some(_) => Ok(()),
        None => Err(RunError::Driven { run: log.run.to_string() }),
    }
}
