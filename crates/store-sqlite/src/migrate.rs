//! The tables, and how they get from one version to the next.
//!
//! A new or older file is migrated in one transaction, so two processes that start together do it once.

use rusqlite::{Connection, Transaction, TransactionBehavior};

use crate::failure::{Failure, StorePath};

/// One script for each version, in order. A script is never changed once it was released.
const MIGRATIONS: [&str; 6] = [
    include_str!("schema/0001_threads.sql"),
    include_str!("schema/0002_search.sql"),
    include_str!("schema/0003_records.sql"),
    include_str!("schema/0004_one_log.sql"),
    include_str!("schema/0005_sources.sql"),
    include_str!("schema/0006_listed.sql"),
];

/// The version of the schema that this program writes.
pub(crate) const VERSION: u32 = MIGRATIONS.len() as u32;

/// Marks the file as ours, in its header: "CTXR".
pub(crate) const APPLICATION_ID: i32 = 0x4354_5852;

/// Returns the version of a file that this program can open, 0 for an empty one.
pub(crate) fn read_version(conn: &mut Connection, place: &StorePath) -> Result<u32, Failure> {
    // In one transaction: another process may be setting the file up.
    version_within(&conn.transaction()?, place)
}

fn version_within(tx: &Transaction<'_>, place: &StorePath) -> Result<u32, Failure> {
    let application: i32 = tx.pragma_query_value(None, "application_id", |row| row.get(0))?;
    let version: u32 = tx.pragma_query_value(None, "user_version", |row| row.get(0))?;
    let has_tables: bool =
        tx.query_row("SELECT EXISTS (SELECT 1 FROM sqlite_schema)", [], |row| row.get(0))?;
    match application {
        APPLICATION_ID if version > VERSION => Err(place.newer(version, VERSION).into()),
        APPLICATION_ID => Ok(version),
        0 if !has_tables && version == 0 => Ok(0),
        _ => Err(place.unavailable("it is an SQLite file of another program").into()),
    }
}

/// Brings a file to a version: the newest, except when a file of an older one is recovered.
pub(crate) fn migrate(conn: &mut Connection, place: &StorePath, target: u32) -> Result<(), Failure> {
    if read_version(conn, place)? == target {
        return Ok(());
    }
    // Exclusive from the start; a second process finds the work done.
    let tx = conn.transaction_with_behavior(TransactionBehavior::Exclusive)?;
    let version = version_within(&tx, place)?;
    for script in MIGRATIONS[..target as usize].iter().skip(version as usize) {
        tx.execute_batch(script)?;
    }
    tx.pragma_update(None, "application_id", APPLICATION_ID)?;
    tx.pragma_update(None, "user_version", target)?;
    Ok(tx.commit()?)
}
