//! The state shared by all requests.

use std::sync::Arc;

use contexture_flow::Runtime;
use contexture_project::ServerConfig;
use contexture_session::{Documents, Names, Sessions, Time};
use tokio_util::sync::CancellationToken;

use crate::Caller;
use crate::events::live::LiveAnswers;
use crate::flows::Drivers;
use crate::gate::Gate;
use crate::loaded_project::{AgentMaker, CurrentProject, LoadedProject};
use crate::ops::audit::Audit;
use crate::ops::metrics::Metrics;
use crate::ops::readiness::Readiness;
use crate::ops::watch::Watchers;
use crate::passes::PassRecorder;
use crate::running_turns::RunningTurns;

/// The state shared by all requests. Clones share everything.
#[derive(Clone, Debug)]
pub struct App(pub(crate) Arc<Inner>);

/// The state shared by all requests.
pub(crate) struct Inner {
    pub(crate) loaded: Arc<CurrentProject>,
    pub(crate) config: ServerConfig,
    pub(crate) sessions: Sessions,
    pub(crate) documents: Arc<dyn Documents>,
    pub(crate) time: Arc<dyn Time>,
    pub(crate) names: Arc<dyn Names>,
    pub(crate) live: LiveAnswers,
    pub(crate) running_turns: RunningTurns,
    pub(crate) drivers: Drivers,
    pub(crate) recorder: PassRecorder,
    pub(crate) watchers: Watchers,
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

impl App {
    /// Returns what is loaded now.
    pub(crate) fn loaded(&self) -> Arc<LoadedProject> {
        self.0.loaded.get()
    }

    /// Returns the sessions that a caller may see.
    pub(crate) fn sessions(&self, caller: &Caller) -> Sessions {
        self.0.sessions.of_tenant(caller.tenant.clone())
    }

    /// Returns the runs of flows that a caller may see.
    pub(crate) fn flow_runs(&self, caller: &Caller) -> Runtime {
        self.0.drivers.runtime(&caller.tenant)
    }
}
