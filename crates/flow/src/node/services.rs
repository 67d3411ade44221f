//! The dependencies of nodes besides their inputs and their thread.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use contexture_agent::Agent;
use contexture_session::{Documents, Session, SessionError, Tenant, Thread, ThreadId, Time};

use super::library::Library;

/// The dependencies of nodes besides their inputs and their thread. Threads of the run are opened only here.
#[derive(Debug)]
pub struct Services {
    /// Runs prompts and tools.
    pub agent: Agent,
    /// Provides prompts and flows.
    pub library: Arc<dyn Library>,
    /// The owner of the run.
    pub tenant: Tenant,
    /// The user that the run works for, if it is known.
    pub user: Option<String>,
    /// The session that the run belongs to.
    pub session: Session,
    /// Stores documents of nodes.
    pub documents: Arc<dyn Documents>,
    /// Tells the time and waits.
    pub time: Arc<dyn Time>,
    /// The threads that the run has used.
    pub(crate) threads: Mutex<HashMap<ThreadId, Thread>>,
}

impl Services {
    /// Returns the handle of one of the session's threads. A thread of another session counts as missing.
    pub async fn thread(&self, id: &ThreadId) -> Result<Thread, SessionError> {
        if let Some(thread) = self.known().get(id) {
            return Ok(thread.clone());
        }
        let is_main = *id == self.session.id().main();
        let thread = if is_main { self.session.main().clone() } else { self.session.thread(id).await? };
        thread.refresh().await?;
        self.known().insert(id.clone(), thread.clone());
        Ok(thread)
    }

    /// Drops the handle of a deleted thread.
    pub(crate) fn forget(&self, id: &ThreadId) {
        self.known().remove(id);
    }

    fn known(&self) -> std::sync::MutexGuard<'_, HashMap<ThreadId, Thread>> {
        self.threads.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
