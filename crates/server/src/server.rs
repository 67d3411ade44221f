//! The server: its routes and its background tasks.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use contexture_flow::{Runtime, RuntimeConfig, RuntimeParts};
use contexture_project::{Project, ServerConfig};
use contexture_session::{Names, Records, Sessions, StoreError, Time};
use tokio_util::sync::CancellationToken;

use crate::app::{App, Inner};
use crate::background::lost_turns::StreamedTextRecovery;
use crate::events::writer::EventWriter;
use crate::flows::{Drivers, ProjectLibrary};
use crate::gate::Gate;
use crate::loaded_project::{AgentMaker, CurrentProject, LoadedProject};
use crate::ops::audit::{Audit, AuditEvent, SERVER};
use crate::ops::metrics::Metrics;
use crate::ops::readiness::Readiness;
use crate::ops::watch::Watchers;
use crate::passes::PassRecorder;
use crate::routes::{self, chat, openapi, ops};
use crate::running_turns::RunningTurns;
use crate::{background, layers};

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
        let router = layers::around(openapi::serve(router, openapi), ops::open(), &self.app);
        router.layer(axum::middleware::from_fn(chat::in_openai_shape))
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
