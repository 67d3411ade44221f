//! Runs from outside: begin, drive, answer, cancel, list, follow.

pub(super) mod due;
pub(super) mod follow;
pub(super) mod forget;
pub(super) mod list;
pub(super) mod start;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex};

use contexture_agent::CancellationToken;
use contexture_history::Timestamp;
use contexture_session::{Document, Names, NewRecord, Records, Sessions, StoreError, Tenant, Time, Writes};
use serde_json::Value;

use super::driver::{DriveOutcome, Driver, RuntimeConfig};
use super::error::RunError;
use super::record::commit::WriteGuard;
use super::record::info::RunInfo;
use super::record::{self, RunRecord, inbox};
use super::state::State;
use crate::keys::{self, Keys};
use crate::{
    CompileInputs, Flow, FlowDefinition, Library, Nodes, RunEvent, RunId, RunStatus, Services, lower,
};

/// The dependencies of a runtime.
pub struct RuntimeParts {
    /// The sessions, of any tenant.
    pub sessions: Sessions,
    /// The store of runs, which is that of the sessions.
    pub records: Arc<dyn Records>,
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
#[derive(Clone)]
pub struct Runtime {
    pub(super) parts: Arc<RuntimeParts>,
    pub(super) tenant: Tenant,
    /// Definitions that were written here, and when.
    pub(super) fresh_definitions: Arc<Mutex<BTreeMap<(Tenant, String), Timestamp>>>,
}

impl fmt::Debug for Runtime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Runtime").field("tenant", &self.tenant).finish_non_exhaustive()
    }
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

    pub(super) fn records(&self) -> &dyn Records {
        &*self.parts.records
    }

    pub(super) fn keys(&self, run: &RunId) -> Keys {
        Keys { tenant: self.tenant.clone(), run: run.clone() }
    }

    pub(super) fn sessions(&self) -> Sessions {
        self.parts.sessions.of_tenant(self.tenant.clone())
    }

    /// Drives a run until it ends or everything in it waits for an answer. Cancelling `stop` releases the run
    /// immediately, without loss. Returns [`RunError::Driven`] if another driver has the run.
    pub async fn drive(&self, run: &RunId, stop: CancellationToken) -> Result<RunInfo, RunError> {
        let keys = self.keys(run);
        loop {
            let Some(driver) = self.acquire(&keys).await? else { return self.info(run).await };
            let DriveOutcome::Waiting { taken } = driver.drive(stop.clone()).await? else {
                return self.info(run).await;
            };
            // An answer may have arrived just before the run was released.
            let messages = self.records().read(keys.inbox(), taken, 1).await?;
            if messages.is_empty() || stop.is_cancelled() {
                return self.info(run).await;
            }
        }
    }

    /// Whether another process drives a run, or was killed while it did and still holds it.
    pub async fn is_driven(&self, run: &RunId) -> Result<bool, RunError> {
        let keys = self.keys(run);
        let (run_record, _) = record::load(self.records(), &keys).await?;
        Ok(!run_record.status.is_over()
            && run_record.is_driven
            && !self.is_silent(&keys, self.parts.time.now()).await?)
    }

    /// Takes a run up, if it is not over.
    pub(super) async fn acquire(&self, keys: &Keys) -> Result<Option<Driver>, RunError> {
        let (mut run_record, _) = record::load(self.records(), keys).await?;
        if run_record.status.is_over() {
            self.forget_marks(keys).await?;
            return Ok(None);
        }
        let now = self.parts.time.now();
        if run_record.is_driven && !self.is_silent(keys, now).await? {
            return Err(RunError::Driven { run: keys.run.to_string() });
        }
        // Before anything is written: a run whose flow can't be rebuilt stays unchanged.
        let flow = match self.flow_of(keys, &run_record).await {
            Err(RunError::FlowChanged { .. } | RunError::Damaged { .. })
                if self.is_cancelled(keys).await? =>
            {
                self.end_cancelled(keys, run_record).await?;
                return Ok(None);
            }
            flow => flow?,
        };
        let (before, is_taken_over) = (run_record.epoch, run_record.is_driven);
        (run_record.epoch, run_record.is_driven, run_record.status) =
            (before.saturating_add(1), true, RunStatus::Running);
        let writes = Writes {
            puts: vec![
                run_record.document(keys, now),
                Document { key: keys.due(), at: now, data: run_record.epoch.to_string() },
            ],
            creates: vec![Document { key: keys.fence(run_record.epoch), at: now, data: String::new() }],
            deletes: vec![keys.fence(before)],
            requires: vec![keys.fence(before)],
            ..Writes::default()
        };
        match self.records().write(writes).await {
            Ok(_) => {}
            Err(StoreError::NotFound { .. } | StoreError::Exists { .. }) => {
                return Err(RunError::Driven { run: keys.run.to_string() });
            }
            Err(err) => return Err(err.into()),
        }
        let services = self.services(keys).await?;
        let guard = WriteGuard {
            keys: keys.clone(),
            epoch: run_record.epoch,
            records: Arc::clone(&self.parts.records),
            time: Arc::clone(&self.parts.time),
        };
        Driver::open(guard, flow, services, self.parts.config, run_record, is_taken_over).await.map(Some)
    }

    /// Whether the run's driver has been silent for too long.
    pub(super) async fn is_silent(&self, keys: &Keys, now: Timestamp) -> Result<bool, RunError> {
        let beat = record::document(self.records(), keys.due()).await?;
        Ok(beat.is_none_or(|it| self.is_old(it.at, now)))
    }

    pub(super) fn is_old(&self, at: Timestamp, now: Timestamp) -> bool {
        let lease = i64::try_from(self.parts.config.lease.as_millis()).unwrap_or(i64::MAX);
        now.0.saturating_sub(at.0) >= lease
    }

    pub(super) async fn services(&self, keys: &Keys) -> Result<Arc<Services>, RunError> {
        let session = self.sessions().open(keys.run.session()).await?;
        Ok(Arc::new(Services {
            agent: self.parts.library.agent(),
            library: Arc::clone(&self.parts.library),
            tenant: self.tenant.clone(),
            session,
            records: Arc::clone(&self.parts.records),
            time: Arc::clone(&self.parts.time),
            threads: Mutex::default(),
        }))
    }

    /// Finds the flow that a run was begun with, and looks whether what is on record fits it.
    pub(super) async fn flow_of(&self, keys: &Keys, run_record: &RunRecord) -> Result<Flow, RunError> {
        let flow = self.flow_at_start(keys, run_record).await?;
        let damaged = |why: &str| RunError::Damaged { run: keys.run.to_string(), detail: why.to_owned() };
        run_record.state.check(&flow).map_err(damaged)?;
        Ok(flow)
    }

    /// Finds the flow that a run was begun with: a run does not change because its file does.
    async fn flow_at_start(&self, keys: &Keys, run_record: &RunRecord) -> Result<Flow, RunError> {
        let current = self.parts.library.flow(&run_record.flow);
        if let Some(flow) = current.filter(|it| it.fingerprint() == run_record.fingerprint) {
            return Ok(flow);
        }
        let changed = |why: String| RunError::FlowChanged {
            run: keys.run.to_string(),
            flow: run_record.flow.clone(),
            why,
        };
        let key = keys::definition(&self.tenant, &run_record.fingerprint);
        let document = record::document(self.records(), key).await?;
        let document = document.ok_or_else(|| changed("that version is not kept".to_owned()))?;
        let document: Value = record::parsed(keys, &document.data)?;
        rebuild_flow(&run_record.flow, &document, self.parts.library.nodes()).map_err(changed)
    }

    pub(super) async fn forget_marks(&self, keys: &Keys) -> Result<(), RunError> {
        let mut deletes = record::marks(self.records(), keys).await?;
        deletes.push(keys.due());
        self.records().write(Writes { deletes, ..Writes::default() }).await?;
        Ok(())
    }

    /// Answers a wait, once. The run continues when it is driven; a current driver is notified.
    pub async fn answer(&self, run: &RunId, wait: &str, value: Value) -> Result<(), RunError> {
        inbox::answer(self.records(), &self.keys(run), wait, value, self.parts.time.now()).await
    }

    /// Requests cancellation of a run, and returns its status before. The run ends when it is driven; a current driver
    /// is notified.
    pub async fn cancel(&self, run: &RunId) -> Result<RunStatus, RunError> {
        inbox::cancel(self.records(), &self.keys(run), self.parts.time.now()).await
    }

    /// Returns what can be said of a run.
    pub async fn info(&self, run: &RunId) -> Result<RunInfo, RunError> {
        let keys = self.keys(run);
        let (mut run_record, at) = record::load(self.records(), &keys).await?;
        let waits = if run_record.status.is_over() {
            Vec::new()
        } else {
            record::waits(self.records(), &keys).await?
        };
        if run_record.status == RunStatus::Waiting && waits.is_empty() {
            // Everything is answered, and no driver has taken the run yet: it counts as running.
            run_record.status = RunStatus::Running;
        }
        Ok(run_record.info(&keys, at, waits))
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

impl Runtime {
    /// Whether a cancellation was requested that no driver has handled.
    pub(super) async fn is_cancelled(&self, keys: &Keys) -> Result<bool, RunError> {
        Ok(record::document(self.records(), keys.mark(keys::CANCEL)).await?.is_some())
    }

    /// Ends a run that can't be driven any more, because its flow is gone or its state can't be read; otherwise it
    /// would be due forever.
    pub(super) async fn end_cancelled(&self, keys: &Keys, mut run_record: RunRecord) -> Result<(), RunError> {
        let at = self.parts.time.now();
        let status = RunStatus::Cancelled;
        let end = RunEvent::RunEnd { status, outputs: run_record.outputs.clone(), node: None, error: None };
        let mut deletes = record::marks(self.records(), keys).await?;
        deletes.extend(record::waits(self.records(), keys).await?.iter().map(|it| keys.wait(&it.id)));
        deletes.extend([keys.due(), keys.fence(run_record.epoch)]);
        let requires = vec![keys.fence(run_record.epoch)];
        (run_record.status, run_record.is_driven, run_record.state) = (status, false, State::default());
        let writes = Writes {
            records: vec![NewRecord { stream: keys.log(), at, data: record::written(&end) }],
            puts: vec![run_record.document(keys, at)],
            deletes,
            requires,
            ..Writes::default()
        };
        match self.records().write(writes).await {
            Err(StoreError::NotFound { .. }) => Err(RunError::Driven { run: keys.run.to_string() }),
            done => Ok(done.map(|_| ())?),
        }
    }
}
