//! Knowledge bases in memory.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use contexture_history::Timestamp;

use super::{MemoryStore, reads, writes};
use crate::rank::{
    AnalyzerPool, CollectionStats, MemoryReader, RankQuery, RankedText, Scored, TermLists, at_once, rank,
};
use crate::sources::{
    BaseHits, BaseInfo, BaseSettings, ChunkHit, ChunkNo, ChunkSelection, ChunkVector, MAX_HITS, NewChunk,
    NewSource, SourceChange, SourceIndex, SourceInfo, SourcesChanged, StoredChunk,
};
use crate::{BaseId, BaseKey, SourceId, StoreError, StoreFuture, Tenant};

/// The knowledge bases of the in-memory store.
#[derive(Debug, Default)]
pub(super) struct BaseTable(BTreeMap<BaseKey, Base>);

#[derive(Debug)]
struct Base {
    info: BaseInfo,
    /// The number of the newest chunk there ever was.
    last: ChunkNo,
    sources: BTreeMap<SourceId, SourceInfo>,
    chunks: BTreeMap<ChunkNo, ChunkRow>,
    /// The index.
    lists: TermLists,
}

#[derive(Debug)]
struct ChunkRow {
    source: SourceId,
    position: u32,
    new: NewChunk,
    vector: Option<(String, Vec<i8>)>,
}

impl BaseTable {
    fn get(&self, key: &BaseKey) -> Result<&Base, StoreError> {
        self.0.get(key).ok_or_else(|| StoreError::no_base(&key.base))
    }

    fn get_mut(&mut self, key: &BaseKey) -> Result<&mut Base, StoreError> {
        self.0.get_mut(key).ok_or_else(|| StoreError::no_base(&key.base))
    }

    fn put(&mut self, key: BaseKey, settings: BaseSettings, at: Timestamp) -> BaseInfo {
        let name = key.base.clone();
        let base = self.0.entry(key).or_insert_with(|| Base {
            info: BaseInfo::new(name, settings.clone(), at),
            last: 0,
            sources: BTreeMap::new(),
            chunks: BTreeMap::new(),
            lists: TermLists::default(),
        });
        base.info.settings = settings;
        base.info.clone()
    }
}

impl Base {
    fn change(&mut self, change: SourceChange) -> Result<SourcesChanged, StoreError> {
        let SourceChange { expected, remove, put } = change;
        for it in &expected {
            it.check(self.sources.get(&it.id).map(|it| it.version.as_str()))?;
        }
        let removed = remove.iter().filter(|it| self.remove(it)).count() as u64;
        put.into_iter().for_each(|it| self.replace(it));
        self.info.version += 1;
        Ok(SourcesChanged { removed, version: self.info.version })
    }

    fn replace(&mut self, source: NewSource) {
        self.remove(&source.info.id);
        self.info.add(&source);
        let (first, chunks) = (self.last + 1, source.chunks.len());
        let info = SourceInfo { first, chunks: u32::try_from(chunks).unwrap_or(u32::MAX), ..source.info };
        for (position, new) in (0..).zip(source.chunks) {
            self.last += 1;
            self.lists.insert(self.last, &new.terms);
            self.chunks.insert(self.last, ChunkRow { source: info.id.clone(), position, new, vector: None });
        }
        self.sources.insert(info.id.clone(), info);
    }

    fn remove(&mut self, id: &SourceId) -> bool {
        let Some(SourceInfo { first, chunks, .. }) = self.sources.remove(id) else { return false };
        let mut length = 0;
        for no in first..first + u64::from(chunks) {
            let Some(chunk) = self.chunks.remove(&no) else { continue };
            self.lists.remove(no, &chunk.new.terms);
            length += u64::from(chunk.new.terms.vector.length());
        }
        self.info.remove(u64::from(chunks), length);
        true
    }

    fn chunk(&self, no: ChunkNo) -> Option<StoredChunk> {
        let ChunkRow { source, position, new, .. } = self.chunks.get(&no)?;
        Some(StoredChunk {
            no,
            source: source.clone(),
            position: *position,
            of: self.sources.get(source)?.chunks,
            headings: new.headings.clone(),
            section: new.section,
            bytes: new.bytes.clone(),
            chars: new.chars.clone(),
            text: new.text.clone(),
        })
    }

    fn select(&self, selection: &ChunkSelection) -> Vec<StoredChunk> {
        match selection {
            ChunkSelection::Numbers(nos) => {
                let nos: BTreeSet<ChunkNo> = nos.iter().copied().collect();
                nos.into_iter().filter_map(|it| self.chunk(it)).collect()
            }
            ChunkSelection::Range { source, positions } => {
                let Some(source) = self.sources.get(source) else { return Vec::new() };
                source.numbers(positions).filter_map(|it| self.chunk(it)).collect()
            }
        }
    }

    fn search(&self, query: &RankQuery, max: usize) -> BaseHits {
        let mut reader = MemoryReader {
            stats: CollectionStats { texts: self.info.chunks, length: self.info.length },
            lists: &self.lists,
            covers: |_| true,
            text: |no| self.ranked(no),
            words: |no| Some(self.chunks.get(&no)?.new.text.clone()),
        };
        let scored = at_once(rank(&mut reader, query, &AnalyzerPool::default()));
        let hit = |scored: Scored| {
            let chunk = self.chunk(scored.no)?;
            let source = self.sources.get(&chunk.source)?.clone();
            Some(ChunkHit { chunk, source, scored })
        };
        let hits = scored.into_iter().take(max.min(MAX_HITS)).filter_map(hit).collect();
        BaseHits { version: self.info.version, hits }
    }

    fn ranked(&self, no: ChunkNo) -> Option<RankedText> {
        let row = self.chunks.get(&no)?;
        let source = self.sources.get(&row.source)?;
        let is_last = row.position + 1 == source.chunks;
        let terms = row.new.terms.vector.clone();
        Some(RankedText::of_chunk(no, u64::from(row.position), is_last, source.at, terms))
    }

    fn put_vectors(&mut self, model: &str, vectors: Vec<ChunkVector>) {
        self.info.version += 1;
        for ChunkVector { no, values } in vectors {
            if let Some(chunk) = self.chunks.get_mut(&no) {
                chunk.vector = Some((model.to_owned(), values));
            }
        }
    }

    fn after(&self, no: ChunkNo) -> impl Iterator<Item = (&ChunkNo, &ChunkRow)> {
        self.chunks.range((Bound::Excluded(no), Bound::Unbounded))
    }
}

impl SourceIndex for MemoryStore {
    writes! { inner, now;
        put_base(key: BaseKey, settings: BaseSettings, at: Timestamp) -> BaseInfo
            = Ok(inner.bases.put(key, settings, at));
        delete_base(key: BaseKey) -> bool = Ok(inner.bases.0.remove(&key).is_some());
        change_sources(key: BaseKey, change: SourceChange) -> SourcesChanged
            = inner.bases.get_mut(&key).and_then(|it| it.change(change));
        put_vectors(key: BaseKey, model: String, vectors: Vec<ChunkVector>) -> ()
            = inner.bases.get_mut(&key).map(|it| it.put_vectors(&model, vectors));
    }

    reads! { inner, now;
        erase_removed() -> () = ();
        base(key: BaseKey) -> Option<BaseInfo> = inner.bases.0.get(&key).map(|it| it.info.clone());
        bases(tenant: Tenant, after: Option<BaseId>, max: usize) -> Vec<BaseInfo> = {
            let of_tenant = inner.bases.0.iter().filter(|(key, _)| key.tenant == tenant);
            let listed = of_tenant.filter(|(key, _)| after.as_ref().is_none_or(|it| key.base > *it));
            listed.take(max).map(|(_, base)| base.info.clone()).collect()
        };
        sources(key: BaseKey, after: Option<SourceId>, max: usize) -> Vec<SourceInfo> = {
            let start = after.map_or(Bound::Unbounded, Bound::Excluded);
            let listed = inner.bases.get(&key)?.sources.range((start, Bound::Unbounded)).take(max);
            listed.map(|(_, it)| it.clone()).collect()
        };
        sources_with(key: BaseKey, ids: Vec<SourceId>) -> Vec<SourceInfo> = {
            let (ids, base) = (ids.into_iter().collect::<BTreeSet<_>>(), inner.bases.get(&key)?);
            ids.iter().filter_map(|it| base.sources.get(it)).cloned().collect()
        };
        chunks(key: BaseKey, selection: ChunkSelection) -> Vec<StoredChunk>
            = inner.bases.get(&key)?.select(&selection);
        search_base(key: BaseKey, query: RankQuery, max: usize) -> BaseHits
            = inner.bases.get(&key)?.search(&query, max);
        without_vector(key: BaseKey, model: String, after: ChunkNo, max: usize) -> Vec<StoredChunk> = {
            let base = inner.bases.get(&key)?;
            let is_without = |row: &ChunkRow| row.vector.as_ref().is_none_or(|(of, _)| *of != model);
            let without = base.after(after).filter(|(_, row)| is_without(row)).take(max);
            without.filter_map(|(no, _)| base.chunk(*no)).collect()
        };
        vectors(key: BaseKey, model: String, after: ChunkNo, max: usize) -> Vec<ChunkVector> = {
            let of_model = |(no, row): (&ChunkNo, &ChunkRow)| {
                let (of, values) = row.vector.as_ref()?;
                (*of == model).then(|| ChunkVector { no: *no, values: values.clone() })
            };
            inner.bases.get(&key)?.after(after).filter_map(of_model).take(max).collect()
        };
    }
}
