//! Prunes documents by their time.

use contexture_history::Timestamp;
use rusqlite::{Connection, params};

use crate::failure::Failure;
use crate::file::commit::Change;
use crate::numbers::to_sql;

pub(crate) const PRUNE: &str = "DELETE FROM documents WHERE no IN
    (SELECT no FROM documents WHERE kind = ?1 AND at < ?2 ORDER BY at LIMIT ?3)";

/// Prunes documents of a kind.
#[derive(Debug)]
pub(crate) struct PruneDocuments {
    pub(crate) kind: String,
    pub(crate) before: Timestamp,
    pub(crate) max: usize,
}

impl Change for PruneDocuments {
    type Output = u64;

    fn make(&self, conn: &Connection) -> Result<u64, Failure> {
        let values = params![self.kind, self.before.0, to_sql(self.max as u64)];
        Ok(conn.prepare_cached(PRUNE)?.execute(values)? as u64)
    }
}
