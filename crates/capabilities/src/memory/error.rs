//! Errors of memory.

use contexture_message::ErrorCode;
use contexture_session::StoreError;

use super::record::Record;

/// Why an operation on memory failed.
#[derive(Debug, thiserror::Error)]
pub enum MemoryError {
    /// The record is not in the version that the writer has read.
    #[error("record `{id}` has {}, the writer expected version {expected}", current_version(.current))]
    Stale {
        /// The record.
        id: String,
        /// The version that the writer expected.
        expected: u64,
        /// The record as it is now; `None` if it was forgotten.
        current: Option<Box<Record>>,
    },
    /// There is no such record in this namespace.
    #[error("there is no record `{id}` in this memory")]
    NotFound {
        /// The id.
        id: String,
    },
    /// The request can't be carried out as it is.
    #[error("{0}")]
    Invalid(String),
    /// What is stored is not what this program writes.
    #[error("record `{id}` is damaged: {detail}")]
    Damaged {
        /// The record.
        id: String,
        /// What is wrong with it.
        detail: String,
    },
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

fn current_version(current: &Option<Box<Record>>) -> String {
    current.as_ref().map_or("no version".to_owned(), |it| format!("version {}", it.version))
}

impl MemoryError {
    /// Returns the stable code of the error.
    pub fn code(&self) -> ErrorCode {
        match self {
            MemoryError::Stale { .. } => ErrorCode::VersionConflict,
            MemoryError::NotFound { .. } => ErrorCode::NotFound,
            MemoryError::Invalid(_) => ErrorCode::InputInvalid,
            MemoryError::Damaged { .. } => ErrorCode::StoreDamaged,
            MemoryError::Store(err) => err.code(),
        }
    }
}
