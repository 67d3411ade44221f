//! Knowledge bases as a whole, and the keys of their chunks.

use contexture_history::Timestamp;
use contexture_session::sources::{BaseInfo, BaseSettings, ChunkNo};
use contexture_session::{BaseId, BaseKey, StoreError, Tenant};
use rusqlite::{Connection, OptionalExtension as _, Row, params};

use crate::failure::Failure;
use crate::head::{id, json};
use crate::numbers::{from_sql, to_sql};

const BASE: &str =
    "SELECT no, name, settings, documents, chunks, length, version, created, updated, last FROM bases
    WHERE tenant = ?1 AND name = ?2";
const BASES: &str =
    "SELECT no, name, settings, documents, chunks, length, version, created, updated, last FROM bases
    WHERE tenant = ?1 AND name > ?2 ORDER BY name LIMIT ?3";
const PUT: &str = "INSERT INTO bases (tenant, name, settings, created, updated) VALUES (?1, ?2, ?3, ?4, ?4)
    ON CONFLICT (tenant, name) DO UPDATE SET settings = excluded.settings";
/// In the order in which one is found by the other.
const REMOVE_RANGE: [&str; 4] = [
    "DELETE FROM chunk_words WHERE rowid IN (SELECT no FROM chunks WHERE no >= ?1 AND no < ?2)",
    "DELETE FROM chunk_terms WHERE no >= ?1 AND no < ?2",
    "DELETE FROM chunk_vectors WHERE no >= ?1 AND no < ?2",
    "DELETE FROM chunks WHERE no >= ?1 AND no < ?2",
];

#[cfg(test)]
pub(crate) const QUERIES: [&str; 2] = [BASE, BASES];

/// The bits of a chunk's key that are its number in the base.
const NUMBER_BITS: u32 = 40;

/// A base as its row has it, within one transaction.
#[derive(Debug)]
pub(crate) struct BaseRows<'a> {
    pub(crate) conn: &'a Connection,
    pub(crate) no: i64,
    pub(crate) info: BaseInfo,
    /// The number of the newest chunk there ever was.
    pub(crate) last: ChunkNo,
}

impl<'a> BaseRows<'a> {
    /// Returns a base, if it exists.
    pub(crate) fn find(conn: &'a Connection, key: &BaseKey) -> rusqlite::Result<Option<Self>> {
        let names = [key.tenant.as_str(), key.base.as_str()];
        conn.prepare_cached(BASE)?.query_row(names, |row| found(conn, row)).optional()
    }

    /// Returns a base that must exist.
    pub(crate) fn existing(conn: &'a Connection, key: &BaseKey) -> Result<Self, Failure> {
        Ok(Self::find(conn, key)?.ok_or_else(|| StoreError::no_base(&key.base))?)
    }

    /// Returns the key of a chunk in the tables of all bases.
    pub(crate) fn key(&self, no: ChunkNo) -> i64 {
        self.no << NUMBER_BITS | to_sql(no.min((1 << NUMBER_BITS) - 1))
    }

    /// Returns the keys that chunks of the base can have.
    pub(crate) fn keys(&self) -> (i64, i64) {
        (self.no << NUMBER_BITS, (self.no + 1) << NUMBER_BITS)
    }
}

/// Returns the number of the chunk with a key.
pub(crate) fn number(key: i64) -> ChunkNo {
    from_sql(key & ((1 << NUMBER_BITS) - 1))
}

fn found<'a>(conn: &'a Connection, row: &Row<'_>) -> rusqlite::Result<BaseRows<'a>> {
    let count = |column| row.get(column).map(from_sql);
    let info = BaseInfo {
        base: id(row, 1, BaseId::parse)?,
        settings: json(row, 2)?,
        documents: count(3)?,
        chunks: count(4)?,
        length: count(5)?,
        version: count(6)?,
        created: Timestamp(row.get(7)?),
        updated: Timestamp(row.get(8)?),
    };
    Ok(BaseRows { conn, no: row.get(0)?, info, last: count(9)? })
}

/// Returns a part of the list of a tenant's bases.
pub(crate) fn list(
    conn: &Connection,
    tenant: &Tenant,
    after: Option<&BaseId>,
    max: usize,
) -> Result<Vec<BaseInfo>, Failure> {
    let after = after.map_or("", BaseId::as_str);
    let mut statement = conn.prepare_cached(BASES)?;
    let values = params![tenant.as_str(), after, to_sql(max as u64)];
    let rows = statement.query_map(values, |row| Ok(found(conn, row)?.info))?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// Creates a base or changes its settings.
pub(crate) fn put_base(
    conn: &Connection,
    key: &BaseKey,
    settings: &BaseSettings,
    at: Timestamp,
) -> Result<BaseInfo, Failure> {
    // It is plain data: writing it does not fail.
    let settings = serde_json::to_string(settings).unwrap_or_default();
    conn.prepare_cached(PUT)?.execute(params![key.tenant.as_str(), key.base.as_str(), settings, at.0])?;
    Ok(BaseRows::existing(conn, key)?.info)
}

/// Removes chunks by their keys.
pub(crate) fn remove_range(conn: &Connection, first: i64, end: i64) -> rusqlite::Result<()> {
    for sql in REMOVE_RANGE {
        conn.prepare_cached(sql)?.execute([first, end])?;
    }
    Ok(())
}

/// Deletes a base with everything in it. Returns whether it existed.
pub(crate) fn delete_base(conn: &Connection, key: &BaseKey) -> Result<bool, Failure> {
    let Some(base) = BaseRows::find(conn, key)? else { return Ok(false) };
    let (first, end) = base.keys();
    remove_range(conn, first, end)?;
    conn.prepare_cached("DELETE FROM sources WHERE base = ?1")?.execute([base.no])?;
    conn.prepare_cached("DELETE FROM bases WHERE no = ?1")?.execute([base.no])?;
    Ok(true)
}
