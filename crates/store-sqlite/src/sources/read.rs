//! Reads documents and chunks.

use std::collections::{BTreeMap, BTreeSet};

use contexture_history::Timestamp;
use contexture_session::SourceId;
use contexture_session::sources::{ChunkNo, ChunkSelection, SourceInfo, StoredChunk};
use rusqlite::{OptionalExtension as _, Row, params};

use super::base::{BaseRows, number};
use crate::failure::Failure;
use crate::head::{id, json};
use crate::numbers::{from_sql, to_sql};

const SOURCE: &str = "SELECT id, title, origin, media_type, metadata, version, bytes, at, first, chunks
    FROM sources WHERE base = ?1 AND id = ?2";
const SOURCE_BY_NO: &str = "SELECT id, title, origin, media_type, metadata, version, bytes, at, first, chunks
    FROM sources WHERE no = ?1";
const SOURCES: &str = "SELECT id, title, origin, media_type, metadata, version, bytes, at, first, chunks
    FROM sources WHERE base = ?1 AND id > ?2 ORDER BY id LIMIT ?3";
const CHUNK: &str =
    "SELECT source, no, position, section, byte_start, byte_end, char_start, char_end, headings, text
    FROM chunks WHERE no = ?1";

#[cfg(test)]
pub(crate) const QUERIES: [&str; 4] = [SOURCE, SOURCE_BY_NO, SOURCES, CHUNK];

fn source(row: &Row<'_>) -> rusqlite::Result<SourceInfo> {
    let first: i64 = row.get(8)?;
    Ok(SourceInfo {
        id: id(row, 0, SourceId::parse)?,
        title: row.get(1)?,
        origin: row.get(2)?,
        media_type: row.get(3)?,
        metadata: json(row, 4)?,
        version: row.get(5)?,
        bytes: from_sql(row.get(6)?),
        at: Timestamp(row.get(7)?),
        first: number(first),
        chunks: row.get(9)?,
    })
}

impl BaseRows<'_> {
    /// Returns a part of the list of the base's documents.
    pub(crate) fn sources(&self, after: Option<&SourceId>, max: usize) -> Result<Vec<SourceInfo>, Failure> {
        let after = after.map_or("", SourceId::as_str);
        let mut statement = self.conn.prepare_cached(SOURCES)?;
        let rows = statement.query_map(params![self.no, after, to_sql(max as u64)], source)?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// Returns the existing documents, which are named in order.
    pub(crate) fn sources_with(&self, ids: &[SourceId]) -> Result<Vec<SourceInfo>, Failure> {
        let ids: BTreeSet<&SourceId> = ids.iter().collect();
        let found = ids.into_iter().filter_map(|it| self.source(it).transpose());
        Ok(found.collect::<Result<_, _>>()?)
    }

    fn source(&self, id: &SourceId) -> rusqlite::Result<Option<SourceInfo>> {
        let mut statement = self.conn.prepare_cached(SOURCE)?;
        statement.query_row(params![self.no, id.as_str()], source).optional()
    }

    /// Returns the existing chunks of a selection.
    pub(crate) fn select(&self, selection: &ChunkSelection) -> Result<Vec<StoredChunk>, Failure> {
        let nos = match selection {
            ChunkSelection::Numbers(nos) => nos.iter().copied().collect(),
            ChunkSelection::Range { source, positions } => {
                let source = self.source(source)?;
                source.iter().flat_map(|it| it.numbers(positions)).collect::<BTreeSet<ChunkNo>>()
            }
        };
        self.chunks(nos)
    }

    /// Returns the existing chunks among these.
    pub(crate) fn chunks(&self, nos: impl IntoIterator<Item = ChunkNo>) -> Result<Vec<StoredChunk>, Failure> {
        let mut reader = ChunkReader::new(self);
        let chunks = nos.into_iter().filter_map(|it| reader.chunk(it).transpose());
        chunks.map(|it| it.map(|(chunk, _)| chunk)).collect()
    }
}

/// Reads chunks of a base, and each of their documents once.
pub(crate) struct ChunkReader<'a> {
    base: &'a BaseRows<'a>,
    sources: BTreeMap<i64, SourceInfo>,
}

impl<'a> ChunkReader<'a> {
    pub(crate) fn new(base: &'a BaseRows<'a>) -> Self {
        Self { base, sources: BTreeMap::new() }
    }

    /// Returns a chunk with its document, if it exists.
    pub(crate) fn chunk(&mut self, no: ChunkNo) -> Result<Option<(StoredChunk, SourceInfo)>, Failure> {
        let mut statement = self.base.conn.prepare_cached(CHUNK)?;
        let mut rows = statement.query([self.base.key(no)])?;
        let Some(row) = rows.next()? else { return Ok(None) };
        let source = self.source(row.get(0)?)?;
        Ok(Some((chunk(row, &source)?, source)))
    }

    fn source(&mut self, no: i64) -> rusqlite::Result<SourceInfo> {
        if let Some(known) = self.sources.get(&no) {
            return Ok(known.clone());
        }
        let found = self.base.conn.prepare_cached(SOURCE_BY_NO)?.query_row([no], source)?;
        self.sources.insert(no, found.clone());
        Ok(found)
    }
}

fn chunk(row: &Row<'_>, source: &SourceInfo) -> rusqlite::Result<StoredChunk> {
    let count = |column| row.get(column).map(from_sql);
    let key: i64 = row.get(1)?;
    Ok(StoredChunk {
        no: number(key),
        source: source.id.clone(),
        position: row.get(2)?,
        of: source.chunks,
        headings: json(row, 8)?,
        section: row.get(3)?,
        bytes: count(4)?..count(5)?,
        chars: count(6)?..count(7)?,
        text: row.get(9)?,
    })
}
