//! The setup for driving runs: a project, its agent and a store.

use contexture_message::ErrorCode;
use std::sync::Arc;
use std::time::Duration;

use contexture::{ProjectLibrary, flow_runtime};
use contexture_flow::{Runtime, RuntimeConfig};
use contexture_project::Project;
use contexture_session::{Sessions, Tenant};
use futures::channel::mpsc::{UnboundedReceiver, unbounded};

use super::told::{TellingLibrary, Told};
use crate::args::{Globals, RunStoreArgs};
use crate::error::Failure;
use crate::setup::models::{self, Models};
use crate::setup::root;
use crate::setup::store::{self, Missing, open_all};
use crate::setup::telemetry::{self, Telemetry};
use crate::stage::{agent_builder, session_config};

/// The project and runtime that runs are driven with.
pub(super) struct DriveSetup {
    pub(super) project: Arc<Project>,
    pub(super) runtime: Runtime,
    /// What is told of the runs that are driven here.
    pub(super) told: UnboundedReceiver<Told>,
    _telemetry: Telemetry,
}

impl DriveSetup {
    /// Opens the project and the store.
    pub(super) async fn open(
        args: &RunStoreArgs,
        missing: Missing,
        globals: &Globals,
    ) -> Result<Self, Failure> {
        let (project, dir) = root::open_with_dir(globals)?;
        let config = project.config().clone();
        let models = Models::of(&config, models::variable)?;
        let telemetry = telemetry::start(&config.telemetry, telemetry::Usual::Nothing, models.proxies())?;
        let agent = agent_builder(&project, &models)?
            .build()
            .map_err(|err| Failure::new(ErrorCode::ToolCollision, err.to_string()))?;
        let place = match &args.store {
            Some(url) => store::parse(url, &root::here()?)?,
            None => store::parse(&config.store.url, &dir)?,
        };
        let opened = open_all(&place, missing).await?;
        let ports = contexture::session_ports(config.model.default.as_deref());
        let project = Arc::new(project);
        let sessions = Sessions::new(opened.store, ports, session_config(&config));
        let (sender, told) = unbounded();
        let library = ProjectLibrary { project: Arc::clone(&project), agent };
        let library = TellingLibrary { library, sender };
        let lease = Duration::from_secs(config.server.lease_seconds.max(1));
        let runtime_config = RuntimeConfig { lease, ..RuntimeConfig::default() };
        let runtime = flow_runtime(library, sessions, opened.documents, runtime_config);
        let runtime = runtime.of_tenant(Tenant::parse(args.tenant.as_str())?);
        Ok(Self { project, runtime, told, _telemetry: telemetry })
    }
}
