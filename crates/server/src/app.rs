//! The state shared by all requests, and what a request may reach of it.

use std::ops::Deref;
use std::sync::Arc;

use axum::extract::FromRequestParts;
use axum::http::StatusCode;
use axum::http::request::Parts;
use contexture_compose::Scope;
use contexture_flow::Runtime;
use contexture_message::ErrorCode;
use contexture_project::ServerConfig;
use contexture_session::{
    Documents, Names, SessionError, SessionId, SessionKey, Sessions, SourceIndex, Store, StoreError, Thread,
    ThreadId, Time,
};
use tokio_util::sync::CancellationToken;

use crate::bases_to_do::BasesToDo;
use crate::events::live::LiveAnswers;
use crate::flows::Drivers;
use crate::gate::Gate;
use crate::loaded_project::{AgentMaker, CurrentProject, LoadedProject};
use crate::ops::audit::{Audit, AuditEvent};
use crate::ops::metrics::Metrics;
use crate::ops::readiness::Readiness;
use crate::ops::watch::CallWatcher;
use crate::passes::PassRecorder;
use crate::running_turns::RunningTurns;
use crate::{Caller, Problem};

/// The state shared by all requests. Clones share everything.
#[derive(Clone, Debug)]
pub(crate) struct App(pub(crate) Arc<Inner>);

/// The state shared by all requests.
pub(crate) struct Inner {
    pub(crate) loaded: Arc<CurrentProject>,
    pub(crate) config: ServerConfig,
    /// The sessions of all tenants.
    pub(crate) sessions: Sessions,
    pub(crate) documents: Arc<dyn Documents>,
    /// The knowledge bases of all tenants.
    pub(crate) sources: Arc<dyn SourceIndex>,
    /// Which of them need work in the background.
    pub(crate) bases: Arc<BasesToDo>,
    pub(crate) time: Arc<dyn Time>,
    pub(crate) names: Arc<dyn Names>,
    pub(crate) live: LiveAnswers,
    pub(crate) running_turns: RunningTurns,
    pub(crate) drivers: Drivers,
    pub(crate) recorder: PassRecorder,
    pub(crate) watcher: CallWatcher,
    pub(crate) agent: AgentMaker,
    pub(crate) gate: Gate,
    pub(crate) audit: Audit,
    pub(crate) metrics: Metrics,
    pub(crate) readiness: Readiness,
    /// Ends streams and background work.
    pub(crate) stop: CancellationToken,
}

impl std::fmt::Debug for Inner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Inner").field("config", &self.config).finish_non_exhaustive()
    }
}

impl Deref for App {
    type Target = Inner;

    fn deref(&self) -> &Inner {
        &self.0
    }
}

impl Inner {
    /// Returns what is loaded now.
    pub(crate) fn loaded(&self) -> Arc<LoadedProject> {
        Arc::clone(&self.loaded.borrow())
    }

    /// Returns the store of all sessions.
    pub(crate) fn store(&self) -> &Arc<dyn Store> {
        self.sessions.store()
    }
}

/// What a request may reach: the server, and the data of its caller's tenant.
#[derive(Clone, Debug)]
pub(crate) struct Access {
    pub(crate) app: App,
    pub(crate) caller: Caller,
    /// The sessions of the caller's tenant.
    pub(crate) sessions: Sessions,
}

impl FromRequestParts<App> for Access {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Problem> {
        let unknown = || Problem::new(ErrorCode::Unauthorized, "the caller is unknown");
        let caller = parts.extensions.get::<Caller>().cloned().ok_or_else(unknown)?;
        Ok(Self { app: app.clone(), sessions: app.sessions.of_tenant(caller.tenant.clone()), caller })
    }
}

impl Deref for Access {
    type Target = App;

    fn deref(&self) -> &App {
        &self.app
    }
}

impl Access {
    /// Returns the runs of flows of the caller's tenant.
    pub(crate) fn flow_runs(&self) -> Runtime {
        self.drivers.runtime(&self.caller.tenant)
    }

    /// Returns the key of a session of the caller's tenant.
    pub(crate) fn key(&self, session: &SessionId) -> SessionKey {
        SessionKey { tenant: self.caller.tenant.clone(), session: session.clone() }
    }

    /// Opens a thread of a session in its current state: the main one unless another is named.
    pub(crate) async fn thread(&self, session: &SessionId, name: Option<String>) -> Result<Thread, Problem> {
        let id = name.map(ThreadId::parse).transpose()?.unwrap_or_else(|| session.main());
        let found = match id.session() == *session {
            true => self.sessions.open_thread(&id).await,
            false => Err(StoreError::no_thread(&id).into()),
        };
        match found {
            // A missing session is reported first, since that is the usual mistake.
            Err(SessionError::Store(StoreError::NotFound { .. })) => {
                self.sessions.open(session).await?;
                Err(StoreError::no_thread(&id).into())
            }
            found => Ok(found?),
        }
    }

    /// Returns what templates may know of a request.
    pub(crate) fn scope(&self, session: Option<&SessionId>, user: Option<String>) -> Scope {
        let (session, tenant) = (session.map(ToString::to_string), Some(self.caller.tenant.to_string()));
        Scope { session, user, tenant, now: Some(self.time.now().to_seconds()), ..Scope::default() }
    }

    /// Returns an event of the audit log: something that the caller did.
    pub(crate) fn act(&self, act: &str, target: &str) -> AuditEvent {
        AuditEvent::of(&self.caller, act, target)
    }

    /// Answers a deletion, and records it if there was something to delete.
    pub(crate) async fn deleted(
        &self,
        was_there: bool,
        act: AuditEvent,
        missing: Problem,
    ) -> Result<StatusCode, Problem> {
        if !was_there {
            return Err(missing);
        }
        self.audit.record(act).await;
        Ok(StatusCode::NO_CONTENT)
    }
}
