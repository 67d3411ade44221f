//! Copies what is readable of a damaged file into a new one.
//!
//! The damaged file is only read. Each table of a copy is walked row by row, past unreadable ones ([`walk`]); then
//! each thread is kept up to its first missing or unreadable commit, and its state, turn keys, blob references and
//! search words are rebuilt from its items ([`rebuild`]). Leases are not kept, but their numbers are, so an outdated
//! writer is still recognised. Readable streams and documents are kept ([`records`]).

mod copy;
mod rebuild;
mod records;
mod walk;

use std::path::{Path, PathBuf};
use std::time::Duration;

use contexture_session::StoreError;
use rusqlite::Connection;

use crate::SqliteStore;
use crate::failure::{Failure, StorePath};
use crate::file::open::open_writer;

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
        let (source, target) = (StorePath::new(damaged), StorePath::new(into));
        if into.exists() {
            return Err(target.unavailable("it exists already"));
        }
        let scratch = Scratch::copy_of(damaged, into).map_err(|err| source.unavailable(err))?;
        let conn = open_writer(into, &target, Duration::from_secs(1))?;
        let recovered = copy::open_copy(&scratch.path, &source)
            .and_then(|old| fill(&old, &conn, &target).map_err(|err| target.failure(err)));
        drop(conn);
        if recovered.is_err() {
            remove_store(into);
        }
        recovered
    }
}

fn fill(old: &Connection, new: &Connection, place: &StorePath) -> Result<Recovered, Failure> {
    let mut recovered = Recovered::default();
    let tx = new.unchecked_transaction()?;
    copy::copy_tables(old, &tx, &mut recovered.lost)?;
    rebuild::rebuild(&tx, place, &mut recovered)?;
    records::rebuild(&tx, &mut recovered.lost)?;
    tx.commit()?;
    Ok(recovered)
}

/// A copy of the damaged file, next to the new one. It is removed at the end.
struct Scratch {
    path: PathBuf,
}

impl Scratch {
    fn copy_of(damaged: &Path, into: &Path) -> std::io::Result<Scratch> {
        let scratch = Scratch { path: with_suffix(into, ".damaged") };
        std::fs::copy(damaged, &scratch.path)?;
        let log = with_suffix(damaged, "-wal");
        if log.exists() {
            std::fs::copy(log, with_suffix(&scratch.path, "-wal"))?;
        }
        Ok(scratch)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        remove_store(&self.path);
    }
}

fn remove_store(path: &Path) {
    for suffix in ["", "-wal", "-shm"] {
        // A file that can't be removed stays; the result does not depend on it.
        let _ = std::fs::remove_file(with_suffix(path, suffix));
    }
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}
