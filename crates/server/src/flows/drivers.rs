//! Runs driven by this instance: each has its own task, so it continues when its client disconnects.
//!
//! The configuration limits how many run concurrently; the others are recorded as due and start when a slot is free,
//! here or on another instance. A waiting run has neither a task nor a slot.

use contexture_message::ErrorCode;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use contexture_flow::{ForgetReport, RunError, RunId, RunInfo, Runtime};
use contexture_history::Timestamp;
use contexture_session::Tenant;
use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tokio::time::Instant;
use tracing::Instrument;

use crate::lock::lock;
use crate::tasks::Tasks;

/// How many due runs are read per sweep.
const MAX_DUE: usize = 1000;
/// The pause before a run that can't be driven is tried again: each attempt costs the store work and fills the log.
const STUCK_PAUSE: Duration = Duration::from_secs(60);

type Key = (Tenant, RunId);

/// All runs that are driven here. Clones share everything.
#[derive(Clone, Debug)]
pub(crate) struct Drivers {
    pub(crate) tasks: Tasks,
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    runtime: Runtime,
    slots: Arc<Semaphore>,
    state: Mutex<State>,
    /// Where they run: not on the thread of the request that started them, which has connections to serve.
    home: Option<Handle>,
}

#[derive(Debug, Default)]
struct State {
    /// Whether a slot was requested when none was free.
    is_slot_wanted: bool,
    /// Runs that could not be driven, and since when.
    stuck: BTreeMap<Key, Instant>,
    /// The due run that was taken last. The next sweep continues after it, so no run waits forever.
    swept: Option<Key>,
    /// Runs that are driven here, and whether they were requested again since. A run never has two tasks here, even
    /// if its driver renews its lease late.
    driven: BTreeMap<Key, bool>,
}

impl Drivers {
    pub(crate) fn new(runtime: Runtime, most: u32) -> Self {
        let slots = Arc::new(Semaphore::new(most.max(1) as usize));
        let (state, home) = (Mutex::default(), Handle::try_current().ok());
        Self { tasks: Tasks::default(), inner: Arc::new(Inner { runtime, slots, state, home }) }
    }

    /// Returns the runs of a tenant.
    pub(crate) fn runtime(&self, tenant: &Tenant) -> Runtime {
        self.inner.runtime.of_tenant(tenant.clone())
    }

    /// Returns how many runs can't be driven now.
    pub(crate) fn n_stuck(&self) -> usize {
        lock(&self.inner.state).stuck.len()
    }

    /// Drives a run if a slot is free. Returns whether there was one; otherwise the run stays due. A run that is
    /// driven here keeps its driver, which is notified of changes.
    pub(crate) fn drive(&self, tenant: &Tenant, run: &RunId) -> bool {
        if self.tasks.is_closed() {
            return false;
        }
        let Some(mut guard) = DriveGuard::begin(self, (tenant.clone(), run.clone())) else { return true };
        let Ok(slot) = Arc::clone(&self.inner.slots).try_acquire_owned() else {
            lock(&self.inner.state).is_slot_wanted = true;
            return false;
        };
        let (drivers, runtime) = (self.clone(), self.runtime(tenant));
        let work = async move {
            loop {
                let done = runtime.drive(&guard.key.1, drivers.tasks.stop.clone()).await;
                drivers.note(guard.key.clone(), done);
                if guard.is_done() {
                    break;
                }
            }
            drop((guard, slot));
            let is_slot_wanted = std::mem::take(&mut lock(&drivers.inner.state).is_slot_wanted);
            if is_slot_wanted && let Err(err) = drivers.sweep().await {
                tracing::warn!(code = err.code().as_str(), error = %err, "cannot look for due runs");
            }
        };
        // The run belongs to the trace of its request.
        let work = work.in_current_span();
        match &self.inner.home {
            Some(home) => drop(self.tasks.running.spawn_on(work, home)),
            None => drop(self.tasks.running.spawn(work)),
        }
        true
    }

    fn note(&self, run: Key, done: Result<RunInfo, RunError>) {
        match done {
            // Another driver has it, or it was deleted with its session.
            Ok(_) | Err(RunError::Driven { .. } | RunError::NotFound { .. }) => {
                lock(&self.inner.state).stuck.remove(&run);
            }
            Err(err) => {
                tracing::warn!(run = %run.1, code = err.code().as_str(), error = %err, "a run can't be driven now");
                // A store that was away is soon there again; then the run is due when its lease has passed.
                if err.code() != ErrorCode::StoreUnavailable {
                    lock(&self.inner.state).stuck.insert(run, Instant::now());
                }
            }
        }
    }

    /// Drives runs that have no driver.
    pub(crate) async fn sweep(&self) -> Result<(), RunError> {
        lock(&self.inner.state).stuck.retain(|_, since| since.elapsed() < STUCK_PAUSE);
        let after = lock(&self.inner.state).swept.clone();
        for key in self.inner.runtime.due(after.as_ref(), MAX_DUE).await? {
            // On a busy machine our own drivers renew their leases late too, which is no reason to start a second one.
            let is_left_alone =
                |state: &State| state.stuck.contains_key(&key) || state.driven.contains_key(&key);
            if !is_left_alone(&lock(&self.inner.state)) && !self.drive(&key.0, &key.1) {
                break;
            }
            lock(&self.inner.state).swept = Some(key);
        }
        Ok(())
    }

    /// Prunes runs of all tenants that ended before a time.
    pub(crate) async fn forget(&self, before: Timestamp) -> Result<ForgetReport, RunError> {
        self.inner.runtime.forget(before).await
    }
}

/// A task that drives a run, for as long as it does.
struct DriveGuard {
    drivers: Drivers,
    key: Key,
    is_done: bool,
}

impl DriveGuard {
    /// Begins to drive a run; nothing if another task does, which then looks at it again.
    fn begin(drivers: &Drivers, key: Key) -> Option<Self> {
        let mut state = lock(&drivers.inner.state);
        match state.driven.get_mut(&key) {
            Some(is_wanted) => *is_wanted = true,
            None => _ = state.driven.insert(key.clone(), false),
        }
        (!state.driven[&key]).then(|| Self { drivers: drivers.clone(), key, is_done: false })
    }

    /// Whether the run was not requested again. Then it is no longer driven here.
    fn is_done(&mut self) -> bool {
        let driven = &mut lock(&self.drivers.inner.state).driven;
        let is_wanted = driven.remove(&self.key).unwrap_or(false);
        self.is_done = !is_wanted || self.drivers.tasks.stop.is_cancelled();
        if !self.is_done {
            driven.insert(self.key.clone(), false);
        }
        self.is_done
    }
}

impl Drop for DriveGuard {
    fn drop(&mut self) {
        // There was no place for it, or its task broke off. Otherwise another task may drive the run by now.
        if !self.is_done {
            lock(&self.drivers.inner.state).driven.remove(&self.key);
        }
    }
}
