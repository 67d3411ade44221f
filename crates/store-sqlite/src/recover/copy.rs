//! Opens the copy of a damaged file, and copies its readable rows.

use std::fs::OpenOptions;
use std::io::{Seek as _, SeekFrom, Write as _};
use std::path::Path;

use contexture_session::codec::blob_hash;
use contexture_session::{BaseId, SessionId, SourceId, StoreError, Tenant, ThreadId};
use rusqlite::types::Value;
use rusqlite::{Connection, OpenFlags, Row, params_from_iter};

use super::walk::walk;
use super::{Scratch, copy_store};
use crate::failure::{Failure, StorePath};
use crate::file::identity::with_suffix;
use crate::file::open::{OLD_PAGE_BYTES, PAGE_BYTES, open_at};
use crate::migrate::{APPLICATION_ID, VERSION};

/// Every table and index begins before this page.
const LAYOUT_PAGES: u64 = 64;

/// Opens the copy. A schema that can't be read is replaced: it holds the layout, which is the same in every file of a
/// version.
pub(super) fn open_copy(damaged: &Path, place: &StorePath) -> Result<Connection, StoreError> {
    if let Some(conn) = open_readable(place)? {
        return Ok(conn);
    }
    let open_with = |(page_bytes, layout): (u32, Layout)| {
        // What was tried before has changed the copy.
        copy_store(damaged, &place.path).map_err(|err| place.unavailable(err))?;
        replace_schema(place, layout, page_bytes)?;
        open_readable(place)
    };
    // What fits best: some of the tables may be damaged too.
    let (mut best, mut most) = (None, 0);
    for page_bytes in [PAGE_BYTES, OLD_PAGE_BYTES] {
        for schema in [(page_bytes, Layout::New), (page_bytes, Layout::Vacuumed)] {
            let found = open_with(schema)?.map_or(0, |it| count_tables(&it));
            if found > most {
                (best, most) = (Some(schema), found);
            }
        }
    }
    let conn = best.map(open_with).transpose()?.flatten();
    conn.ok_or_else(|| place.damaged("nothing of it can be read"))
}

/// The positions of the tables of later versions.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Layout {
    /// In the order in which the versions made them.
    New,
    /// The tables come before all indexes.
    Vacuumed,
}

/// Returns how many tables are where the schema has them.
fn count_tables(conn: &Connection) -> usize {
    let is_table = |table: &&&str| {
        let sql = format!("SELECT count(*) FROM (SELECT rowid FROM {table} ORDER BY rowid LIMIT 1)");
        conn.query_row(&sql, [], |_| Ok(())).is_ok()
    };
    TABLES.iter().filter(is_table).count()
}

fn open_readable(place: &StorePath) -> Result<Option<Connection>, StoreError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let conn = Connection::open_with_flags(&place.path, flags).map_err(|err| place.error(&err))?;
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

fn replace_schema(place: &StorePath, layout: Layout, page_bytes: u32) -> Result<(), StoreError> {
    let sound = Scratch { path: with_suffix(&place.path, ".new") };
    let conn = open_at(&place.at(&sound.path), VERSION, page_bytes)?;
    if layout == Layout::Vacuumed {
        conn.execute_batch("VACUUM").map_err(|err| place.error(&err))?;
    }
    drop(conn);
    let replace = || {
        let sound = std::fs::read(&sound.path)?;
        let mut file = OpenOptions::new().write(true).open(&place.path)?;
        let size = page_bytes as usize;
        // A file that was cut short may lack pages that the layout names.
        let mut pages = file.metadata()?.len().div_ceil(u64::from(page_bytes)).max(LAYOUT_PAGES);
        let mut first = sound.get(..size).unwrap_or_default().to_vec();
        // The pages below the first one go to the end: something else may be where they were.
        for at in child_pointers(&first) {
            let child = u32::from_be_bytes(first[at..at + 4].try_into().unwrap_or_default()) as usize;
            let child = sound.get(child.saturating_sub(1) * size..child * size).unwrap_or_default();
            file.seek(SeekFrom::Start(pages * u64::from(page_bytes)))?;
            file.write_all(child)?;
            pages += 1;
            put_number(&mut first, at, pages);
        }
        file.set_len(pages * u64::from(page_bytes))?;
        put_number(&mut first, PAGE_COUNT_AT, pages);
        file.seek(SeekFrom::Start(0))?;
        file.write_all(&first)
    };
    replace().map_err(|err: std::io::Error| place.unavailable(err))
}

/// Where the header says how many pages the file has.
const PAGE_COUNT_AT: usize = 28;
/// Where the tree of the schema begins: after the header of the file.
const TREE_AT: usize = 100;
/// The kind of a page of a table that has pages below it.
const INTERIOR: u8 = 5;

/// Returns where the first page has the numbers of the pages below it.
fn child_pointers(first: &[u8]) -> Vec<usize> {
    if first.get(TREE_AT) != Some(&INTERIOR) {
        return Vec::new();
    }
    let short =
        |at: usize| first.get(at..at + 2).map_or(0, |it| usize::from(it[0]) << 8 | usize::from(it[1]));
    let cells = (0..short(TREE_AT + 3)).map(|it| short(TREE_AT + 12 + 2 * it));
    cells.chain([TREE_AT + 8]).filter(|it| it + 4 <= first.len()).collect()
}

fn put_number(page: &mut [u8], at: usize, number: u64) {
    let number = u32::try_from(number).unwrap_or(u32::MAX);
    if let Some(place) = page.get_mut(at..at + 4) {
        place.copy_from_slice(&number.to_be_bytes());
    }
}

/// The tables that hold data, of all versions; the others are made of them again.
const TABLES: [&str; 13] = [
    "sessions",
    "threads",
    "logs",
    "blobs",
    "commits",
    "unfinished",
    "documents",
    "streams",
    "records",
    "bases",
    "sources",
    "chunks",
    "chunk_vectors",
];

/// Whether a row is what a row of its table must be. Commits are checked when they are decoded; names are what
/// everything else hangs on.
fn is_sound(table: &str, row: &Row<'_>) -> rusqlite::Result<bool> {
    let text = |column: &str| row.get::<_, String>(column);
    let number = |column: &str| row.get::<_, i64>(column);
    Ok(match table {
        "bases" => Tenant::parse(text("tenant")?).is_ok() && BaseId::parse(text("name")?).is_ok(),
        "sources" => SourceId::parse(text("id")?).is_ok(),
        "sessions" | "threads" | "logs" => {
            Tenant::parse(text("tenant")?).is_ok() && ThreadId::parse(text("name")?).is_ok()
        }
        "blobs" => blob_hash(&text("body")?) == text("hash")?,
        // Data that belongs to no session has an empty session name.
        "documents" | "streams" => {
            let session = text("session")?;
            Tenant::parse(text("tenant")?).is_ok()
                && (session.is_empty() || SessionId::parse(session).is_ok())
        }
        "records" => number("number")? > 0,
        _ => true,
    })
}

/// Copies every sound row into a file of the same version. Later ones with the same name are left out.
pub(super) fn copy_tables(old: &Connection, new: &Connection, lost: &mut Vec<String>) -> Result<(), Failure> {
    for table in TABLES.into_iter().filter(|it| has_table(new, it)) {
        let places = copy_table(old, new, table)?;
        if places > 0 {
            lost.push(format!("table `{table}` could not be read at {places} places"));
        }
    }
    Ok(())
}

fn has_table(conn: &Connection, table: &str) -> bool {
    let sql = "SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = ?1";
    conn.query_row(sql, [table], |row| row.get::<_, i64>(0)).is_ok_and(|it| it > 0)
}

fn copy_table(old: &Connection, new: &Connection, table: &str) -> Result<u64, Failure> {
    let sql = r#"SELECT group_concat('"' || name || '"', ', ') FROM pragma_table_info(?1)"#;
    let columns: String = new.query_row(sql, [table], |row| row.get(0))?;
    let count = columns.split(',').count();
    let marks = vec!["?"; count].join(", ");
    let mut insert =
        new.prepare_cached(&format!("INSERT OR IGNORE INTO {table} ({columns}) VALUES ({marks})"))?;
    walk(old, table, &columns, |row| {
        let values = (1..=count).map(|it| row.get::<_, Value>(it)).collect::<Result<Vec<_>, _>>();
        let Ok(values) = values else { return Ok(false) };
        if !is_sound(table, row).unwrap_or(false) {
            return Ok(false);
        }
        Ok(match insert.execute(params_from_iter(values)) {
            Ok(_) => true,
            // A value of another type than the column's.
            Err(err) if is_about_values(&err) => false,
            Err(err) => return Err(err.into()),
        })
    })
}

fn is_about_values(err: &rusqlite::Error) -> bool {
    use rusqlite::ErrorCode;
    matches!(err.sqlite_error_code(), Some(ErrorCode::ConstraintViolation | ErrorCode::TypeMismatch))
}
