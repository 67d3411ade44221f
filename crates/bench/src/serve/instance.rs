//! The server process: separate, so that its memory and CPU time can be measured.

use std::error::Error;
use std::io::{Read, Write};
use std::path::Path;
use std::sync::Arc;

use contexture::model::{Client, ClientConfig, ModelProvider};
use contexture::project::Project;
use contexture::session::{Documents, SourceIndex, Store};
use contexture::session::{SessionConfig, Sessions};
use contexture::store_postgres::PostgresConfig;
use contexture::store_postgres::PostgresStore;
use contexture::store_sqlite::SqliteConfig;
use contexture::store_sqlite::SqliteStore;
use contexture::{SystemNames, SystemTime, session_ports};
use contexture_server::{AgentMaker, Listener, Parts, Server};

/// Serves a project until `input` ends. The first line of `output` is its address.
pub fn instance(
    folder: &Path,
    url: Option<&str>,
    mut input: impl Read + Send + 'static,
    mut output: impl Write,
) -> Result<(), Box<dyn Error>> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let server = server(folder, url).await?;
        let listener = Listener::bind(&server, folder).await?;
        writeln!(output, "{}", listener.url())?;
        output.flush()?;
        let stop = tokio::task::spawn_blocking(move || drop(input.read_to_end(&mut Vec::new())));
        listener.serve(&server, async move { drop(stop.await) }).await;
        Ok(())
    })
}

async fn server(folder: &Path, url: Option<&str>) -> Result<Server, Box<dyn Error>> {
    let project = Project::open(folder).map_err(|err| format!("{:?}", err.faults))?;
    let (store, documents, sources) = open_store(folder, url).await?;
    let sessions = Sessions::new(
        store,
        session_ports(None),
        SessionConfig { kept_threads: 512, ..SessionConfig::default() },
    );
    let (time, names) = (Arc::new(SystemTime), Arc::new(SystemNames));
    Ok(Server::new(Parts { project, agent: agent_maker(), sessions, documents, sources, time, names })?)
}

/// A store under each of its contracts.
type OpenStore = (Arc<dyn Store>, Arc<dyn Documents>, Arc<dyn SourceIndex>);

/// Opens a database, or the file in a folder.
pub(super) async fn open_store(folder: &Path, url: Option<&str>) -> Result<OpenStore, Box<dyn Error>> {
    Ok(match url {
        Some(url) => parts(PostgresStore::connect(url, PostgresConfig::default()).await?),
        None => {
            let config = SqliteConfig::new(Arc::new(SystemTime));
            parts(SqliteStore::open(folder.join("contexture.db"), config)?)
        }
    })
}

fn parts<S: Store + Documents + SourceIndex>(store: S) -> OpenStore {
    let store = Arc::new(store);
    (Arc::clone(&store) as Arc<dyn Store>, Arc::clone(&store) as Arc<dyn Documents>, store)
}

fn agent_maker() -> AgentMaker {
    Arc::new(|project: &Project| {
        let providers = project.config().providers.iter().map(|(name, it)| {
            let provider = ModelProvider { base_url: it.base_url.clone(), ..ModelProvider::new(it.dialect) };
            (name.clone(), provider)
        });
        let config = ClientConfig {
            providers: providers.collect(),
            catalogue: project.config().catalogue(),
            ..ClientConfig::default()
        };
        let client = Client::new(config).map_err(|err| err.to_string())?;
        let model = project.config().model.default.clone();
        let config = contexture::agent::AgentConfig { model, ..Default::default() };
        let agent = contexture::agent(client).config(config).catalogue(project.catalogue().clone());
        Ok(agent.engine(contexture::engine()))
    })
}
