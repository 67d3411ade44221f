//! `knowledge`: looks after knowledge bases and searches them.

mod add;
mod list;
mod reindex;
mod search;
mod show;

use std::sync::Arc;

use contexture::knowledge::{EmbedderError, IndexError, RetrieveError};
use contexture_message::ErrorCode;
use contexture_project::{BaseHome, Project, ProjectBase};
use contexture_session::sources::{BaseInfo, SourceIndex, SourceInfo};
use contexture_session::{BaseId, BaseKey, SourceId, StoreError, Tenant};

use crate::args::{Globals, KnowledgeArgs, KnowledgeCommand};
use crate::error::Failure;
use crate::output::{Progress, Reply};
use crate::setup::knowledge::provide;
use crate::setup::store::{self, Missing, Place, open_all};
use crate::setup::{root, runtime};
use crate::terminal::Screen;

pub(super) fn run(args: &KnowledgeArgs, globals: &Globals, screen: Screen) -> Result<Reply, Failure> {
    let tenant = Tenant::parse(args.tenant.as_str())?;
    let (project, dir) = root::open_or_empty(globals)?;
    let place = match &args.store {
        Some(url) => store::parse(url, &root::here()?)?,
        None => store::parse(&project.config().store.url, &dir)?,
    };
    if place == Place::Memory && matches!(args.command, KnowledgeCommand::Add { .. }) {
        let failure = Failure::usage("a store in memory is gone when this program ends");
        return Err(failure.hint("`--store URL` names another store"));
    }
    let missing = match args.command {
        KnowledgeCommand::Add { .. } => Missing::Create,
        // The first search of a folder makes the index.
        _ if !project.folder_bases().is_empty() => Missing::Create,
        _ => Missing::Refuse,
    };
    runtime::block_on(async {
        let opened = open_all(&place, missing).await?;
        provide(&project, Arc::clone(&opened.sources))?;
        let bases = Bases { project, store: opened.sources, tenant, as_json: globals.json, screen };
        dispatch(&args.command, &bases).await
    })?
}

async fn dispatch(command: &KnowledgeCommand, bases: &Bases) -> Result<Reply, Failure> {
    match command {
        KnowledgeCommand::Add { base, paths } => add::run(bases, base, paths).await,
        KnowledgeCommand::List { base: None } => list::bases(bases).await,
        KnowledgeCommand::List { base: Some(base) } => list::documents(bases, base).await,
        KnowledgeCommand::Search { base, query, top_k, min_score } => {
            search::run(bases, base, query, *top_k, *min_score).await
        }
        KnowledgeCommand::Show { base, document } => show::run(bases, base, document).await,
        KnowledgeCommand::Remove { base, document } => show::remove(bases, base, document).await,
        KnowledgeCommand::Reindex { base } => reindex::run(bases, base.as_deref()).await,
    }
}

/// The bases that a command works on.
struct Bases {
    project: Project,
    store: Arc<dyn SourceIndex>,
    tenant: Tenant,
    as_json: bool,
    screen: Screen,
}

/// A base whose documents are in the store.
struct StoredBase {
    base: Arc<ProjectBase>,
    key: BaseKey,
    is_folder: bool,
}

impl Bases {
    /// Finds a base whose documents are in the store.
    fn find(&self, name: &str) -> Result<StoredBase, Failure> {
        let id = BaseId::parse(name)?;
        if id.is_reserved() {
            return Err(missing(&id));
        }
        let base = self.project.base(&id);
        match base.home(&self.tenant) {
            BaseHome::Folder(key) => Ok(StoredBase { base, key, is_folder: true }),
            BaseHome::Own(key) => Ok(StoredBase { base, key, is_folder: false }),
            BaseHome::Engine => {
                let text = format!("the documents of knowledge base `{name}` are in a search engine");
                Err(Failure::new(ErrorCode::NotFound, text).hint("`contexture knowledge search` searches it"))
            }
        }
    }

    /// Finds a base that may be changed.
    fn writable(&self, name: &str) -> Result<StoredBase, Failure> {
        let found = self.find(name)?;
        if found.is_folder {
            let text = format!("knowledge base `{name}` is a folder of the project");
            let hint =
                format!("change the files in `knowledge/{name}`, then run `contexture knowledge reindex`");
            return Err(Failure::new(ErrorCode::BaseReadOnly, text).hint(hint));
        }
        Ok(found)
    }

    /// Returns what the store knows of a base. A folder is brought up to date first.
    async fn info(&self, found: &StoredBase) -> Result<BaseInfo, Failure> {
        let progress = Progress::new(self.screen);
        if found.is_folder {
            let shown = indexing(&progress, &found.key.base);
            found.base.sync_folder(&shown).await?;
        }
        let info = self.store.base(found.key.clone()).await?;
        info.ok_or_else(|| missing(&found.key.base))
    }

    async fn document(&self, found: &StoredBase, id: &SourceId) -> Result<SourceInfo, Failure> {
        self.info(found).await?;
        let documents = self.store.sources_with(found.key.clone(), vec![id.clone()]).await?;
        documents.into_iter().next().ok_or_else(|| {
            let text = format!("there is no document `{id}` in knowledge base `{}`", found.key.base);
            let hint = format!("`contexture knowledge list {}` shows what there is", found.key.base);
            Failure::new(ErrorCode::NotFound, text).hint(hint)
        })
    }
}

fn missing(base: &BaseId) -> Failure {
    let failure = Failure::from(StoreError::no_base(base));
    failure.hint("`contexture knowledge list` shows what there is; `contexture knowledge add` makes one")
}

/// Shows how far the index of a base is.
fn indexing<'a>(
    progress: &'a Progress,
    base: &'a BaseId,
) -> impl Fn(contexture::knowledge::IndexProgress) + Send + Sync + 'a {
    move |it| {
        let text = format!("documents of {base}, {} chunks written", it.chunks);
        progress.show(it.done, it.total, &text);
    }
}

impl From<IndexError> for Failure {
    fn from(err: IndexError) -> Self {
        match err {
            IndexError::Store(err) => err.into(),
            IndexError::Files(err) => Failure::new(ErrorCode::FileInvalid, err.to_string()).at(err.path),
        }
    }
}

impl From<RetrieveError> for Failure {
    fn from(err: RetrieveError) -> Self {
        match err {
            RetrieveError::Store(err) => err.into(),
            other => Failure::new(ErrorCode::ContributorFailed, other.to_string()),
        }
    }
}

impl From<EmbedderError> for Failure {
    fn from(err: EmbedderError) -> Self {
        match err {
            EmbedderError::Store(err) => err.into(),
            other => Failure::new(ErrorCode::ContributorFailed, other.to_string()),
        }
    }
}
