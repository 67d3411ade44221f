//! Gives the knowledge bases of a project what they need of this program.

use std::sync::Arc;

use contexture::SystemHttp;
use contexture_agent::HttpCaller;
use contexture_message::ErrorCode;
use contexture_project::{KnowledgePorts, Project};
use contexture_session::SourceIndex;

use crate::error::Failure;
use crate::setup::models::{self, Models};
use crate::setup::store::{Missing, Place, open_all};

/// Lets the bases of a project use a store, and HTTP for embedders and search engines.
pub(crate) fn provide(project: &Project, store: Arc<dyn SourceIndex>) -> Result<(), Failure> {
    provide_ports(project, Some(store))
}

fn provide_ports(project: &Project, store: Option<Arc<dyn SourceIndex>>) -> Result<(), Failure> {
    let http = http(&Models::of(project.config(), models::variable)?)?;
    project.provide_knowledge(KnowledgePorts {
        store,
        http: Some(http),
        clock: Some(contexture::engine().clock),
        ..project.knowledge_ports()
    });
    Ok(())
}

/// Does the same with a store that exists already. Without one, folders are indexed in memory.
pub(crate) async fn provide_existing(project: &Project, place: &Place) -> Result<(), Failure> {
    let exists = match place {
        Place::Memory => false,
        Place::Sqlite(path) => path.exists(),
        Place::Postgres(_) => true,
    };
    if project.knowledge().is_empty() && !project.asks_servers() {
        return Ok(());
    }
    if !exists {
        return provide_ports(project, None);
    }
    provide(project, open_all(place, Missing::Refuse).await?.sources)
}

/// Returns what makes HTTP calls, through the proxies of the environment.
pub(crate) fn http(models: &Models) -> Result<Arc<dyn HttpCaller>, Failure> {
    let http = SystemHttp::new(models.proxies(), None, models::variable);
    Ok(Arc::new(http.map_err(|err| Failure::new(ErrorCode::RuntimeFailed, err.to_string()))?))
}
