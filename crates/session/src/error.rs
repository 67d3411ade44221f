//! What can go wrong with a store.

use contexture_history::Seq;

use crate::records::DocumentKey;
use crate::store::Fence;

/// Why a store did not do what it was asked for.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The log does not end where the writer thinks it does.
    #[error("thread `{thread}` ends at {found}, the writer expected {expected}")]
    Conflict {
        /// The thread.
        thread: String,
        /// What the writer knew.
        expected: Seq,
        /// What there is.
        found: Seq,
    },
    /// Another writer holds the lease.
    #[error("thread `{thread}` is held by another writer")]
    Held {
        /// The thread.
        thread: String,
    },
    /// The writer's lease was taken over.
    #[error("the writer's lease {fence} on thread `{thread}` was taken over", fence = .fence.0)]
    Fenced {
        /// The thread.
        thread: String,
        /// The number it held.
        fence: Fence,
    },
    /// There is no such session or thread.
    #[error("there is no {what} `{id}`")]
    NotFound {
        /// `session` or `thread`.
        what: &'static str,
        /// Its name.
        id: String,
    },
    /// There is one with that name already.
    #[error("{what} `{id}` exists already")]
    Exists {
        /// `session`, `thread` or `document`.
        what: &'static str,
        /// Its name.
        id: String,
    },
    /// A main thread goes with its session only.
    #[error("thread `{thread}` is its session's main thread")]
    IsMain {
        /// The thread.
        thread: String,
    },
    /// An append that is no continuation of anything.
    #[error("an append to thread `{thread}` is malformed: {detail}")]
    Malformed {
        /// The thread.
        thread: String,
        /// What is wrong with it.
        detail: String,
    },
    /// A name that is too long to be a key.
    #[error("a {what} of {bytes} bytes is too long, {max} are allowed")]
    NameTooLong {
        /// What it names.
        what: &'static str,
        /// How long it is.
        bytes: usize,
        /// How long it may be.
        max: usize,
    },
    /// The store was written by a newer version of this program.
    #[error("{place} has schema version {found}, this program knows versions up to {known}")]
    Newer {
        /// The file or database.
        place: String,
        /// Its version.
        found: u32,
        /// Ours.
        known: u32,
    },
    /// What is stored can't be read.
    #[error("{place} is damaged: {detail}")]
    Damaged {
        /// The file, table or row.
        place: String,
        /// What was found.
        detail: String,
    },
    /// The store can't be reached or used now.
    #[error("{place} is not available: {detail}")]
    Unavailable {
        /// The file or database; never with a password.
        place: String,
        /// What the system said.
        detail: String,
    },
}

impl StoreError {
    /// Returns the error for a thread that is not there.
    pub fn no_thread(thread: &impl ToString) -> Self {
        StoreError::NotFound { what: "thread", id: thread.to_string() }
    }

    /// Returns the error for a document that must be there.
    pub fn no_document(key: &DocumentKey) -> Self {
        StoreError::NotFound { what: "document", id: key.name.clone() }
    }

    /// Returns the error for a document that is there already.
    pub fn document_exists(key: &DocumentKey) -> Self {
        StoreError::Exists { what: "document", id: key.name.clone() }
    }

    /// Returns the stable code of the error.
    pub fn code(&self) -> &'static str {
        match self {
            StoreError::Conflict { .. } => "version_conflict",
            StoreError::Held { .. } => "turn_in_progress",
            StoreError::Fenced { .. } => "lease_lost",
            StoreError::NotFound { .. } => "not_found",
            StoreError::Exists { .. } => "already_exists",
            StoreError::IsMain { .. } => "main_thread",
            StoreError::Malformed { .. } => "append_malformed",
            StoreError::NameTooLong { .. } => "name_too_long",
            StoreError::Newer { .. } => "schema_newer",
            StoreError::Damaged { .. } => "store_damaged",
            StoreError::Unavailable { .. } => "store_unavailable",
        }
    }
}
