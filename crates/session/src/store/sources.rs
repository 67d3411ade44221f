//! Knowledge bases: documents in chunks, with the index to search them.
//!
//! Every implementation guarantees the following, and the conformance suite checks it:
//!
//! 1. A document is replaced with all of its chunks and index entries in one commit. No reader sees a part of it, and
//!    after a crash it is there in its old or its new version.
//! 2. Chunks of a base are numbered in the order in which they were added, and a document's in the order of its text,
//!    without a gap. A number is never used again, so it never comes to mean another text.
//! 3. A search sees one moment of the base. All stores return the same hits with the same scores in the same order:
//!    ranking is [`crate::rank`]'s alone.
//! 4. A change that names the versions it expects is made only if the documents have them, checked in its own
//!    transaction: of writers that have read the same version, one succeeds.
//! 5. Nothing of a tenant is visible under another tenant's key, in any operation.
//!
//! A chunk may have a vector of one model. Vectors go with their chunk.

use std::ops::Range;

use contexture_history::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::rank::{IndexTerms, Language, RankQuery, Scored};
use crate::{BaseId, BaseKey, SourceId, StoreError, StoreFuture, Tenant};

/// The number of a chunk in its base.
pub type ChunkNo = u64;

/// How many hits a search returns at most.
pub const MAX_HITS: usize = 1_000;

/// A place for knowledge bases. Every [`Store`](crate::Store) of this workspace is one too.
pub trait SourceIndex: std::fmt::Debug + Send + Sync + 'static {
    /// Creates a base, or changes the settings of an existing one.
    fn put_base(&self, key: BaseKey, settings: BaseSettings, at: Timestamp) -> StoreFuture<'_, BaseInfo>;

    /// Returns a base, or `None` if it does not exist.
    fn base(&self, key: BaseKey) -> StoreFuture<'_, Option<BaseInfo>>;

    /// Lists the bases of a tenant whose names come after `after`, in the order of their names.
    fn bases(&self, tenant: Tenant, after: Option<BaseId>, max: usize) -> StoreFuture<'_, Vec<BaseInfo>>;

    /// Deletes a base with all of its documents. Returns whether it existed.
    fn delete_base(&self, key: BaseKey) -> StoreFuture<'_, bool>;

    /// Removes and adds documents as one commit, if the documents that the change names are as it expects. Otherwise
    /// nothing changes, and the error is [`StoreError::Stale`]. A base that does not exist is [`StoreError::NotFound`].
    fn change_sources(&self, key: BaseKey, change: SourceChange) -> StoreFuture<'_, SourcesChanged>;

    /// Adds documents, in place of those with the same ids, as one commit.
    fn replace_sources(&self, key: BaseKey, sources: Vec<NewSource>) -> StoreFuture<'_, ()> {
        let change = SourceChange { put: sources, ..SourceChange::default() };
        Box::pin(async move { self.change_sources(key, change).await.map(drop) })
    }

    /// Removes documents as one commit. Returns how many there were.
    fn remove_sources(&self, key: BaseKey, ids: Vec<SourceId>) -> StoreFuture<'_, u64> {
        let change = SourceChange { remove: ids, ..SourceChange::default() };
        Box::pin(async move { Ok(self.change_sources(key, change).await?.removed) })
    }

    /// Makes what was removed unreadable in the files of the store, as far as it has any. It may take long.
    fn erase_removed(&self) -> StoreFuture<'_, ()>;

    /// Lists the documents of a base whose ids come after `after`, in the order of their ids.
    fn sources(&self, key: BaseKey, after: Option<SourceId>, max: usize) -> StoreFuture<'_, Vec<SourceInfo>>;

    /// Returns the existing documents among these, in the order of their ids.
    fn sources_with(&self, key: BaseKey, ids: Vec<SourceId>) -> StoreFuture<'_, Vec<SourceInfo>>;

    /// Returns the existing chunks of a selection, in the order of their numbers.
    fn chunks(&self, key: BaseKey, selection: ChunkSelection) -> StoreFuture<'_, Vec<StoredChunk>>;

    /// Searches a base. Returns at most `max` hits, best first, and never more than [`MAX_HITS`].
    fn search_base(&self, key: BaseKey, query: RankQuery, max: usize) -> StoreFuture<'_, BaseHits>;

    /// Stores vectors of a model as one commit, in place of any the chunks have. Those of missing chunks are skipped.
    fn put_vectors(&self, key: BaseKey, model: String, vectors: Vec<ChunkVector>) -> StoreFuture<'_, ()>;

    /// Returns chunks after a number that have no vector of a model, in the order of their numbers.
    fn without_vector(
        &self,
        key: BaseKey,
        model: String,
        after: ChunkNo,
        max: usize,
    ) -> StoreFuture<'_, Vec<StoredChunk>>;

    /// Returns the vectors of a model of the chunks after a number, in the order of their numbers.
    fn vectors(
        &self,
        key: BaseKey,
        model: String,
        after: ChunkNo,
        max: usize,
    ) -> StoreFuture<'_, Vec<ChunkVector>>;
}

/// The settings of a base.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct BaseSettings {
    /// The language of its documents. Documents that were added before it changed have to be added again.
    pub language: Language,
    /// What the base is about, for catalogues.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
}

/// A base in a list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BaseInfo {
    /// The name of the base.
    pub base: BaseId,
    /// Its settings.
    pub settings: BaseSettings,
    /// How many documents it has.
    pub documents: u64,
    /// How many chunks they have.
    pub chunks: u64,
    /// How many terms the chunks have.
    pub length: u64,
    /// Grows with every change of its documents, chunks or vectors.
    pub version: u64,
    /// The time of creation.
    pub created: Timestamp,
    /// The time of its newest document.
    pub updated: Timestamp,
}

/// A document as it is stored.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SourceInfo {
    /// The id in its base.
    pub id: SourceId,
    /// The title.
    pub title: String,
    /// The path or URL it came from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub origin: Option<String>,
    /// The media type, such as `text/markdown`.
    pub media_type: String,
    /// Whatever else its owner wants to know about it.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub metadata: Map<String, Value>,
    /// The hash of its content, and of how it was indexed.
    pub version: String,
    /// Its size in bytes.
    pub bytes: u64,
    /// The time that counts for recency.
    pub at: Timestamp,
    /// The number of its first chunk; the others follow.
    pub first: ChunkNo,
    /// How many chunks it has.
    pub chunks: u32,
}

impl SourceInfo {
    /// Returns the numbers of the chunks at some positions.
    pub fn numbers(&self, positions: &Range<u32>) -> impl Iterator<Item = ChunkNo> + use<> {
        let first = self.first;
        (positions.start..positions.end.min(self.chunks)).map(move |it| first + u64::from(it))
    }
}

/// A document to store.
#[derive(Clone, Debug, PartialEq)]
pub struct NewSource {
    /// The document; `first` and `chunks` are filled in by the store.
    pub info: SourceInfo,
    /// Its chunks, in the order of the text.
    pub chunks: Vec<NewChunk>,
}

/// A change of a base's documents, made as a whole or not at all.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SourceChange {
    /// What the writer has read. It is compared in the transaction of the change.
    pub expected: Vec<ExpectedVersion>,
    /// The documents to remove; missing ones are skipped.
    pub remove: Vec<SourceId>,
    /// The documents to add after that, in place of those with the same ids.
    pub put: Vec<NewSource>,
}

/// The version of a document that a writer has read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExpectedVersion {
    /// The document.
    pub id: SourceId,
    /// Its [`SourceInfo::version`], or `None` if it must not exist.
    pub version: Option<String>,
}

impl ExpectedVersion {
    /// Compares it with the version that the base has.
    pub fn check(&self, found: Option<&str>) -> Result<(), StoreError> {
        match self.version.as_deref() == found {
            true => Ok(()),
            false => Err(StoreError::Stale {
                document: self.id.to_string(),
                expected: self.version.clone(),
                found: found.map(str::to_owned),
            }),
        }
    }
}

/// What a change did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SourcesChanged {
    /// How many documents of [`SourceChange::remove`] there were.
    pub removed: u64,
    /// The version of the base after it.
    pub version: u64,
}

/// A chunk to store.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NewChunk {
    /// The text.
    pub text: String,
    /// The headings above it, outermost first.
    pub headings: Vec<String>,
    /// The number of its section in the document: chunks of one section have one parent.
    pub section: u32,
    /// Where it is in the document, in bytes.
    pub bytes: Range<u64>,
    /// Where it is in the document, in characters.
    pub chars: Range<u64>,
    /// Its terms, from [`Analyzer::index`](crate::rank::Analyzer::index).
    pub terms: IndexTerms,
}

/// A chunk as it is stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredChunk {
    /// The number in its base. The chunks before and after it in the document have the numbers before and after.
    pub no: ChunkNo,
    /// The document.
    pub source: SourceId,
    /// The position in the document, from 0.
    pub position: u32,
    /// How many chunks the document has.
    pub of: u32,
    /// The headings above it, outermost first.
    pub headings: Vec<String>,
    /// The number of its section in the document.
    pub section: u32,
    /// Where it is in the document, in bytes.
    pub bytes: Range<u64>,
    /// Where it is in the document, in characters.
    pub chars: Range<u64>,
    /// The text.
    pub text: String,
}

impl StoredChunk {
    /// Returns the number of the chunk before it in the document.
    pub fn before(&self) -> Option<ChunkNo> {
        (self.position > 0).then(|| self.no.saturating_sub(1))
    }

    /// Returns the number of the chunk after it in the document.
    pub fn after(&self) -> Option<ChunkNo> {
        (self.position.saturating_add(1) < self.of).then(|| self.no.saturating_add(1))
    }
}

/// The chunks to read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChunkSelection {
    /// Those with these numbers.
    Numbers(Vec<ChunkNo>),
    /// A range of positions in a document.
    Range {
        /// The document.
        source: SourceId,
        /// The positions.
        positions: Range<u32>,
    },
}

/// The vector of a chunk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChunkVector {
    /// The chunk.
    pub no: ChunkNo,
    /// The vector, scaled so that its direction is kept as well as eight bits can.
    pub values: Vec<i8>,
}

/// The result of a search.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BaseHits {
    /// The version of the base that was searched.
    pub version: u64,
    /// The hits, best first.
    pub hits: Vec<ChunkHit>,
}

/// A chunk that was found.
#[derive(Clone, Debug, PartialEq)]
pub struct ChunkHit {
    /// The chunk.
    pub chunk: StoredChunk,
    /// Its document.
    pub source: SourceInfo,
    /// Its score, with the share of each signal.
    pub scored: Scored,
}

impl NewSource {
    /// Returns how many terms its chunks have.
    pub fn length(&self) -> u64 {
        self.chunks.iter().map(|it| u64::from(it.terms.vector.length())).sum()
    }
}

impl BaseInfo {
    /// Counts a document that is added.
    pub fn add(&mut self, source: &NewSource) {
        self.documents += 1;
        self.chunks += source.chunks.len() as u64;
        self.length += source.length();
        self.updated = self.updated.max(source.info.at);
    }

    /// No longer counts a document with so many chunks, which have so many terms.
    pub fn remove(&mut self, chunks: u64, length: u64) {
        self.documents = self.documents.saturating_sub(1);
        self.chunks = self.chunks.saturating_sub(chunks);
        self.length = self.length.saturating_sub(length);
    }

    /// Returns a base without documents.
    pub fn new(base: BaseId, settings: BaseSettings, at: Timestamp) -> Self {
        Self { base, settings, documents: 0, chunks: 0, length: 0, version: 0, created: at, updated: at }
    }
}

/// Runs a search whose reader never waits, as those of embedded stores.
pub fn ready<T, E: From<StoreError>>(search: impl Future<Output = Result<T, E>>) -> Result<T, E> {
    futures::FutureExt::now_or_never(search).unwrap_or_else(|| {
        let detail = "its reader had to wait".to_owned();
        Err(StoreError::Unavailable { place: "the index".to_owned(), detail }.into())
    })
}
