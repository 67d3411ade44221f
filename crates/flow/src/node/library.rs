//! What runs get from the application, and nodes from their run.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use contexture_agent::Agent;
use contexture_compose::{BoxFuture, Prompt, Scope};
use contexture_message::ErrorCode;
use contexture_session::{Documents, Session, SessionError, Tenant, Thread, ThreadId, Time};
use serde_json::Value;

use super::custom::Nodes;
use super::flow::Flow;
use crate::{NodeError, RunEvent, RunId};

/// The context of an event.
#[derive(Clone, Copy, Debug)]
pub struct EventContext<'a> {
    /// The owner of the run.
    pub tenant: &'a Tenant,
    /// The run's id.
    pub run: &'a RunId,
    /// The flow of the run.
    pub flow: &'a Flow,
    /// The number of the event in the run's log, if it is in it.
    pub number: Option<u64>,
}

/// What runs need from the application. It is queried each time a run is taken, so a reload takes effect.
pub trait Library: fmt::Debug + Send + Sync + 'static {
    /// Returns the agent that runs prompts and tools.
    fn agent(&self) -> Agent;

    /// Returns a prompt by its id, or why there is none.
    fn prompt(&self, id: &str) -> Result<Prompt, String>;

    /// Returns a flow by its id.
    fn flow(&self, id: &str) -> Option<Flow>;

    /// Returns nodes of the application's own, by name: a run that began with an earlier version of its flow needs
    /// them.
    fn nodes(&self) -> Nodes {
        Nodes::default()
    }

    /// Returns what a blackboard holds, for [`blackboard_wait`](crate::NodeKind::BlackboardWait). `scope` says whose it
    /// is.
    fn blackboard(&self, id: String, _scope: Scope) -> BoxFuture<'_, Result<Value, NodeError>> {
        let missing = NodeError::new(ErrorCode::NotFound, format!("there is no blackboard `{id}`"));
        Box::pin(std::future::ready(Err(missing)))
    }

    /// Called for every event that is recorded here or that a driver here learns of, after it is recorded, and at once
    /// for every [`RunEvent::NodeEvent`], which is not recorded. To observe a run of other processes, follow it.
    fn on_event(&self, _about: EventContext<'_>, _event: &RunEvent) {}

    /// Called with the working time of a node of a kind, after each attempt here. What it waited for, an answer or
    /// its next attempt, is not in it.
    fn on_worked(&self, _kind: &'static str, _took: Duration) {}
}

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
