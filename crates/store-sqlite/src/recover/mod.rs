//! Copies what is readable of a damaged file into a new one.
//!
//! The damaged file is only read. Each table of a copy is walked row by row, past unreadable ones ([`walk`]), into a
//! file of the same version, which is then migrated. Each thread and each run is kept up to its first missing or
//! unreadable commit, a journal with its holes; what is made of the items is made again ([`rebuild`]). Leases are not
//! kept, but their numbers are, so an outdated writer is still recognised.

mod copy;
mod knowledge;
mod rebuild;
mod walk;

use std::path::{Path, PathBuf};
use std::time::Duration;

use contexture_session::StoreError;
use rusqlite::Connection;

use crate::SqliteStore;
use crate::failure::{Failure, StorePath};
use crate::file::identity::with_suffix;
use crate::file::open::{PAGE_BYTES, open_at};
use crate::migrate::{VERSION, migrate};

/// How long to wait for another process.
const BUSY: Duration = Duration::from_secs(1);

/// The result of recovering a damaged file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recovered {
    /// Sessions that are in the new file.
    pub sessions: u64,
    /// Threads that are in the new file.
    pub threads: u64,
    /// Items that are in the new file.
    pub items: u64,
    /// Descriptions of what is missing, one entry for each gap.
    pub lost: Vec<String>,
}

impl SqliteStore {
    /// Copies what is readable of a damaged file into a new one, which must not be there yet.
    ///
    /// Every thread is kept up to its first missing or unreadable commit. The damaged file is not changed; no process
    /// may write to it during recovery.
    pub fn recover(damaged: impl AsRef<Path>, into: impl AsRef<Path>) -> Result<Recovered, StoreError> {
        let (damaged, into) = (damaged.as_ref(), into.as_ref());
        let (source, target) = (StorePath::new(damaged, BUSY), StorePath::new(into, BUSY));
        if into.exists() {
            return Err(target.unavailable("it exists already"));
        }
        let scratch = Scratch { path: with_suffix(into, ".damaged") };
        copy_store(damaged, &scratch.path).map_err(|err| source.unavailable(err))?;
        let old = copy::open_copy(damaged, &source.at(&scratch.path))?;
        let recovered = fill(&old, &target).map_err(|err| target.failure(err));
        if recovered.is_err() {
            remove_store(into);
        }
        recovered
    }
}

fn fill(old: &Connection, place: &StorePath) -> Result<Recovered, Failure> {
    let version = old.pragma_query_value(None, "user_version", |row| row.get::<_, u32>(0));
    let version = version.map_or(VERSION, |it| it.clamp(1, VERSION));
    let mut new = open_at(place, version, PAGE_BYTES)?;
    let mut recovered = Recovered::default();
    let tx = new.transaction()?;
    copy::copy_tables(old, &tx, &mut recovered.lost)?;
    tx.commit()?;
    migrate(&mut new, place, VERSION)?;
    let tx = new.transaction()?;
    rebuild::rebuild(&tx, place, &mut recovered)?;
    knowledge::rebuild(&tx, &mut recovered.lost)?;
    tx.commit()?;
    Ok(recovered)
}

/// A copy of the damaged file, next to the new one. It is removed at the end.
struct Scratch {
    path: PathBuf,
}

impl Drop for Scratch {
    fn drop(&mut self) {
        remove_store(&self.path);
    }
}

/// Copies a file and its log over what is there.
fn copy_store(from: &Path, to: &Path) -> std::io::Result<()> {
    remove_store(to);
    std::fs::copy(from, to)?;
    let log = with_suffix(from, "-wal");
    if log.exists() {
        std::fs::copy(log, with_suffix(to, "-wal"))?;
    }
    Ok(())
}

fn remove_store(path: &Path) {
    for suffix in ["", "-wal", "-shm"] {
        // A file that can't be removed stays; the result does not depend on it.
        let _ = std::fs::remove_file(with_suffix(path, suffix));
    }
}
