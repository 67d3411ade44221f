//! Replaces and removes documents, with their chunks and index entries.

use contexture_history::Timestamp;
use contexture_session::SourceId;
use contexture_session::rank::IndexTerms;
use contexture_session::sources::{NewChunk, NewSource, SourceChange, SourcesChanged};
use rusqlite::{Connection, OptionalExtension as _, params};

use super::base::{BaseRows, remove_range};
use crate::failure::Failure;
use crate::numbers::{from_sql, to_sql};

const FIND: &str = "SELECT no, first, chunks, length FROM sources WHERE base = ?1 AND id = ?2";
const VERSION: &str = "SELECT version FROM sources WHERE base = ?1 AND id = ?2";
const ADD: &str = "INSERT INTO sources
    (base, id, version, first, chunks, length, bytes, at, media_type, title, origin, metadata)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)";
const ADD_CHUNK: &str = "INSERT INTO chunks
    (no, source, position, section, byte_start, byte_end, char_start, char_end, headings, text)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)";
const ADD_TERMS: &str =
    "INSERT INTO chunk_terms (no, position, is_last, at, terms) VALUES (?1, ?2, ?3, ?4, ?5)";
const ADD_WORDS: &str = "INSERT INTO chunk_words (rowid, terms) VALUES (?1, ?2)";
const SAVE: &str =
    "UPDATE bases SET documents = ?2, chunks = ?3, length = ?4, last = ?5, version = version + 1,
    updated = ?6 WHERE no = ?1";

impl BaseRows<'_> {
    /// Removes and adds documents, if those that the change names have the versions it expects.
    pub(crate) fn change_sources(mut self, change: &SourceChange) -> Result<SourcesChanged, Failure> {
        for expected in &change.expected {
            expected.check(self.version(&expected.id)?.as_deref())?;
        }
        let before = self.info.documents;
        for id in &change.remove {
            self.remove(id)?;
        }
        let removed = before.saturating_sub(self.info.documents);
        for source in &change.put {
            self.remove(&source.info.id)?;
            self.add(source)?;
        }
        self.save()?;
        Ok(SourcesChanged { removed, version: self.info.version + 1 })
    }

    fn version(&self, id: &SourceId) -> rusqlite::Result<Option<String>> {
        let mut statement = self.conn.prepare_cached(VERSION)?;
        statement.query_row(params![self.no, id.as_str()], |row| row.get(0)).optional()
    }

    fn save(&self) -> rusqlite::Result<()> {
        let info = &self.info;
        let [documents, chunks, length, last] =
            [info.documents, info.chunks, info.length, self.last].map(to_sql);
        let values = params![self.no, documents, chunks, length, last, info.updated.0];
        self.conn.prepare_cached(SAVE)?.execute(values).map(drop)
    }

    fn remove(&mut self, id: &SourceId) -> rusqlite::Result<()> {
        let mut statement = self.conn.prepare_cached(FIND)?;
        let found = statement.query_row(params![self.no, id.as_str()], |row| {
            Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?, row.get::<_, i64>(2)?, row.get::<_, i64>(3)?))
        });
        let Some((no, first, chunks, length)) = found.optional()? else { return Ok(()) };
        remove_range(self.conn, first, first + chunks)?;
        self.conn.prepare_cached("DELETE FROM sources WHERE no = ?1")?.execute([no])?;
        self.info.remove(from_sql(chunks), from_sql(length));
        Ok(())
    }

    fn add(&mut self, source: &NewSource) -> rusqlite::Result<()> {
        let NewSource { info, chunks } = source;
        let (first, count) = (self.key(self.last + 1), chunks.len() as u64);
        // It is plain data: writing it does not fail.
        let metadata = serde_json::to_string(&info.metadata).unwrap_or_default();
        let values = params![
            self.no,
            info.id.as_str(),
            info.version,
            first,
            to_sql(count),
            to_sql(source.length()),
            to_sql(info.bytes),
            info.at.0,
            info.media_type,
            info.title,
            info.origin,
            metadata,
        ];
        let no = self.conn.prepare_cached(ADD)?.insert(values)?;
        for (position, chunk) in (0..).zip(chunks) {
            let place = ChunkPlace { source: no, position, is_last: position + 1 == count, at: info.at };
            self.add_chunk(first + to_sql(position), &place, chunk)?;
        }
        self.info.add(source);
        self.last += count;
        Ok(())
    }

    fn add_chunk(&self, key: i64, place: &ChunkPlace, chunk: &NewChunk) -> rusqlite::Result<()> {
        let headings = serde_json::to_string(&chunk.headings).unwrap_or_default();
        let position = to_sql(place.position);
        self.conn.prepare_cached(ADD_CHUNK)?.execute(params![
            key,
            place.source,
            position,
            chunk.section,
            to_sql(chunk.bytes.start),
            to_sql(chunk.bytes.end),
            to_sql(chunk.chars.start),
            to_sql(chunk.chars.end),
            headings,
            chunk.text,
        ])?;
        index_chunk(self.conn, self.no, key, place, &chunk.terms)
    }
}

/// Where a chunk belongs.
pub(crate) struct ChunkPlace {
    pub(crate) source: i64,
    pub(crate) position: u64,
    pub(crate) is_last: bool,
    pub(crate) at: Timestamp,
}

/// Adds a chunk to the index.
pub(crate) fn index_chunk(
    conn: &Connection,
    base: i64,
    key: i64,
    place: &ChunkPlace,
    terms: &IndexTerms,
) -> rusqlite::Result<()> {
    let values = params![key, to_sql(place.position), place.is_last, place.at.0, terms.vector.as_bytes()];
    conn.prepare_cached(ADD_TERMS)?.execute(values)?;
    if !terms.is_empty() {
        conn.prepare_cached(ADD_WORDS)?.execute(params![key, terms.tokens(base)])?;
    }
    Ok(())
}
