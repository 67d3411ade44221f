//! Maps SQLite errors to store errors.

use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use contexture_session::StoreError;
use contexture_session::codec::RowDamaged;
use rusqlite::types::FromSqlError;
use rusqlite::{Error, ErrorCode};

/// A hint for damaged files, as part of the error.
const REMEDY: &str = "what is readable can be copied into a new file with `SqliteStore::recover`";

/// Why an operation failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// It was checked and refused. Nothing was written.
    #[error(transparent)]
    Refused(#[from] StoreError),
    /// SQLite could not do it. Something may have been written; the transaction must go.
    #[error(transparent)]
    Broken(#[from] Error),
    /// A row can't be decoded.
    #[error(transparent)]
    Damaged(#[from] RowDamaged),
}

impl From<FromSqlError> for Failure {
    fn from(err: FromSqlError) -> Self {
        Failure::Broken(err.into())
    }
}

/// The file: where it is, how long to wait for another process that writes to it, and how errors name it.
#[derive(Clone, Debug)]
pub(crate) struct StorePath {
    pub(crate) path: Arc<Path>,
    pub(crate) busy: Duration,
    name: Arc<str>,
}

impl StorePath {
    pub(crate) fn new(path: &Path, busy: Duration) -> Self {
        Self { path: Arc::from(path), busy, name: Arc::from(path.display().to_string()) }
    }

    /// Returns another file, which errors name as they name this one.
    pub(crate) fn at(&self, path: &Path) -> Self {
        Self { path: Arc::from(path), ..self.clone() }
    }

    /// Returns the store error for an SQLite error.
    pub(crate) fn error(&self, err: &Error) -> StoreError {
        match err.sqlite_error_code() {
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => self.damaged(err),
            Some(ErrorCode::ConstraintViolation | ErrorCode::TypeMismatch) => self.damaged(err),
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
                self.unavailable("another process has been writing to it for too long")
            }
            Some(_) => self.unavailable(err),
            // A column has a type other than in the schema, or a text is not valid UTF-8.
            None => self.damaged(err),
        }
    }

    pub(crate) fn failure(&self, failure: Failure) -> StoreError {
        match failure {
            Failure::Refused(err) => err,
            Failure::Broken(err) => self.error(&err),
            Failure::Damaged(err) => self.damaged(err),
        }
    }

    pub(crate) fn damaged(&self, detail: impl ToString) -> StoreError {
        StoreError::Damaged {
            place: self.name.to_string(),
            detail: format!("{}; {REMEDY}", detail.to_string()),
        }
    }

    pub(crate) fn unavailable(&self, detail: impl ToString) -> StoreError {
        StoreError::Unavailable { place: self.name.to_string(), detail: detail.to_string() }
    }

    pub(crate) fn newer(&self, found: u32, known: u32) -> StoreError {
        StoreError::Newer { place: self.name.to_string(), found, known }
    }

    /// Returns the error for a file that is not the one that was opened.
    pub(crate) fn missing(&self, path: &Path) -> StoreError {
        self.unavailable(format!("`{}` was removed or replaced while it was open", path.display()))
    }

    /// Starts a thread that works on the file.
    pub(crate) fn spawn(
        &self,
        name: &str,
        work: impl FnOnce() + Send + 'static,
    ) -> Result<JoinHandle<()>, StoreError> {
        let thread = std::thread::Builder::new().name(format!("contexture-{name}"));
        thread.spawn(work).map_err(|err| self.unavailable(err))
    }

    /// Returns the error for a thread of this store that has ended, by a panic.
    pub(crate) fn gone(&self) -> StoreError {
        self.unavailable("the thread that works on it has ended")
    }
}
