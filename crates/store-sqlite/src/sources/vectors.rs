//! Vectors of chunks.

use contexture_session::BaseKey;
use contexture_session::sources::{ChunkNo, ChunkVector, StoredChunk};
use rusqlite::{Connection, params};

use super::base::{existing, number};
use super::read::ChunkReader;
use crate::failure::Failure;
use crate::numbers::to_sql;

const PUT: &str = "INSERT INTO chunk_vectors (no, model, vector)
    SELECT ?1, ?2, ?3 WHERE EXISTS (SELECT 1 FROM chunks WHERE no = ?1)
    ON CONFLICT (no) DO UPDATE SET model = excluded.model, vector = excluded.vector";
const TOUCH: &str = "UPDATE bases SET version = version + 1 WHERE no = ?1";
const WITHOUT: &str = "SELECT no FROM chunks WHERE no > ?1 AND no < ?2 AND NOT EXISTS
    (SELECT 1 FROM chunk_vectors WHERE no = chunks.no AND model = ?3) ORDER BY no LIMIT ?4";
const VECTORS: &str =
    "SELECT no, vector FROM chunk_vectors WHERE no > ?1 AND no < ?2 AND model = ?3 ORDER BY no LIMIT ?4";

#[cfg(test)]
pub(crate) const QUERIES: [&str; 2] = [WITHOUT, VECTORS];

/// Stores vectors; those of chunks that are gone are skipped.
pub(crate) fn put_vectors(
    conn: &Connection,
    key: &BaseKey,
    model: &str,
    vectors: &[ChunkVector],
) -> Result<(), Failure> {
    let base = existing(conn, key)?;
    let mut put = conn.prepare_cached(PUT)?;
    for ChunkVector { no, values } in vectors {
        let bytes: Vec<u8> = values.iter().map(|it| it.cast_unsigned()).collect();
        put.execute(params![base.key(*no), model, bytes])?;
    }
    conn.prepare_cached(TOUCH)?.execute([base.no])?;
    Ok(())
}

/// Returns chunks without a vector of a model.
pub(crate) fn without_vector(
    conn: &Connection,
    key: &BaseKey,
    model: &str,
    after: ChunkNo,
    max: usize,
) -> Result<Vec<StoredChunk>, Failure> {
    let base = existing(conn, key)?;
    let mut statement = conn.prepare_cached(WITHOUT)?;
    let values = params![base.key(after), base.keys().1, model, to_sql(max as u64)];
    let keys = statement.query_map(values, |row| row.get(0))?.collect::<Result<Vec<i64>, _>>()?;
    ChunkReader::new(conn, &base).chunks(keys.into_iter().map(number))
}

/// Returns vectors of a model.
pub(crate) fn vectors(
    conn: &Connection,
    key: &BaseKey,
    model: &str,
    after: ChunkNo,
    max: usize,
) -> Result<Vec<ChunkVector>, Failure> {
    let base = existing(conn, key)?;
    let mut statement = conn.prepare_cached(VECTORS)?;
    let values = params![base.key(after), base.keys().1, model, to_sql(max as u64)];
    let vectors = statement.query_map(values, |row| {
        let values = row.get_ref(1)?.as_blob()?.iter().map(|it| it.cast_signed()).collect();
        Ok(ChunkVector { no: number(row.get(0)?), values })
    })?;
    Ok(vectors.collect::<Result<_, _>>()?)
}
