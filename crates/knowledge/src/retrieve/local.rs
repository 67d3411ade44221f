//! Finds chunks of a base in a store.

use std::sync::Arc;

use contexture_compose::BoxFuture;
use contexture_session::rank::{RankConfig, RankQuery, Similarities};
use contexture_session::sources::{BaseInfo, ChunkHit, ChunkSelection, SourceIndex, StoredChunk};
use contexture_session::{BaseKey, SourceId, StoreError};

use super::{
    Around, Hit, HitDocument, Passage, Query, ReadRange, ReadTarget, RetrievalNote, RetrieveError, Retrieved,
    Retriever, above,
};
use crate::embed::{Embedder, VectorCache, embed, quantized};

/// So many of the most similar chunks are ranked even if they have no term of the query.
const SIMILAR: usize = 100;
/// A section is not read beyond so many chunks on each side.
const MAX_SECTION: u32 = 64;

/// Finds chunks of a base in a store. Clones share the vectors in memory.
///
/// ```
/// # use std::sync::Arc;
/// # use contexture_history::Timestamp;
/// # use contexture_knowledge::{Document, Indexer, IndexPorts, Media};
/// use contexture_knowledge::{LocalRetriever, Query, Retriever};
/// # use contexture_session::{BaseId, BaseKey, MemoryStore, SourceId, SourceIndex, Tenant};
/// # use contexture_session::conformance::SystemTime;
///
/// # futures::executor::block_on(async {
/// # let store: Arc<dyn SourceIndex> = Arc::new(MemoryStore::new(Arc::new(SystemTime)));
/// # let base = BaseKey { tenant: Tenant::default(), base: BaseId::parse("handbook")? };
/// # store.put_base(base.clone(), Default::default(), Timestamp(0)).await?;
/// # let counter = contexture_message::counter_for(None);
/// # let ports = IndexPorts { store: Arc::clone(&store), counter, converter: None };
/// # let document = Document::new(SourceId::parse("refunds")?, Media::Text, "Refunds take 30 days.");
/// # Indexer::new(ports, Default::default()).add(&base, vec![document], &|_| {}).await?;
/// let handbook = LocalRetriever::new(store, base);
/// let found = handbook.retrieve(Query::new("How long does a refund take?", 3)).await?;
/// assert_eq!(found.hits[0].text, "Refunds take 30 days.");
/// assert_eq!(found.hits[0].source(), "knowledge:handbook#1");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct LocalRetriever {
    store: Arc<dyn SourceIndex>,
    base: BaseKey,
    config: RankConfig,
    embedder: Option<Arc<dyn Embedder>>,
    vectors: Arc<VectorCache>,
}

impl std::fmt::Debug for LocalRetriever {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LocalRetriever").field("base", &self.base).finish_non_exhaustive()
    }
}

impl LocalRetriever {
    /// Returns a retriever with the settings for documents.
    pub fn new(store: Arc<dyn SourceIndex>, base: BaseKey) -> Self {
        let config = RankConfig::documents();
        Self { store, base, config, embedder: None, vectors: Arc::default() }
    }

    /// Sets how much counts for what.
    #[must_use]
    pub fn ranked_by(self, config: RankConfig) -> Self {
        Self { config, ..self }
    }

    /// Ranks by vectors too. Retrievers of one process should share the cache.
    #[must_use]
    pub fn with_embedder(self, embedder: Arc<dyn Embedder>, vectors: Arc<VectorCache>) -> Self {
        Self { embedder: Some(embedder), vectors, ..self }
    }

    async fn find(&self, query: Query) -> Result<Retrieved, RetrieveError> {
        let info = self.store.base(self.base.clone()).await?;
        let info = info.ok_or_else(|| StoreError::no_base(&self.base.base))?;
        let mut notes = Vec::new();
        let dense = self.similarities(&info, &query.text, &mut notes).await?;
        let ranked = RankQuery {
            text: query.text.clone(),
            language: info.settings.language,
            config: self.config,
            now: query.now,
            dense: dense.map(Arc::new),
        };
        let found = self.store.search_base(self.base.clone(), ranked, query.top_k).await?;
        let hits = found.hits.into_iter().map(|it| self.hit(it)).collect();
        Ok(Retrieved { hits: above(hits, &query, &mut notes), notes })
    }

    /// Compares the chunks with the query by their vectors. Without a vector for each, the lexical rank stands.
    async fn similarities(
        &self,
        info: &BaseInfo,
        text: &str,
        notes: &mut Vec<RetrievalNote>,
    ) -> Result<Option<Similarities>, RetrieveError> {
        let Some(embedder) = self.embedder.as_ref().filter(|_| self.config.signals.dense > 0.0) else {
            return Ok(None);
        };
        let model = embedder.model();
        let vectors = self.vectors.get(&self.store, &self.base, info.version, model).await?;
        let missing = info.chunks.saturating_sub(vectors.len() as u64);
        if missing > 0 {
            notes.push(RetrievalNote::VectorsIncomplete { model: model.to_owned(), missing });
            return Ok(None);
        }
        match embed(&**embedder, vec![text.to_owned()]).await {
            Ok(query) => {
                let query = query.first().map(|it| quantized(it)).unwrap_or_default();
                Ok(Some(vectors.similarities(&query, SIMILAR)))
            }
            Err(err) => {
                notes.push(RetrievalNote::EmbedderFailed { detail: err.to_string() });
                Ok(None)
            }
        }
    }

    fn hit(&self, found: ChunkHit) -> Hit {
        let ChunkHit { chunk, source, scored } = found;
        let document = HitDocument {
            title: Some(source.title),
            origin: source.origin,
            version: Some(source.version),
            metadata: source.metadata,
            ..HitDocument::default()
        };
        let hit = self.plain_hit(chunk, document);
        Hit { score: scored.score, shares: scored.shares, ..hit }
    }

    fn plain_hit(&self, chunk: StoredChunk, document: HitDocument) -> Hit {
        let document = HitDocument {
            id: Some(chunk.source.to_string()),
            headings: chunk.headings,
            position: Some(chunk.position),
            span: Some((chunk.chars.start, chunk.chars.end)),
            ..document
        };
        Hit {
            base: self.base.base.to_string(),
            chunk: chunk.no.to_string(),
            text: chunk.text,
            score: 0.0,
            shares: Default::default(),
            document,
        }
    }

    async fn read_around(&self, hit: &Hit, what: Around) -> Result<Vec<Hit>, RetrieveError> {
        let Ok(no) = hit.chunk.parse() else { return Ok(Vec::new()) };
        let own = self.store.chunks(self.base.clone(), ChunkSelection::Numbers(vec![no])).await?;
        let Some(own) = own.into_iter().next() else { return Ok(Vec::new()) };
        let reach = match what {
            Around::Neighbours(count) => count,
            Around::Section => MAX_SECTION,
        };
        let positions =
            own.position.saturating_sub(reach)..own.position.saturating_add(reach).saturating_add(1);
        let selection = ChunkSelection::Range { source: own.source.clone(), positions };
        let chunks = self.store.chunks(self.base.clone(), selection).await?;
        let is_wanted = |it: &StoredChunk| what != Around::Section || it.section == own.section;
        let found = chunks.into_iter().filter(is_wanted);
        Ok(found.map(|it| self.plain_hit(it, hit.document.clone())).collect())
    }
}

/// So many chunks of a document are read at once.
const PAGE: u32 = 64;

impl LocalRetriever {
    async fn read_range(&self, what: ReadTarget, range: ReadRange) -> Result<Passage, RetrieveError> {
        let (source, start) = match what {
            ReadTarget::Document(id) => (SourceId::parse(id).ok(), 0),
            ReadTarget::Chunk(id) => {
                let numbers = id.parse().map(|it| vec![it]).unwrap_or_default();
                let own = self.store.chunks(self.base.clone(), ChunkSelection::Numbers(numbers)).await?;
                let own = own.into_iter().next();
                let start = own.as_ref().map_or(0, |it| it.chars.start);
                (own.map(|it| it.source), start)
            }
        };
        let Some(source) = source else { return Ok(Passage::default()) };
        let info = self.store.sources_with(self.base.clone(), vec![source.clone()]).await?;
        let Some(info) = info.into_iter().next() else { return Ok(Passage::default()) };
        let document = HitDocument {
            title: Some(info.title),
            origin: info.origin,
            version: Some(info.version),
            metadata: info.metadata,
            ..HitDocument::default()
        };
        let from = range.from.unwrap_or(start);
        let end = from.saturating_add(range.max.max(1));
        let mut passage = Passage::default();
        let mut position = 0;
        while position < info.chunks && passage.next.is_none() {
            let positions = position..position.saturating_add(PAGE);
            let selection = ChunkSelection::Range { source: source.clone(), positions };
            for chunk in self.store.chunks(self.base.clone(), selection).await? {
                if chunk.chars.end <= from {
                    continue;
                }
                if chunk.chars.start >= end && !passage.hits.is_empty() {
                    passage.next = Some(chunk.chars.start);
                    break;
                }
                passage.hits.push(self.plain_hit(chunk, document.clone()));
            }
            position = position.saturating_add(PAGE);
        }
        Ok(passage)
    }
}

impl Retriever for LocalRetriever {
    fn base(&self) -> &str {
        self.base.base.as_str()
    }

    fn retrieve(&self, query: Query) -> BoxFuture<'_, Result<Retrieved, RetrieveError>> {
        Box::pin(self.find(query))
    }

    fn around(&self, hit: &Hit, what: Around) -> BoxFuture<'_, Result<Vec<Hit>, RetrieveError>> {
        let hit = hit.clone();
        Box::pin(async move { self.read_around(&hit, what).await })
    }

    fn read(&self, what: ReadTarget, range: ReadRange) -> BoxFuture<'_, Result<Passage, RetrieveError>> {
        Box::pin(self.read_range(what, range))
    }
}
