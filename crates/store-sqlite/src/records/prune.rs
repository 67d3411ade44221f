//! Prunes old data: streams from their start, documents by their time.

use contexture_history::Timestamp;
use rusqlite::{Connection, params};

use crate::failure::Failure;
use crate::file::commit::Change;
use crate::numbers::to_sql;

const OLD_STREAMS: &str =
    "SELECT no, last FROM streams WHERE kind = ?1 AND oldest < ?2 ORDER BY oldest LIMIT ?3";
const FIRST_RECORDS: &str = "SELECT number, at FROM records WHERE stream = ?1 ORDER BY number";
const REMOVE_RECORDS: &str = "DELETE FROM records WHERE stream = ?1 AND number <= ?2";
const FORGET: &str = "UPDATE streams SET forgotten = ?2, oldest = ?3 WHERE no = ?1";
const REMOVE_DOCUMENTS: &str = "DELETE FROM documents WHERE no IN
    (SELECT no FROM documents WHERE kind = ?1 AND at < ?2 ORDER BY at LIMIT ?3)";

#[cfg(test)]
pub(crate) const QUERIES: [&str; 5] = [OLD_STREAMS, FIRST_RECORDS, REMOVE_RECORDS, FORGET, REMOVE_DOCUMENTS];

/// Prunes records and documents of a kind.
#[derive(Debug)]
pub(crate) struct PruneRecords {
    pub(crate) kind: String,
    pub(crate) before: Timestamp,
    pub(crate) max: usize,
}

impl Change for PruneRecords {
    type Output = u64;

    fn make(&self, conn: &Connection) -> Result<u64, Failure> {
        let mut spare = self.max;
        let mut statement = conn.prepare_cached(OLD_STREAMS)?;
        let values = params![self.kind, self.before.0, to_sql(self.max as u64)];
        let old = statement.query_map(values, |row| Ok((row.get(0)?, row.get(1)?)))?;
        // Each has something to forget at its beginning.
        for (no, last) in old.collect::<Result<Vec<(i64, i64)>, _>>()? {
            if spare == 0 {
                break;
            }
            spare -= self.forget(conn, no, last, spare)?;
        }
        let values = params![self.kind, self.before.0, to_sql(spare as u64)];
        let documents = conn.prepare_cached(REMOVE_DOCUMENTS)?.execute(values)?;
        Ok((self.max - spare + documents) as u64)
    }
}

impl PruneRecords {
    /// Prunes the start of a stream. Returns how many records were removed.
    fn forget(&self, conn: &Connection, no: i64, last: i64, max: usize) -> rusqlite::Result<usize> {
        let mut statement = conn.prepare_cached(FIRST_RECORDS)?;
        let mut rows = statement.query([no])?;
        let (mut count, mut first_kept) = (0, None);
        while let Some(row) = rows.next()? {
            let (number, at): (i64, i64) = (row.get(0)?, row.get(1)?);
            if count == max || at >= self.before.0 {
                first_kept = Some((number, at));
                break;
            }
            count += 1;
        }
        drop(rows);
        let forgotten = first_kept.map_or(last, |(number, _)| number - 1);
        conn.prepare_cached(REMOVE_RECORDS)?.execute([no, forgotten])?;
        conn.prepare_cached(FORGET)?.execute(params![no, forgotten, first_kept.map(|it| it.1)])?;
        Ok(count)
    }
}
