//! The state shared by all requests, and the server built on it.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use contexture_flow::{Runtime, RuntimeConfig, RuntimeParts};
use contexture_project::{Project, ServerConfig};
use contexture_session::{Names, Records, Sessions, StoreError, Time};
use tokio_util::sync::CancellationToken;

use crate::audit::{Audit, AuditEvent, SERVER};
use crate::caller::Caller;
use crate::event_writer::EventWriter;
use crate::flows::{Drivers, ProjectLibrary};
use crate::gate::Gate;
use crate::loaded_project::{AgentMaker, CurrentProject, LoadedProject};
use crate::lost_turns::StreamedTextRecovery;
use crate::metrics::Metrics;
use crate::passes::PassRecorder;
use crate::readiness::Readiness;
use crate::running_turns::RunningTurns;
use crate::watch::Watchers;
use crate::{background, layers, openapi, routes};

/// The dependencies of a server.
pub struct Parts {
    /// The prompts and the configuration.
    pub project: Project,
    /// Makes the agent that runs them.
    pub agent: AgentMaker,
    /// The sessions, of any tenant.
    pub sessions: Sessions,
    /// The store of events, passes, keys and the audit log, which is that of the sessions.
    pub records: Arc<dyn Records>,
    /// Provides the time.
    pub time: Arc<dyn Time>,
    /// Generates names.
    pub names: Arc<dyn Names>,
}

/// The state shared by all requests. Clones share everything.
#[derive(Clone, Debug)]
pub struct App(pub(crate) Arc<Inner>);

/// The state shared by all requests.
pub(crate) struct Inner {
    pub(crate) loaded: Arc<CurrentProject>,
    pub(crate) config: ServerConfig,
    pub(crate) sessions: Sessions,
    pub(crate) records: Arc<dyn Records>,
    pub(crate) time: Arc<dyn Time>,
    pub(crate) names: Arc<dyn Names>,
    pub(crate) event_writer: EventWriter,
    pub(crate) running_turns: RunningTurns,
    pub(crate) drivers: Drivers,
    pub(crate) recorder: PassRecorder,
    watchers: Watchers,
    pub(crate) agent: AgentMaker,
    pub(crate) gate: Gate,
    pub(crate) audit: Audit,
    pub(crate) metrics: Metrics,
    pub(crate) readiness: Readiness,
    /// Ends streams and background work.
    pub(crate) stop: CancellationToken,
}

impl Inner {
    /// Returns the watcher of model calls.
    pub(crate) fn watcher(&self) -> Watchers {
        self.watchers.clone()
    }
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

/// A server: its routes and its background tasks.
#[derive(Debug)]
pub struct Server {
    app: App,
}

impl Server {
    /// Makes a server. Fails if the agent can't be made.
    pub fn new(parts: Parts) -> Result<Self, String> {
        let Parts { project, agent, sessions, records, time, names } = parts;
        let config = project.config().server.clone();
        let recovery = StreamedTextRecovery { records: Arc::clone(&records), time: Arc::clone(&time) };
        sessions.set_lost_turn_recovery(Arc::new(recovery));
        let event_writer = EventWriter::new(Arc::clone(&records), Arc::clone(&time), Arc::clone(&names));
        let metrics = Metrics::default();
        let watchers = Watchers::default().and(Arc::new(metrics.clone()));
        let turn_timeout = Duration::from_secs(config.turn_timeout_seconds);
        let recorder = PassRecorder::new(event_writer.clone(), Arc::clone(&time), Arc::clone(&names));
        let watchers = watchers.and(Arc::new(recorder.clone()));
        let running_turns =
            RunningTurns::new(event_writer.clone(), Arc::clone(&time), turn_timeout, metrics.clone());
        let loaded = LoadedProject::load(project.clone(), project.faults(), &agent, watchers.clone())?;
        let loaded = Arc::new(CurrentProject::new(loaded));
        let library = ProjectLibrary { loaded: Arc::clone(&loaded), metrics: metrics.clone() };
        let runtime = Runtime::new(RuntimeParts {
            sessions: sessions.clone(),
            records: Arc::clone(&records),
            time: Arc::clone(&time),
            names: Arc::clone(&names),
            library: Arc::new(library),
            config: runtime_config(&config),
        });
        let drivers = Drivers::new(runtime, config.max_flow_runs);
        let gate = Gate::new(Arc::clone(&records), Arc::clone(&time), &config);
        let audit = Audit::new(event_writer.clone(), Arc::clone(&time));
        let inner = Inner {
            gate,
            audit,
            metrics,
            readiness: Readiness::default(),
            loaded,
            config,
            sessions,
            records,
            time,
            names,
            event_writer,
            running_turns,
            drivers,
            recorder,
            watchers,
            agent,
            stop: CancellationToken::new(),
        };
        Ok(Self { app: App(Arc::new(inner)) })
    }

    /// Returns where the server listens, and what it allows.
    pub fn config(&self) -> &ServerConfig {
        &self.app.0.config
    }

    /// Whether there is an API key, revoked or not; then every request needs one.
    pub async fn has_keys(&self) -> Result<bool, StoreError> {
        self.app.0.gate.has_keys().await
    }

    /// Requires a key from now on, even if all keys are deleted. A server that started with keys, or has ever seen
    /// one, does this by itself.
    pub fn require_keys(&self) {
        self.app.0.gate.require_keys();
    }

    /// Writes down that the server itself did something.
    pub(crate) fn note(&self, act: &str, target: &str) {
        self.app.0.audit.note(&AuditEvent::new(SERVER, act, target));
    }

    /// Returns the routes. [`background`](Self::background) must run alongside them.
    pub fn router(&self) -> Router {
        let (router, openapi) = routes::all().split_for_parts();
        let router = layers::around(openapi::serve(router, openapi), &self.app);
        router.layer(axum::middleware::from_fn(crate::chat::in_openai_shape))
    }

    /// Runs the background tasks until the server is stopped.
    pub async fn background(&self) {
        background::work(&self.app).await;
    }

    /// Waits for running turns and driven runs, then interrupts the turns and releases the runs; then ends streams and
    /// background work.
    pub async fn stop(&self) {
        let grace = Duration::from_secs(self.app.0.config.shutdown_grace_seconds);
        tokio::join!(self.app.0.running_turns.stop(grace), self.app.0.drivers.stop(grace));
        self.app.0.event_writer.flush_with_timeout().await;
        self.app.0.stop.cancel();
    }
}

/// Returns the configuration for driving runs. A server renews the leases of its runs as it does for its turns.
fn runtime_config(config: &ServerConfig) -> RuntimeConfig {
    RuntimeConfig { lease: Duration::from_secs(config.lease_seconds.max(1)), ..RuntimeConfig::default() }
}
