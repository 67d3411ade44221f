//! Keeps a base up to date: incremental by hash, atomic per document, resumable.
//!
//! A document is compared with what the store has by the hash of its content and of how it is indexed. What is the same
//! is left alone; the others are cut, analysed and replaced, several in one commit. A run that was killed left whole
//! documents only, and the next one continues with the rest. While one batch is being written, the next one is prepared.

use std::collections::BTreeSet;
use std::sync::Arc;

use contexture_history::Timestamp;
use contexture_message::TokenCounter;
use contexture_session::rank::{Analyzer, Fields, Language};
use contexture_session::sources::{BaseInfo, NewChunk, NewSource, SourceIndex, SourceInfo};
use contexture_session::{BaseKey, SourceId, StoreError};
use futures::future::{Either, join};
use sha2::{Digest as _, Sha256};

use crate::chunk::{ChunkConfig, Chunker};
use crate::document::{self, Converter, Document, FILE_ORIGIN, Refusal};

/// Changes whenever documents are cut or analysed differently, so that they are indexed again.
const INDEX_VERSION: u32 = 1;
/// About how many chunks are written in one commit.
const BATCH_CHUNKS: usize = 2_000;
/// How many documents are compared with the store at once.
const BATCH_FILES: usize = 256;
/// How many ids are listed at once.
const PAGE: usize = 1_000;

/// The files of a base, as the indexer sees them. Tests and applications may have others than those of a folder.
pub trait Files: Send + Sync {
    /// Lists the paths of all files, relative, with `/`, each once.
    fn list(&self) -> Result<Vec<String>, FileError>;

    /// Reads a file at one moment: not a mixture of two versions.
    fn read(&self, path: &str) -> Result<FileContent, FileError>;
}

/// What a file has in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileContent {
    /// All of it.
    Bytes {
        /// The content.
        bytes: Vec<u8>,
        /// The time of the last change.
        at: Timestamp,
    },
    /// It was not read, because it is too large.
    TooLarge {
        /// The size.
        bytes: u64,
    },
}

/// A file or folder that can't be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{path}` can't be read: {detail}")]
pub struct FileError {
    /// The path.
    pub path: String,
    /// The system's message.
    pub detail: String,
}

/// Why a base could not be brought up to date.
#[derive(Debug, thiserror::Error)]
pub enum IndexError {
    /// The store failed. What was written before stays, and the next run continues from there.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The files can't be listed.
    #[error(transparent)]
    Files(#[from] FileError),
}

/// A file that is no part of the base.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SkippedFile {
    /// The path.
    pub path: String,
    /// The reason.
    pub reason: SkipReason,
}

/// Why a file is no part of the base.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SkipReason {
    /// It is no document. An earlier version of it was removed.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// It can't be read now. An earlier version of it stays.
    #[error(transparent)]
    Unreadable(#[from] FileError),
}

/// The result of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IndexReport {
    /// Documents that are new.
    pub added: u64,
    /// Documents that have changed.
    pub updated: u64,
    /// Documents that are the same.
    pub unchanged: u64,
    /// Documents that were removed.
    pub removed: u64,
    /// Chunks that were written.
    pub chunks: u64,
    /// Files that are no part of the base, with the reasons.
    pub skipped: Vec<SkippedFile>,
}

/// How far a run is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IndexProgress {
    /// Documents that are done.
    pub done: u64,
    /// Documents that there are.
    pub total: u64,
    /// Chunks that were written.
    pub chunks: u64,
}

/// What an indexer needs.
#[derive(Clone)]
pub struct IndexPorts {
    /// Where the bases are.
    pub store: Arc<dyn SourceIndex>,
    /// Measures chunks.
    pub counter: Arc<dyn TokenCounter>,
    /// Converts files that are no text, if there is a converter.
    pub converter: Option<Arc<dyn Converter>>,
}

/// Brings bases up to date.
#[derive(Clone)]
pub struct Indexer {
    ports: IndexPorts,
    config: ChunkConfig,
    /// About how many chunks are written in one commit.
    batch: usize,
}

impl std::fmt::Debug for Indexer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Indexer").field("config", &self.config).finish_non_exhaustive()
    }
}

/// Called with the progress of a run, after each commit.
pub type OnProgress<'a> = &'a (dyn Fn(IndexProgress) + Send + Sync);

impl Indexer {
    /// Returns an indexer.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// use contexture_history::Timestamp;
    /// use contexture_knowledge::{Document, Indexer, IndexPorts, Media};
    /// use contexture_session::{BaseId, BaseKey, MemoryStore, SourceId, SourceIndex, Tenant};
    /// # use contexture_session::conformance::SystemTime;
    ///
    /// # futures::executor::block_on(async {
    /// let store = Arc::new(MemoryStore::new(Arc::new(SystemTime)));
    /// let base = BaseKey { tenant: Tenant::default(), base: BaseId::parse("handbook")? };
    /// store.put_base(base.clone(), Default::default(), Timestamp(0)).await?;
    /// let counter = contexture_message::counter_for(None);
    /// let indexer = Indexer::new(IndexPorts { store, counter, converter: None }, Default::default());
    /// let document = Document::new(SourceId::parse("refunds")?, Media::Text, "Refunds take 30 days.");
    /// let report = indexer.add(&base, vec![document], &|_| {}).await?;
    /// assert_eq!((report.added, report.chunks), (1, 1));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn new(ports: IndexPorts, config: ChunkConfig) -> Self {
        Self { ports, config, batch: BATCH_CHUNKS }
    }

    /// Sets about how many chunks are written in one commit: fewer are visible sooner, more are written faster.
    #[must_use]
    pub fn with_batch(self, chunks: usize) -> Self {
        Self { batch: chunks.max(1), ..self }
    }

    /// Adds documents to an existing base, or replaces those that have changed.
    pub async fn add(
        &self,
        base: &BaseKey,
        documents: Vec<Document>,
        progress: OnProgress<'_>,
    ) -> Result<IndexReport, IndexError> {
        let language = self.base(base).await?.settings.language;
        let total = documents.len() as u64;
        let mut run = Run::new(self, base, language, total, progress);
        let mut documents = documents.into_iter().peekable();
        while documents.peek().is_some() {
            let some: Vec<Document> = documents.by_ref().take(BATCH_FILES).collect();
            run.documents(some).await?;
        }
        run.finish().await
    }

    /// Brings a base up to date with files: changed ones are replaced, and documents whose files are gone are removed.
    /// Documents that were added otherwise stay.
    pub async fn sync(
        &self,
        base: &BaseKey,
        files: &dyn Files,
        progress: OnProgress<'_>,
    ) -> Result<IndexReport, IndexError> {
        let language = self.base(base).await?.settings.language;
        let paths: BTreeSet<String> = files.list()?.into_iter().collect();
        let total = paths.len() as u64;
        let mut run = Run::new(self, base, language, total, progress);
        let mut kept: BTreeSet<String> = BTreeSet::new();
        let mut batch = Vec::new();
        for path in &paths {
            match self.read(files, path) {
                Ok(document) => {
                    kept.insert(path.clone());
                    batch.push(document);
                }
                Err(reason) => {
                    // What can't be read now may be readable later: its old version stays.
                    if matches!(reason, SkipReason::Unreadable(_)) {
                        kept.insert(path.clone());
                    }
                    run.skip(SkippedFile { path: path.clone(), reason });
                }
            }
            if batch.len() >= BATCH_FILES {
                run.documents(std::mem::take(&mut batch)).await?;
            }
        }
        run.documents(batch).await?;
        let mut report = run.finish().await?;
        report.removed = self.remove_missing(base, &kept).await?;
        Ok(report)
    }

    fn read(&self, files: &dyn Files, path: &str) -> Result<Document, SkipReason> {
        match files.read(path)? {
            FileContent::TooLarge { bytes } => {
                let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
                Err(Refusal::TooLarge { bytes }.into())
            }
            FileContent::Bytes { bytes, at } => {
                let document = document::read(path, &bytes, self.ports.converter.as_deref())?;
                Ok(Document { at, ..document })
            }
        }
    }

    async fn base(&self, base: &BaseKey) -> Result<BaseInfo, IndexError> {
        let found = self.ports.store.base(base.clone()).await?;
        Ok(found.ok_or_else(|| StoreError::no_base(&base.base))?)
    }

    /// Removes the documents of files that are gone.
    async fn remove_missing(&self, base: &BaseKey, kept: &BTreeSet<String>) -> Result<u64, IndexError> {
        let mut gone = Vec::new();
        let mut after = None;
        loop {
            let page = self.ports.store.sources(base.clone(), after.take(), PAGE).await?;
            let is_gone = |it: &&SourceInfo| {
                let path = it.origin.as_deref().and_then(|it| it.strip_prefix(FILE_ORIGIN));
                path.is_some_and(|it| !kept.contains(it))
            };
            gone.extend(page.iter().filter(is_gone).map(|it| it.id.clone()));
            after = page.last().map(|it| it.id.clone());
            if page.len() < PAGE {
                break;
            }
        }
        let mut removed = 0;
        for ids in gone.chunks(PAGE) {
            removed += self.ports.store.remove_sources(base.clone(), ids.to_vec()).await?;
        }
        Ok(removed)
    }

    /// Returns the version of a document: the hash of everything that its index depends on.
    fn version(&self, language: Language, document: &Document) -> String {
        let mut hash = Sha256::new();
        let settings = format!("{INDEX_VERSION} {language:?} {}", self.config.tokens);
        let metadata = serde_json::to_string(&document.metadata).unwrap_or_default();
        let (media, origin) = (document.media.media_type(), document.origin.as_deref().unwrap_or_default());
        for part in [&settings, &media, &document.title, origin, &metadata, &document.text] {
            hash.update((part.len() as u64).to_le_bytes());
            hash.update(part.as_bytes());
        }
        hash.finalize().iter().take(16).map(|it| format!("{it:02x}")).collect()
    }
}

/// One run over many documents.
struct Run<'a> {
    indexer: &'a Indexer,
    base: &'a BaseKey,
    language: Language,
    chunker: Chunker<'a>,
    analyzer: Analyzer,
    /// Documents that are prepared and not written yet.
    batch: Vec<NewSource>,
    batch_chunks: usize,
    report: IndexReport,
    progress: IndexProgress,
    on_progress: OnProgress<'a>,
}

impl<'a> Run<'a> {
    fn new(
        indexer: &'a Indexer,
        base: &'a BaseKey,
        language: Language,
        total: u64,
        on_progress: OnProgress<'a>,
    ) -> Self {
        Self {
            indexer,
            base,
            language,
            chunker: Chunker::new(indexer.config, &*indexer.ports.counter),
            analyzer: Analyzer::new(language),
            batch: Vec::new(),
            batch_chunks: 0,
            report: IndexReport::default(),
            progress: IndexProgress { total, ..IndexProgress::default() },
            on_progress,
        }
    }

    fn skip(&mut self, file: SkippedFile) {
        self.progress.done += 1;
        self.report.skipped.push(file);
    }

    /// Prepares documents that have changed, and writes full batches.
    async fn documents(&mut self, documents: Vec<Document>) -> Result<(), IndexError> {
        let store = &self.indexer.ports.store;
        let ids: Vec<SourceId> = documents.iter().map(|it| it.id.clone()).collect();
        let known = store.sources_with(self.base.clone(), ids).await?;
        for document in documents {
            let version = self.indexer.version(self.language, &document);
            let known =
                known.binary_search_by(|it| it.id.cmp(&document.id)).ok().map(|it| &known[it].version);
            match known {
                Some(known) if *known == version => {
                    self.report.unchanged += 1;
                    self.progress.done += 1;
                    continue;
                }
                Some(_) => self.report.updated += 1,
                None => self.report.added += 1,
            }
            self.prepare(document, version).await?;
        }
        Ok(())
    }

    async fn prepare(&mut self, document: Document, version: String) -> Result<(), IndexError> {
        if self.batch_chunks >= self.indexer.batch {
            let writing = self.write();
            // Polled first, so that the store works on the batch while the next document is prepared.
            let source = {
                let (chunker, analyzer) = (&mut self.chunker, &mut self.analyzer);
                let prepared = async { prepare(chunker, analyzer, document, version) };
                let (written, source) = join(writing, prepared).await;
                written?;
                source
            };
            self.written();
            self.push(source);
            return Ok(());
        }
        let source = prepare(&mut self.chunker, &mut self.analyzer, document, version);
        self.push(source);
        Ok(())
    }

    fn push(&mut self, source: NewSource) {
        self.batch_chunks += source.chunks.len();
        self.batch.push(source);
    }

    /// Writes the batch.
    fn write(&mut self) -> impl Future<Output = Result<(), StoreError>> + use<'a> {
        let batch = std::mem::take(&mut self.batch);
        self.progress.done += batch.len() as u64;
        self.progress.chunks += self.batch_chunks as u64;
        self.batch_chunks = 0;
        if batch.is_empty() {
            return Either::Left(std::future::ready(Ok(())));
        }
        Either::Right(self.indexer.ports.store.replace_sources(self.base.clone(), batch))
    }

    fn written(&mut self) {
        self.report.chunks = self.progress.chunks;
        (self.on_progress)(self.progress);
    }

    async fn finish(mut self) -> Result<IndexReport, IndexError> {
        self.write().await?;
        self.written();
        Ok(self.report)
    }
}

/// Cuts and analyses a document.
fn prepare(
    chunker: &mut Chunker<'_>,
    analyzer: &mut Analyzer,
    document: Document,
    version: String,
) -> NewSource {
    let Document { id, title, origin, media, metadata, text, at } = document;
    let chunk = |chunk: crate::chunk::Chunk<'_>| {
        let fields = Fields { title: &title, headings: &chunk.headings, body: chunk.text };
        NewChunk {
            terms: analyzer.index(fields),
            text: chunk.text.to_owned(),
            headings: chunk.headings,
            section: chunk.section,
            bytes: chunk.bytes.start as u64..chunk.bytes.end as u64,
            chars: chunk.chars.start as u64..chunk.chars.end as u64,
        }
    };
    let chunks = chunker.chunks(&media, &text).into_iter().map(chunk).collect();
    let info = SourceInfo {
        id,
        title,
        origin,
        media_type: media.media_type(),
        metadata,
        version,
        bytes: text.len() as u64,
        at,
        first: 0,
        chunks: 0,
    };
    NewSource { info, chunks }
}
