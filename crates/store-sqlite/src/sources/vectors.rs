//! Vectors of chunks.

use contexture_session::sources::{ChunkNo, ChunkVector, StoredChunk};
use rusqlite::params;

use super::base::{BaseRows, number};
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

impl BaseRows<'_> {
    /// Stores vectors; those of chunks that are gone are skipped.
    pub(crate) fn put_vectors(&self, model: &str, vectors: &[ChunkVector]) -> Result<(), Failure> {
        let mut put = self.conn.prepare_cached(PUT)?;
        for ChunkVector { no, values } in vectors {
            let bytes: Vec<u8> = values.iter().map(|it| it.cast_unsigned()).collect();
            put.execute(params![self.key(*no), model, bytes])?;
        }
        self.conn.prepare_cached(TOUCH)?.execute([self.no])?;
        Ok(())
    }

    /// Returns chunks without a vector of a model.
    pub(crate) fn without_vector(
        &self,
        model: &str,
        after: ChunkNo,
        max: usize,
    ) -> Result<Vec<StoredChunk>, Failure> {
        let mut statement = self.conn.prepare_cached(WITHOUT)?;
        let values = params![self.key(after), self.keys().1, model, to_sql(max as u64)];
        let nos = statement.query_map(values, |row| row.get(0).map(number))?;
        self.chunks(nos.collect::<Result<Vec<ChunkNo>, _>>()?)
    }

    /// Returns vectors of a model.
    pub(crate) fn vectors(
        &self,
        model: &str,
        after: ChunkNo,
        max: usize,
    ) -> Result<Vec<ChunkVector>, Failure> {
        let mut statement = self.conn.prepare_cached(VECTORS)?;
        let values = params![self.key(after), self.keys().1, model, to_sql(max as u64)];
        let vectors = statement.query_map(values, |row| {
            let values = row.get_ref(1)?.as_blob()?.iter().map(|it| it.cast_signed()).collect();
            Ok(ChunkVector { no: number(row.get(0)?), values })
        })?;
        Ok(vectors.collect::<Result<_, _>>()?)
    }
}
