//! The server: its routes and its background tasks.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use contexture::capabilities::blackboard::BoardPorts;
use contexture::capabilities::memory::MemoryPorts;
use contexture_flow::{Runtime, RuntimeConfig, RuntimeParts};
use contexture_project::{KnowledgePorts, Project, ServerConfig};
use contexture_session::{Documents, Names, Sessions, SourceIndex, StoreError, Time};
use tokio_util::sync::CancellationToken;

use crate::app::{App, Inner};
use crate::bases_to_do::BasesToDo;
use crate::events::live::LiveAnswers;
use crate::flows::{Drivers, ProjectLibrary};
use crate::gate::{Gate, Keys};
use crate::loaded_project::{AgentMaker, CurrentProject, LoadedProject};
use crate::ops::audit::{Audit, AuditEvent, SERVER};
use crate::ops::metrics::Metrics;
use crate::ops::readiness::Readiness;
use crate::ops::watch::CallWatcher;
use crate::passes::PassRecorder;
use crate::routes::{self, chat, openapi, ops};
use crate::running_turns::RunningTurns;
use crate::tenant_blocks::TenantBlocks;
use crate::{background, layers};

/// How long interrupted turns have to be written down, and runs to be released.
const INTERRUPT: Duration = Duration::from_secs(10);
/// How long the end of the server waits for a store that takes nothing.
const FLUSH: Duration = Duration::from_secs(5);

/// The dependencies of a server.
pub struct Parts {
    /// The prompts and the configuration.
    pub project: Project,
    /// Makes the agent that runs them.
    pub agent: AgentMaker,
    /// The sessions, of any tenant.
    pub sessions: Sessions,
    /// The documents beside the sessions, such as keys, in the same store.
    pub documents: Arc<dyn Documents>,
    /// The knowledge bases, in the same store.
    pub sources: Arc<dyn SourceIndex>,
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
        let Parts { project, agent, sessions, documents, sources, time, names } = parts;
        let bases = Arc::new(BasesToDo::default());
        let wanted = Arc::clone(&bases);
        project.provide_knowledge(KnowledgePorts {
            store: Some(Arc::clone(&sources)),
            on_vectors_wanted: Some(Arc::new(move |key| wanted.want_vectors(key))),
            ..project.knowledge_ports()
        });
        let log = Arc::clone(sessions.store());
        let index = Arc::clone(&sources);
        project.memories().provide(MemoryPorts { index, log, time: Arc::clone(&time) });
        let (of_boards, of_names) = (Arc::clone(sessions.store()), Arc::clone(&names));
        project.boards().provide(BoardPorts { store: of_boards, time: Arc::clone(&time), names: of_names });
        project.artifacts().provide(sessions.clone());
        let config = project.config().server.clone();
        let (store, live) = (sessions.store(), LiveAnswers::default());
        let metrics = Metrics::default();
        let turn_timeout = Duration::from_secs(config.turn_timeout_seconds);
        let recorder = PassRecorder::new(Arc::clone(store), project.memories().clone(), Arc::clone(&time));
        let watcher =
            CallWatcher { metrics: metrics.clone(), recorder: recorder.clone(), live: live.clone() };
        let running_turns = RunningTurns::new(turn_timeout, metrics.clone());
        let blocks = TenantBlocks::new(Arc::clone(&documents));
        let loaded = LoadedProject::load(project.clone(), project.faults(), &agent, watcher.clone(), blocks)?;
        let loaded = Arc::new(CurrentProject::new(Arc::new(loaded)));
        let library =
            ProjectLibrary { loaded: Arc::clone(&loaded), metrics: metrics.clone(), live: live.clone() };
        let runtime = Runtime::new(RuntimeParts {
            sessions: sessions.clone(),
            documents: Arc::clone(&documents),
            time: Arc::clone(&time),
            names: Arc::clone(&names),
            library: Arc::new(library),
            config: runtime_config(&config),
        });
        let drivers = Drivers::new(runtime, config.max_flow_runs);
        let keys = Keys::new(Arc::clone(store), Arc::clone(&documents));
        let gate = Gate::new(keys, Arc::clone(&time), &config);
        let audit = Audit::new(Arc::clone(store), Arc::clone(&time));
        let inner = Inner {
            gate,
            audit,
            metrics,
            readiness: Readiness::default(),
            loaded,
            config,
            sessions,
            documents,
            sources,
            bases,
            time,
            names,
            live,
            running_turns,
            drivers,
            recorder,
            watcher,
            agent,
            stop: CancellationToken::new(),
        };
        Ok(Self { app: App(Arc::new(inner)) })
    }

    /// Returns where the server listens, and what it allows.
    pub fn config(&self) -> &ServerConfig {
        &self.app.config
    }

    /// Whether there is an API key, revoked or not; then every request needs one.
    pub async fn has_keys(&self) -> Result<bool, StoreError> {
        self.app.gate.has_keys().await
    }

    /// Requires a key from now on, even if all keys are deleted. A server that started with keys, or has ever seen
    /// one, does this by itself.
    pub fn require_keys(&self) {
        self.app.gate.require_keys();
    }

    /// Writes down that the server itself did something.
    pub(crate) fn note(&self, act: &str, target: &str) {
        self.app.audit.note(&AuditEvent::new(SERVER, act, target));
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
        let grace = Duration::from_secs(self.app.config.shutdown_grace_seconds);
        let (turns, runs) = (&self.app.running_turns.tasks, &self.app.drivers.tasks);
        tokio::join!(turns.end(grace, INTERRUPT), runs.end(grace, INTERRUPT));
        let written = async { tokio::join!(self.app.recorder.tasks().flush(), self.app.audit.tasks.flush()) };
        if tokio::time::timeout(FLUSH, written).await.is_err() {
            tracing::error!("the store takes no writes: some passes and audit records are lost");
        }
        self.app.stop.cancel();
    }
}

/// Returns the configuration for driving runs. A server renews the leases of its runs as it does for its turns.
fn runtime_config(config: &ServerConfig) -> RuntimeConfig {
    RuntimeConfig { lease: Duration::from_secs(config.lease_seconds.max(1)), ..RuntimeConfig::default() }
}
