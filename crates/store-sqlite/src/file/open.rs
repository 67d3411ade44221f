//! Opens the file: whose it is, which version it has, how connections behave.
//!
//! Nothing is written before the file is known to be ours and not newer than this program.

use std::fs::OpenOptions;
use std::io::{ErrorKind, Read as _};
use std::path::Path;
use std::time::{Duration, Instant};

use contexture_session::StoreError;
use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags};

use super::identity::Identity;
use crate::failure::{Failure, StorePath};
use crate::migrate::{VERSION, migrate, read_version};

/// The magic bytes of an SQLite file.
const MAGIC: &[u8; 16] = b"SQLite format 3\0";

/// A turn changes some 13 pages, most of them by a few bytes, and adds few: it writes 39 kB with pages of 2 KiB, 62 kB
/// with 4 KiB, 114 kB with 8 KiB. Smaller pages still make long reads slow: each is read by itself.
pub(crate) const PAGE_BYTES: u32 = 2048;
/// The size of the pages of files that older versions made; it stays.
pub(crate) const OLD_PAGE_BYTES: u32 = 8192;
/// A write-ahead log that grew beyond this is truncated when it restarts.
const WAL_KEPT_BYTES: u32 = 64 * 1024 * 1024;

/// Opens the connection that writes, and brings the file up to date.
pub(crate) fn open_writer(place: &StorePath) -> Result<Connection, StoreError> {
    open_at(place, VERSION, PAGE_BYTES)
}

/// The same, with a version to bring the file to, and the size of its pages if it is new.
pub(crate) fn open_at(place: &StorePath, version: u32, page_bytes: u32) -> Result<Connection, StoreError> {
    check_path(place)?;
    make_private(&place.path).map_err(|err| place.unavailable(err))?;
    let open = || {
        let mut conn = connect(place, OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE)?;
        // First of all: a file of another program stays unchanged.
        read_version(&mut conn, place)?;
        if conn.is_readonly("main").unwrap_or(true) {
            return Err(place.unavailable("the file can't be written").into());
        }
        use_wal(&conn, place.busy, page_bytes)?;
        set_up(&conn)?;
        migrate(&mut conn, place, version)?;
        Ok(conn)
    };
    open().map_err(|err| place.failure(err))
}

/// Opens a connection that only reads, or copies the write-ahead log into the file; the file is up to date.
pub(crate) fn open_reader(place: &StorePath) -> Result<Connection, StoreError> {
    // Readers need the shared memory of the write-ahead log, so the file is opened for writing all the same.
    let open = || {
        let conn = connect(place, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
        set_up(&conn)?;
        conn.pragma_update(None, "query_only", true)?;
        Ok(conn)
    };
    open().map_err(|err| place.error(&err))
}

/// Looks at the file as a program does that opens it now: its first bytes, its schema, one read. Connections that are
/// open see what they have in memory.
pub(crate) fn probe_file(identity: &Identity, place: &StorePath) -> Result<(), Failure> {
    // Opening another file would be worse than useless: SQLite takes the log for that file's own, copies it there and
    // removes it.
    if let Some(missing) = identity.missing() {
        return Err(place.missing(missing).into());
    }
    let mut head = [0; MAGIC.len()];
    let read = std::fs::File::open(&place.path).and_then(|mut it| it.read_exact(&mut head));
    // Not left to SQLite: it removes the log of a file that is empty.
    match read {
        Ok(()) if head == *MAGIC => {}
        Ok(()) => return Err(place.damaged("it does not begin as an SQLite file does").into()),
        Err(err) if err.kind() == ErrorKind::UnexpectedEof => {
            return Err(place.damaged("it was cut off").into());
        }
        Err(err) => return Err(place.unavailable(err).into()),
    }
    let mut conn = open_reader(place)?;
    read_version(&mut conn, place)?;
    Ok(conn.query_row("SELECT count(*) FROM (SELECT 1 FROM documents LIMIT 1)", [], |_| Ok(()))?)
}

fn check_path(place: &StorePath) -> Result<(), StoreError> {
    if place.path.is_dir() {
        return Err(place.unavailable("it is a folder"));
    }
    match place.path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() && !parent.is_dir() => {
            Err(place.unavailable(format!("there is no folder `{}`", parent.display())))
        }
        _ => Ok(()),
    }
}

/// Creates a file that only its owner can read, if there is none. SQLite gives the files next to it the same mode.
fn make_private(path: &Path) -> std::io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    match options.open(path) {
        Err(err) if err.kind() != std::io::ErrorKind::AlreadyExists => Err(err),
        _ => Ok(()),
    }
}

fn connect(place: &StorePath, flags: OpenFlags) -> rusqlite::Result<Connection> {
    // Each connection belongs to one thread, so SQLite need not lock it.
    let conn = Connection::open_with_flags(&place.path, flags | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
    conn.busy_timeout(place.busy)?;
    conn.set_prepared_statement_cache_capacity(128);
    // Otherwise some statements are prepared again whenever other values are bound to them.
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    Ok(conn)
}

/// Switches to a write-ahead log. SQLite does not wait for others here, so we do.
fn use_wal(conn: &Connection, busy: Duration, page_bytes: u32) -> rusqlite::Result<()> {
    let started = Instant::now();
    conn.pragma_update(None, "page_size", page_bytes)?;
    loop {
        match conn.pragma_update_and_check(None, "journal_mode", "WAL", |_| Ok(())) {
            Err(err)
                if err.sqlite_error_code() == Some(ErrorCode::DatabaseBusy) && started.elapsed() < busy =>
            {
                std::thread::sleep(Duration::from_millis(2));
            }
            other => return other,
        }
    }
}

fn set_up(conn: &Connection) -> rusqlite::Result<()> {
    // FULL: a commit is on the disk before it returns.
    conn.pragma_update(None, "synchronous", "FULL")?;
    conn.pragma_update(None, "temp_store", "MEMORY")?;
    conn.pragma_update(None, "cache_size", -16_384)?; // KB.
    conn.pragma_update(None, "cell_size_check", true)?;
    conn.pragma_update(None, "trusted_schema", false)?;
    conn.pragma_update_and_check(None, "journal_size_limit", WAL_KEPT_BYTES, |_| Ok(()))?;
    conn.pragma_update_and_check(None, "wal_autocheckpoint", 0, |_| Ok(()))
}
