//! Opens the copy of a damaged file, and copies its readable rows.

use std::fs::{File, OpenOptions};
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::path::Path;
use std::time::Duration;

use contexture_session::codec::blob_hash;
use contexture_session::{SessionId, StoreError, Tenant, ThreadId};
use rusqlite::types::Value;
use rusqlite::{Connection, OpenFlags, Row, params_from_iter};

use super::walk::{RowOutcome, walk};
use super::{Scratch, with_suffix};
use crate::failure::{Failure, StorePath};
use crate::file::open::{PAGE_BYTES, open_writer};
use crate::migrate::APPLICATION_ID;

/// Every table and index begins before this.
const LAYOUT_BYTES: u64 = 64 * PAGE_BYTES as u64;

/// Opens the copy. A first page that can't be read is replaced: it holds the layout, which is the same in every file
/// of a version.
pub(super) fn open_copy(path: &Path, place: &StorePath) -> Result<Connection, StoreError> {
    if let Some(conn) = open_readable(path, place)? {
        return Ok(conn);
    }
    for layout in [Layout::New, Layout::Vacuumed] {
        replace_first_page(path, place, layout)?;
        if let Some(conn) = open_readable(path, place)?.filter(has_tables) {
            return Ok(conn);
        }
    }
    // The older tables have the same positions in both.
    replace_first_page(path, place, Layout::New)?;
    open_readable(path, place)?.ok_or_else(|| place.damaged("nothing of it can be read"))
}

/// The positions of the tables of later versions.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Layout {
    /// In the order in which the versions made them.
    New,
    /// The tables come before all indexes.
    Vacuumed,
}

/// Whether there is a table at each position of the layout.
fn has_tables(conn: &Connection) -> bool {
    let is_table = |table: &Table| {
        let sql = format!("SELECT count(*) FROM (SELECT no FROM {} ORDER BY no LIMIT 1)", table.name);
        conn.query_row(&sql, [], |_| Ok(())).is_ok()
    };
    TABLES.iter().all(is_table)
}

fn open_readable(path: &Path, place: &StorePath) -> Result<Option<Connection>, StoreError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let conn = Connection::open_with_flags(path, flags).map_err(|err| place.error(&err))?;
    let application = conn.pragma_query_value(None, "application_id", |row| row.get::<_, i32>(0));
    let tables = conn.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get::<_, i64>(0));
    match (application, tables) {
        (Ok(APPLICATION_ID), Ok(1..)) => Ok(Some(conn)),
        (Ok(application), Ok(1..)) if application != 0 => {
            Err(place.unavailable("it is an SQLite file of another program"))
        }
        _ => Ok(None),
    }
}

fn replace_first_page(path: &Path, place: &StorePath, layout: Layout) -> Result<(), StoreError> {
    let sound = Scratch { path: with_suffix(path, ".new") };
    let conn = open_writer(&sound.path, place, Duration::from_secs(1))?;
    if layout == Layout::Vacuumed {
        conn.execute_batch("VACUUM").map_err(|err| place.error(&err))?;
    }
    drop(conn);
    let replace = || {
        let mut page = vec![0; PAGE_BYTES as usize];
        File::open(&sound.path)?.read_exact(&mut page)?;
        let mut file = OpenOptions::new().write(true).open(path)?;
        // A file that was cut short may lack pages that the layout names.
        file.set_len(file.metadata()?.len().max(LAYOUT_BYTES))?;
        let pages = u32::try_from(file.metadata()?.len() / u64::from(PAGE_BYTES)).unwrap_or(u32::MAX);
        // The header contains the number of pages.
        page[28..32].copy_from_slice(&pages.to_be_bytes());
        file.seek(SeekFrom::Start(0))?;
        file.write_all(&page)
    };
    replace().map_err(|err: std::io::Error| place.unavailable(err))
}

/// A table with its columns, and what its rows must be.
struct Table {
    name: &'static str,
    columns: &'static str,
    is_sound: fn(&Row<'_>) -> rusqlite::Result<bool>,
}

/// Blobs and commits are checked here or when they are decoded; names are what everything else hangs on.
const TABLES: [Table; 7] = [
    Table { name: "sessions", columns: "tenant, name, label, created", is_sound: has_names },
    Table {
        name: "threads",
        columns: r#"tenant, name, session, main, label, base_thread, base_seq, created, updated, "end", turns, fence,
                    state"#,
        is_sound: has_names,
    },
    Table { name: "blobs", columns: "tenant, hash, bytes, body", is_sound: has_its_hash },
    Table { name: "commits", columns: "thread, first, count, blobs, body", is_sound: |_| Ok(true) },
    Table {
        name: "streams",
        columns: "tenant, session, kind, forgotten, last, oldest",
        is_sound: |row| Ok(has_owner(row)? && (0..=row.get(5)?).contains(&row.get::<_, i64>(4)?)),
    },
    Table {
        name: "records",
        columns: "stream, number, at, data",
        is_sound: |row| Ok(row.get::<_, i64>(2)? > 0),
    },
    Table { name: "documents", columns: "tenant, session, kind, name, at, data", is_sound: has_owner },
];

fn has_names(row: &Row<'_>) -> rusqlite::Result<bool> {
    let (tenant, name): (String, String) = (row.get(1)?, row.get(2)?);
    Ok(Tenant::parse(tenant).is_ok() && ThreadId::parse(name).is_ok())
}

/// Data that belongs to no session has an empty session name.
fn has_owner(row: &Row<'_>) -> rusqlite::Result<bool> {
    let (tenant, session): (String, String) = (row.get(1)?, row.get(2)?);
    Ok(Tenant::parse(tenant).is_ok() && (session.is_empty() || SessionId::parse(session).is_ok()))
}

fn has_its_hash(row: &Row<'_>) -> rusqlite::Result<bool> {
    let (hash, body): (String, String) = (row.get(2)?, row.get(4)?);
    Ok(blob_hash(&body) == hash)
}

/// Copies every sound row. Later ones with the same name are left out.
pub(super) fn copy_tables(old: &Connection, new: &Connection, lost: &mut Vec<String>) -> Result<(), Failure> {
    for table in TABLES {
        if is_missing(old, table.name) {
            continue;
        }
        let places = copy_table(old, new, &table)?;
        if places > 0 {
            lost.push(format!("table `{}` could not be read at {places} places", table.name));
        }
    }
    Ok(())
}

/// Whether the file is older than the table.
fn is_missing(old: &Connection, table: &str) -> bool {
    let sql = "SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = ?1";
    old.query_row(sql, [table], |row| row.get::<_, i64>(0)).is_ok_and(|it| it == 0)
}

fn copy_table(old: &Connection, new: &Connection, table: &Table) -> Result<u64, Failure> {
    let count = table.columns.split(',').count() + 1;
    let marks = vec!["?"; count].join(", ");
    let Table { name, columns, .. } = table;
    let sql = format!("INSERT OR IGNORE INTO {name} (no, {columns}) VALUES ({marks})");
    let mut insert = new.prepare_cached(&sql)?;
    walk(old, name, columns, |row| {
        let values = (0..count).map(|it| row.get::<_, Value>(it)).collect::<Result<Vec<_>, _>>();
        let Ok(values) = values else { return Ok(RowOutcome::Unreadable) };
        if !(table.is_sound)(row).unwrap_or(false) {
            return Ok(RowOutcome::Unreadable);
        }
        Ok(match insert.execute(params_from_iter(values)) {
            Ok(_) => RowOutcome::Copied,
            // A value of another type than the column's.
            Err(err) if is_about_values(&err) => RowOutcome::Unreadable,
            Err(err) => return Err(err.into()),
        })
    })
}

fn is_about_values(err: &rusqlite::Error) -> bool {
    use rusqlite::ErrorCode;
    matches!(err.sqlite_error_code(), Some(ErrorCode::ConstraintViolation | ErrorCode::TypeMismatch))
}
