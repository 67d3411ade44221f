//! The knowledge bases of a project: folders below `knowledge/`, and those that `contexture.toml` names.
//!
//! A base is opened when it is first searched: a folder is then brought up to date in the store of the program, or in
//! memory if it gave none. The documents of a folder belong to the project and serve every caller. A base without a
//! folder is the caller's own, under their tenant.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use contexture_capabilities::Artifacts;
use contexture_capabilities::blackboard::{BoardError, Boards};
use contexture_capabilities::memory::{Memories, MemoryEntry, MemoryOptions, ModelExtractor, memory};
use contexture_capabilities::{BaseAccess, Bases, KnowledgeBase, Lookup, catalogue};
use contexture_compose::ports::{Clock, HttpCaller, HttpReply, HttpRequest, StoppedClock};
use contexture_compose::{Block, BoxError, BoxFuture, Scope};
use contexture_history::Timestamp;
use contexture_knowledge::document::Converter;
use contexture_knowledge::embed::{HttpEmbedder, MissingEmbedder, VectorCache, embed_missing};
use contexture_knowledge::folder::{CommandConverter, Folder};
use contexture_knowledge::pipeline::AskModel;
use contexture_knowledge::retrieve::{HttpRetriever, HttpRetrieverPorts};
use contexture_knowledge::{
    ChunkConfig, Embedder, EmbedderError, FileContent, FileError, IndexError, IndexPorts, IndexReport,
    Indexer, LocalRetriever, OnProgress, RetrieveError, Retriever,
};
use contexture_message::counter_for;
use contexture_session::sources::{BaseSettings, SourceIndex};
use contexture_session::{BaseId, BaseKey, MemoryStore, StoreError, Tenant, Time};
use futures::lock::Mutex;
use tokio::runtime::Handle;

use crate::config::{BaseConfig, Config, EmbedderConfig, RetrieverConfig};
use crate::files::{Files, KNOWLEDGE, Sources};

/// Stands for the set of bases among the files that a unit reads.
pub(crate) const BASES: &str = "knowledge/";

/// What the bases of a project need of the program. All of it is optional.
#[derive(Clone, Default)]
pub struct KnowledgePorts {
    /// Keeps the index; by default the memory of the process.
    pub store: Option<Arc<dyn SourceIndex>>,
    /// The tenant under which folders are indexed.
    pub tenant: Tenant,
    /// Calls search engines and embedders.
    pub http: Option<Arc<dyn HttpCaller>>,
    /// Ends calls that take too long.
    pub clock: Option<Arc<dyn Clock>>,
    /// Answers the steps of pipelines that ask a model.
    pub model: Option<Arc<dyn AskModel>>,
    /// Makes vectors, in place of the configured embedder.
    pub embedder: Option<Arc<dyn Embedder>>,
    /// Is called with bases whose chunks may lack vectors, for programs that make them in the background with
    /// [`ProjectBase::embed`].
    pub on_vectors_wanted: Option<Arc<dyn Fn(BaseKey) + Send + Sync>>,
}

/// What all bases share. It survives reloads.
struct Host {
    ports: RwLock<KnowledgePorts>,
    memory: Arc<dyn SourceIndex>,
    vectors: Arc<VectorCache>,
    boards: Boards,
    artifacts: Artifacts,
    /// The folder of the project, below which static models are found.
    root: Option<PathBuf>,
    /// The static model that was read last, by its path.
    static_model: std::sync::Mutex<Option<(String, Arc<dyn Embedder>)>>,
    /// The memories of the program, which are given after the prompts were compiled.
    memories: Memories,
    /// Lists what is remembered. One block, so that it is the same wherever it is named.
    memory_catalogue: Block,
}

impl Host {
    /// Returns the static model of a path. It is read once; one that can't be read says so when it is used.
    fn static_model(&self, path: &str) -> Arc<dyn Embedder> {
        let mut known = self.static_model.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, model)) = known.as_ref().filter(|(of, _)| of == path) {
            return Arc::clone(model);
        }
        let folder = self.root.as_ref().map_or_else(|| PathBuf::from(path), |it| it.join(path));
        let model = static_model(&folder);
        *known = Some((path.to_owned(), Arc::clone(&model)));
        model
    }

    fn ports(&self) -> KnowledgePorts {
        self.ports.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn store(&self) -> Arc<dyn SourceIndex> {
        self.ports().store.unwrap_or_else(|| Arc::clone(&self.memory))
    }
}

#[cfg(feature = "static-model")]
fn static_model(folder: &Path) -> Arc<dyn Embedder> {
    match contexture_knowledge::embed::StaticEmbedder::open(folder) {
        Ok(model) => Arc::new(model),
        Err(err) => Arc::new(MissingEmbedder::new(folder.display().to_string(), err.to_string())),
    }
}

#[cfg(not(feature = "static-model"))]
fn static_model(folder: &Path) -> Arc<dyn Embedder> {
    let detail = "this program was built without the feature `static-model`";
    Arc::new(MissingEmbedder::new(folder.display().to_string(), detail.to_owned()))
}

/// The model of the program, which may be given after the prompts were compiled.
struct LateModel(Arc<Host>);

impl AskModel for LateModel {
    fn ask(&self, prompt: String) -> BoxFuture<'_, Result<String, BoxError>> {
        let model = self.0.ports().model;
        Box::pin(async move {
            let model = model.ok_or("there is no model to ask")?;
            model.ask(prompt).await
        })
    }
}

/// Makes HTTP calls with what the program gives later.
struct LateHttp(Arc<Host>);

impl HttpCaller for LateHttp {
    fn call(&self, request: HttpRequest) -> BoxFuture<'static, Result<HttpReply, BoxError>> {
        match self.0.ports().http {
            Some(http) => http.call(request),
            None => Box::pin(std::future::ready(Err("this program makes no HTTP calls".into()))),
        }
    }
}

/// The knowledge bases of a project.
#[derive(Clone)]
pub(crate) struct Knowledge {
    host: Arc<Host>,
    bases: Bases,
    /// The bases by name, with what they were made of.
    made: BTreeMap<String, MadeBase>,
    catalogue: Block,
    embedder: EmbedderConfig,
}

#[derive(Clone)]
struct MadeBase {
    of: Made,
    base: Arc<ProjectBase>,
    handle: KnowledgeBase,
}

/// What a base was made of. If it changes, the base is made again, and so is what uses it.
#[derive(Clone, PartialEq)]
struct Made {
    config: BaseConfig,
    embedder: EmbedderConfig,
    has_folder: bool,
    /// The state of the files: their paths, sizes and times.
    files: u64,
}

impl Knowledge {
    pub(crate) fn new(files: &Arc<dyn Files>, sources: &Sources, config: &Config) -> Self {
        let memory = Arc::new(MemoryStore::new(Arc::new(NoTime)));
        let memories = Memories::unprovided();
        let host = Arc::new(Host {
            ports: RwLock::default(),
            memory,
            vectors: Arc::default(),
            boards: Boards::unprovided(),
            artifacts: Artifacts::default(),
            root: files.root().map(Path::to_owned),
            static_model: Default::default(),
            memory_catalogue: contexture_capabilities::memory(memories.clone()).as_catalogue(),
            memories,
        });
        Self::made(host, &BTreeMap::new(), files, sources, config)
    }

    /// Returns the bases of the files and the configuration now. Those that did not change are the same as before.
    pub(crate) fn reloaded(&self, files: &Arc<dyn Files>, sources: &Sources, config: &Config) -> Self {
        Self::made(Arc::clone(&self.host), &self.made, files, sources, config)
    }

    fn made(
        host: Arc<Host>,
        before: &BTreeMap<String, MadeBase>,
        files: &Arc<dyn Files>,
        sources: &Sources,
        config: &Config,
    ) -> Self {
        let mut made = BTreeMap::new();
        for name in sources.bases().iter().chain(config.knowledge.keys()) {
            // A name that no store accepts can't be that of a base.
            let Ok(id) = BaseId::parse(name.as_str()) else { continue };
            let own = config.knowledge.get(name).cloned().unwrap_or_default();
            let folder = sources.bases().contains(name).then(|| base_files(files, name));
            let of = Made {
                embedder: config.embedder.clone(),
                has_folder: folder.is_some(),
                files: folder.as_ref().map_or(0, |it| it.state()),
                config: own.clone(),
            };
            let now = match before.get(name) {
                Some(then) if then.of == of => then.clone(),
                _ => {
                    let description = own.description.clone();
                    let (host, embedder) = (Arc::clone(&host), config.embedder.clone());
                    let base = Arc::new(ProjectBase {
                        id,
                        config: own,
                        embedder,
                        folder,
                        host,
                        synced: Mutex::default(),
                        asked: Default::default(),
                    });
                    let access = Arc::new(Shared(Arc::clone(&base)));
                    MadeBase { of, base, handle: KnowledgeBase::with_access(name, description, access) }
                }
            };
            made.insert(name.clone(), now);
        }
        let bases: Bases = made.values().map(|it| it.handle.clone()).collect();
        let (own_host, own_embedder) = (Arc::clone(&host), config.embedder.clone());
        let bases = bases.or_else(move |name| {
            let base = ProjectBase::own(BaseId::parse(name).ok()?, &own_host, &own_embedder);
            Some(KnowledgeBase::with_access(name, None, Arc::new(Shared(Arc::new(base)))))
        });
        let all: Vec<KnowledgeBase> = bases.iter().cloned().collect();
        Self { host, bases, made, catalogue: catalogue(&all), embedder: config.embedder.clone() }
    }

    pub(crate) fn has_same_bases(&self, other: &Self) -> bool {
        let state = |it: &Self| -> Vec<(String, Made)> {
            it.made.iter().map(|(name, made)| (name.clone(), made.of.clone())).collect()
        };
        state(self) == state(other)
    }

    pub(crate) fn bases(&self) -> &Bases {
        &self.bases
    }

    pub(crate) fn memories(&self) -> &Memories {
        &self.host.memories
    }

    /// Returns the entry of a memory.
    pub(crate) fn memory(&self, options: MemoryOptions) -> Result<MemoryEntry, BoardError> {
        let (extracts, working) = (options.capture.extract, options.working.clone());
        let mut entry = memory(self.host.memories.clone()).options(options);
        if extracts {
            entry =
                entry.extractor(Arc::new(ModelExtractor::new(Arc::new(LateModel(Arc::clone(&self.host))))));
        }
        match working {
            Some(working) => entry.working(self.boards(), working),
            None => Ok(entry),
        }
    }

    /// Returns the block that lists what is remembered.
    pub(crate) fn memory_catalogue(&self) -> Block {
        self.host.memory_catalogue.clone()
    }

    /// Returns what makes HTTP calls, once the program has given it.
    pub(crate) fn http(&self) -> Arc<dyn HttpCaller> {
        Arc::new(LateHttp(Arc::clone(&self.host)))
    }

    pub(crate) fn boards(&self) -> &Boards {
        &self.host.boards
    }

    /// Returns the artifacts of sessions.
    pub(crate) fn artifacts(&self) -> &Artifacts {
        &self.host.artifacts
    }

    /// Returns the base with that name. One that neither a folder nor the configuration names is the tenant's own.
    pub(crate) fn base(&self, id: &BaseId) -> Arc<ProjectBase> {
        let unnamed = || Arc::new(ProjectBase::own(id.clone(), &self.host, &self.embedder));
        self.made.get(id.as_str()).map_or_else(unnamed, |it| Arc::clone(&it.base))
    }

    /// Returns the names of the bases that are folders.
    pub(crate) fn folders(&self) -> Vec<BaseId> {
        let folders = self.made.values().filter(|it| it.of.has_folder);
        folders.map(|it| it.base.id.clone()).collect()
    }

    pub(crate) fn provide(&self, ports: KnowledgePorts) {
        *self.host.ports.write().unwrap_or_else(PoisonError::into_inner) = ports;
    }

    pub(crate) fn ports(&self) -> KnowledgePorts {
        self.host.ports()
    }

    pub(crate) fn model(&self) -> Arc<dyn AskModel> {
        Arc::new(LateModel(Arc::clone(&self.host)))
    }

    /// Returns the block that lists the bases.
    pub(crate) fn catalogue(&self) -> Block {
        self.catalogue.clone()
    }
}

/// Where the documents of a base are, and who may change them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BaseHome {
    /// In a folder of the project. It serves every tenant, and only its files change it.
    Folder(BaseKey),
    /// In the store, as the tenant's own.
    Own(BaseKey),
    /// In a search engine, which keeps its documents itself.
    Engine,
}

/// A knowledge base, as programs look after it: where its documents are, how they are indexed and searched.
pub struct ProjectBase {
    id: BaseId,
    config: BaseConfig,
    embedder: EmbedderConfig,
    folder: Option<BaseFiles>,
    host: Arc<Host>,
    /// The store in which the folder is up to date.
    synced: Mutex<Option<Arc<dyn SourceIndex>>>,
    /// The tenants for whose documents vectors were asked for.
    asked: std::sync::Mutex<BTreeSet<Tenant>>,
}

impl fmt::Debug for ProjectBase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ProjectBase").field(&self.id).finish()
    }
}

struct Shared(Arc<ProjectBase>);

impl BaseAccess for Shared {
    fn retriever(&self, scope: &Scope) -> Lookup {
        let (base, tenant) = (Arc::clone(&self.0), scope.tenant.clone());
        Box::pin(async move {
            let invalid = |_| base.unreachable("the tenant has an invalid name");
            let tenant = tenant.map(Tenant::parse).transpose().map_err(invalid)?.unwrap_or_default();
            base.retriever(&tenant).await
        })
    }
}

impl ProjectBase {
    /// Returns a base that neither a folder nor the configuration names.
    fn own(id: BaseId, host: &Arc<Host>, embedder: &EmbedderConfig) -> Self {
        Self {
            id,
            config: BaseConfig::default(),
            embedder: embedder.clone(),
            folder: None,
            host: Arc::clone(host),
            synced: Mutex::default(),
            asked: Default::default(),
        }
    }

    /// Returns where the documents are that a tenant finds under this name.
    pub fn home(&self, tenant: &Tenant) -> BaseHome {
        let key = |tenant: Tenant| BaseKey { tenant, base: self.id.clone() };
        match (&self.config.retriever, &self.folder) {
            (RetrieverConfig::Http(_), _) => BaseHome::Engine,
            (RetrieverConfig::Local, Some(_)) => BaseHome::Folder(key(self.host.ports().tenant)),
            (RetrieverConfig::Local, None) => BaseHome::Own(key(tenant.clone())),
        }
    }

    /// Returns the language and the description of the configuration.
    pub fn settings(&self) -> BaseSettings {
        let BaseConfig { description, language, .. } = self.config.clone();
        BaseSettings { language, description }
    }

    /// Returns the store of the index.
    pub fn store(&self) -> Arc<dyn SourceIndex> {
        self.host.store()
    }

    /// Returns an indexer with the settings of the base.
    pub fn indexer(&self) -> Indexer {
        let ports =
            IndexPorts { store: self.store(), counter: counter_for(None), converter: self.converter() };
        Indexer::new(ports, ChunkConfig { tokens: self.config.chunk_tokens })
    }

    /// Returns the converter of the configuration for files that are no text.
    pub fn converter(&self) -> Option<Arc<dyn Converter>> {
        let (program, arguments) = self.config.converter.split_first()?;
        Some(Arc::new(CommandConverter::new(program, arguments.to_vec())))
    }

    /// Returns the retriever for a tenant. A folder is brought up to date first, once.
    pub async fn retriever(self: &Arc<Self>, tenant: &Tenant) -> Result<Arc<dyn Retriever>, RetrieveError> {
        let ports = self.host.ports();
        let embedder = self.embedder(&ports);
        if let RetrieverConfig::Http(config) = &self.config.retriever {
            let http = ports.http.ok_or_else(|| self.unreachable("this program makes no HTTP calls"))?;
            let clock = ports.clock.unwrap_or_else(|| Arc::new(StoppedClock));
            let ports = HttpRetrieverPorts { http, clock, embedder };
            return Ok(Arc::new(HttpRetriever::new(self.id.as_str(), (**config).clone(), ports)?));
        }
        self.open_folder().await.map_err(|err| match err {
            IndexError::Store(err) => RetrieveError::Store(err),
            other => self.unreachable(&other.to_string()),
        })?;
        let tenant = if self.folder.is_some() { ports.tenant.clone() } else { tenant.clone() };
        let key = BaseKey { tenant, base: self.id.clone() };
        let local = LocalRetriever::new(self.store(), key.clone()).ranked_by(self.config.ranking);
        let Some(embedder) = embedder else { return Ok(Arc::new(local)) };
        self.ask_for_vectors(&ports, &key);
        Ok(Arc::new(local.with_embedder(embedder, Arc::clone(&self.host.vectors))))
    }

    /// Asks the program for the missing vectors of a folder, unless that was done before.
    pub fn want_vectors(&self) {
        let ports = self.host.ports();
        if self.folder.is_some() && self.embedder(&ports).is_some() {
            let key = BaseKey { tenant: ports.tenant.clone(), base: self.id.clone() };
            self.ask_for_vectors(&ports, &key);
        }
    }

    /// Asks the program for the missing vectors of a base, once: a base that changes is made again or asked for by the
    /// program itself.
    fn ask_for_vectors(&self, ports: &KnowledgePorts, key: &BaseKey) {
        let is_new = self.asked.lock().unwrap_or_else(PoisonError::into_inner).insert(key.tenant.clone());
        if let Some(wanted) = ports.on_vectors_wanted.as_ref().filter(|_| is_new) {
            wanted(key.clone());
        }
    }

    /// Brings the folder up to date in the store, unless that was done before. Other callers wait for it.
    ///
    /// Converters, cutting and analysing take long, and requests need the runtime's threads: it has one of its own.
    pub async fn open_folder(self: &Arc<Self>) -> Result<(), IndexError> {
        if self.folder.is_none() || self.is_synced(self.synced.lock().await.as_ref()) {
            return Ok(());
        }
        let Ok(runtime) = Handle::try_current() else { return self.sync_if_needed().await };
        let (base, waiting) = (Arc::clone(self), runtime.clone());
        let work = runtime.spawn_blocking(move || waiting.block_on(base.sync_if_needed()));
        work.await.unwrap_or_else(|err| match err.try_into_panic() {
            Ok(panic) => resume_unwind(panic),
            Err(err) => {
                let (place, detail) = (format!("the folder of {}", self.id), err.to_string());
                Err(StoreError::Unavailable { place, detail }.into())
            }
        })
    }

    fn is_synced(&self, with: Option<&Arc<dyn SourceIndex>>) -> bool {
        with.is_some_and(|it| Arc::ptr_eq(it, &self.store()))
    }

    async fn sync_if_needed(&self) -> Result<(), IndexError> {
        let mut synced = self.synced.lock().await;
        if self.is_synced(synced.as_ref()) {
            return Ok(());
        }
        self.sync(&mut synced, &|_| {}).await.map(|_| ())
    }

    /// Brings the folder up to date in the store. Returns `None` if the base has none.
    pub async fn sync_folder(&self, progress: OnProgress<'_>) -> Result<Option<IndexReport>, IndexError> {
        self.sync(&mut *self.synced.lock().await, progress).await
    }

    async fn sync(
        &self,
        synced: &mut Option<Arc<dyn SourceIndex>>,
        progress: OnProgress<'_>,
    ) -> Result<Option<IndexReport>, IndexError> {
        let Some(folder) = &self.folder else { return Ok(None) };
        let store = self.store();
        let key = BaseKey { tenant: self.host.ports().tenant, base: self.id.clone() };
        store.put_base(key.clone(), self.settings(), Timestamp(0)).await?;
        let report = self.indexer().sync(&key, &**folder.files(), progress).await?;
        *synced = Some(store);
        Ok(Some(report))
    }

    /// Embeds the chunks of a base that have no vector of the embedder's model yet, and returns how many there were:
    /// `None` without an embedder.
    pub async fn embed(
        &self,
        key: &BaseKey,
        progress: &(dyn Fn(u64) + Send + Sync),
    ) -> Result<Option<u64>, EmbedderError> {
        let Some(embedder) = self.embedder(&self.host.ports()) else { return Ok(None) };
        embed_missing(&self.store(), key, &*embedder, progress).await.map(Some)
    }

    /// Returns the embedder of the program, or that of the configuration.
    fn embedder(&self, ports: &KnowledgePorts) -> Option<Arc<dyn Embedder>> {
        ports.embedder.clone().or_else(|| self.configured_embedder(ports))
    }

    fn configured_embedder(&self, ports: &KnowledgePorts) -> Option<Arc<dyn Embedder>> {
        let EmbedderConfig { url, model, authorization_env, path } = self.embedder.clone();
        if let Some(path) = path {
            return Some(self.host.static_model(&path));
        }
        let http = Arc::clone(ports.http.as_ref()?);
        Some(Arc::new(HttpEmbedder::new(url?, model?, authorization_env, http)))
    }

    fn unreachable(&self, detail: &str) -> RetrieveError {
        RetrieveError::Unreachable { base: self.id.to_string(), detail: detail.to_owned() }
    }
}

/// The files of a base: in a folder on disk, or among the files of a project in memory.
enum BaseFiles {
    Folder { files: Arc<dyn contexture_knowledge::Files>, root: PathBuf },
    Listed(Arc<dyn contexture_knowledge::Files>),
}

fn base_files(files: &Arc<dyn Files>, base: &str) -> BaseFiles {
    match files.root() {
        Some(root) => {
            let root = root.join(KNOWLEDGE).join(base);
            BaseFiles::Folder { files: Arc::new(Folder::new(&root)), root }
        }
        None => {
            let prefix = format!("{KNOWLEDGE}/{base}/");
            BaseFiles::Listed(Arc::new(Listed { files: Arc::clone(files), prefix }))
        }
    }
}

impl BaseFiles {
    fn files(&self) -> &Arc<dyn contexture_knowledge::Files> {
        match self {
            BaseFiles::Folder { files, .. } | BaseFiles::Listed(files) => files,
        }
    }

    /// Returns a number that changes when files are added, removed or written. No content is read from a disk.
    fn state(&self) -> u64 {
        use std::hash::{DefaultHasher, Hash as _, Hasher as _};
        let mut hasher = DefaultHasher::new();
        for path in self.files().list().unwrap_or_default() {
            match self {
                BaseFiles::Folder { root, .. } => {
                    let known = std::fs::metadata(root.join(&path)).ok();
                    known.map(|it| (it.len(), it.modified().ok())).hash(&mut hasher);
                }
                BaseFiles::Listed(files) => {
                    let bytes = files.read(&path).ok().map(|it| match it {
                        FileContent::Bytes { bytes, .. } => bytes,
                        FileContent::TooLarge { bytes } => bytes.to_le_bytes().to_vec(),
                    });
                    bytes.hash(&mut hasher);
                }
            }
            path.hash(&mut hasher);
        }
        hasher.finish()
    }
}

/// The files of a base among those of a project in memory.
struct Listed {
    files: Arc<dyn Files>,
    prefix: String,
}

impl contexture_knowledge::Files for Listed {
    fn list(&self) -> Result<Vec<String>, FileError> {
        let failed = |err: crate::FilesError| FileError { path: self.prefix.clone(), detail: err.reason() };
        let all = self.files.list().map_err(failed)?;
        Ok(all.iter().filter_map(|it| it.strip_prefix(&self.prefix)).map(str::to_owned).collect())
    }

    fn read(&self, path: &str) -> Result<FileContent, FileError> {
        let failed = |err: crate::FilesError| FileError { path: path.to_owned(), detail: err.reason() };
        let text = self.files.read(&format!("{}{path}", self.prefix)).map_err(failed)?;
        Ok(FileContent::Bytes { bytes: text.into_bytes(), at: Timestamp(0) })
    }
}

/// The time of the store in memory. It only holds an index here, for which the time does not matter.
#[derive(Debug)]
struct NoTime;

impl Time for NoTime {
    fn now(&self) -> Timestamp {
        Timestamp(0)
    }

    fn sleep(&self, _duration: Duration) -> BoxFuture<'static, ()> {
        Box::pin(std::future::pending())
    }
}
