//! Large texts: stored once for each tenant, counted by the logs that refer to them.

use contexture_session::ThreadKey;
use contexture_session::codec::Blob;
use rusqlite::{Connection, OptionalExtension as _, params};

use crate::numbers::to_sql;

pub(crate) fn insert_blob(conn: &Connection, key: &ThreadKey, log: i64, blob: &Blob) -> rusqlite::Result<()> {
    let (tenant, hash) = (key.tenant.as_str(), blob.place.hash.as_str());
    let sql = "INSERT INTO blobs (tenant, hash, bytes, body) VALUES (?1, ?2, ?3, ?4) ON CONFLICT DO NOTHING";
    conn.prepare_cached(sql)?.execute(params![tenant, hash, to_sql(blob.text.len() as u64), blob.text])?;
    let sql = "INSERT INTO blob_uses (log, blob)
               SELECT ?1, no FROM blobs WHERE tenant = ?2 AND hash = ?3 ON CONFLICT DO NOTHING";
    conn.prepare_cached(sql)?.execute(params![log, tenant, hash])?;
    Ok(())
}

/// Notes the blobs of the rows that were copied.
pub(crate) fn copy_blob_uses(conn: &Connection, tenant: &str, log: i64) -> rusqlite::Result<()> {
    let sql = "INSERT INTO blob_uses (log, blob)
               SELECT DISTINCT ?1, blobs.no FROM commits
               CROSS JOIN json_each(commits.blobs) AS places
               CROSS JOIN blobs ON blobs.tenant = ?2 AND blobs.hash = places.value ->> 'hash'
               WHERE commits.log = ?1 AND commits.blobs IS NOT NULL
               ON CONFLICT DO NOTHING";
    conn.prepare_cached(sql)?.execute(params![log, tenant])?;
    Ok(())
}

/// The order matters: blobs are found by their references. A reference is needed as long as a row of the log has it.
pub(crate) const REMOVE_UNUSED: [&str; 2] = [
    "DELETE FROM blobs WHERE no IN (SELECT blob FROM blob_uses WHERE log = ?1)
     AND NOT EXISTS (SELECT 1 FROM blob_uses WHERE blob = blobs.no AND log <> ?1)
     AND hash NOT IN (SELECT places.value ->> 'hash' FROM commits CROSS JOIN json_each(commits.blobs) AS places
                      WHERE commits.log = ?1 AND commits.blobs IS NOT NULL)",
    "DELETE FROM blob_uses WHERE log = ?1
     AND coalesce((SELECT hash FROM blobs WHERE no = blob_uses.blob), '') NOT IN
         (SELECT places.value ->> 'hash' FROM commits CROSS JOIN json_each(commits.blobs) AS places
          WHERE commits.log = ?1 AND commits.blobs IS NOT NULL)",
];

pub(crate) const BLOB: &str = "SELECT body FROM blobs WHERE tenant = ?1 AND hash = ?2";

/// Returns a large text.
pub(crate) fn blob(conn: &Connection, tenant: &str, hash: &str) -> rusqlite::Result<Option<String>> {
    conn.prepare_cached(BLOB)?.query_row([tenant, hash], |row| row.get(0)).optional()
}
