//! Errors of a store.

use contexture_history::Seq;
use contexture_message::ErrorCode;

use super::Fence;
use crate::{BaseId, DocumentKey, ThreadKey};

/// An error of a store.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The log does not end where the writer thinks it does.
    #[error("thread `{thread}` ends at {found}, the writer expected {expected}")]
    Conflict {
        /// The thread's id.
        thread: String,
        /// The end that the writer expected.
        expected: Seq,
        /// The actual end.
        found: Seq,
    },
    /// A document does not have the version that the writer has read.
    #[error("document `{document}` has {}, the writer expected {}", version_name(.found), version_name(.expected))]
    Stale {
        /// The document's id.
        document: String,
        /// The version that the writer expected; `None` if it expected no document.
        expected: Option<String>,
        /// The current version; `None` if there is no document.
        found: Option<String>,
    },
    /// Another writer holds the lease.
    #[error("thread `{thread}` is held by another writer")]
    Held {
        /// The thread's id.
        thread: String,
    },
    /// The writer's lease was taken over.
    #[error("the writer's lease {fence} on thread `{thread}` was taken over", fence = .fence.0)]
    Fenced {
        /// The thread's id.
        thread: String,
        /// The number it held.
        fence: Fence,
    },
    /// The session, thread or knowledge base does not exist.
    #[error("there is no {what} `{id}`")]
    NotFound {
        /// `session`, `thread` or `knowledge base`.
        what: &'static str,
        /// The missing or existing id.
        id: String,
    },
    /// There is one with that name already.
    #[error("{what} `{id}` exists already")]
    Exists {
        /// `session`, `thread` or `document`.
        what: &'static str,
        /// The missing or existing id.
        id: String,
    },
    /// A main thread goes with its session only.
    #[error("thread `{thread}` is its session's main thread")]
    IsMain {
        /// The thread's id.
        thread: String,
    },
    /// The items do not continue the log.
    #[error("an append to thread `{thread}` is malformed: {detail}")]
    Malformed {
        /// The thread's id.
        thread: String,
        /// The reason.
        detail: String,
    },
    /// A name that is too long to be a key.
    #[error("a {what} of {bytes} bytes is too long, {max} are allowed")]
    NameTooLong {
        /// What the name is for.
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
        /// The version found.
        found: u32,
        /// The newest version that this program knows.
        known: u32,
    },
    /// Stored data can't be read.
    #[error("{place} is damaged: {detail}")]
    Damaged {
        /// The file, table or row.
        place: String,
        /// The cause.
        detail: String,
    },
    /// The store can't be reached or used now.
    #[error("{place} is not available: {detail}")]
    Unavailable {
        /// The file or database; never with a password.
        place: String,
        /// The system's message.
        detail: String,
    },
}

impl StoreError {
    /// Returns the error for a missing session.
    pub fn no_session(session: &impl ToString) -> Self {
        StoreError::NotFound { what: "session", id: session.to_string() }
    }

    /// Returns the error for a missing thread.
    pub fn no_thread(thread: &impl ToString) -> Self {
        StoreError::NotFound { what: "thread", id: thread.to_string() }
    }

    /// Returns the error for a writer whose lease was taken over.
    pub fn fenced(key: &ThreadKey, fence: Fence) -> Self {
        StoreError::Fenced { thread: key.thread.to_string(), fence }
    }

    /// Returns the error for a writer that expects another end of the log.
    pub fn conflict(key: &ThreadKey, expected: Seq, found: Seq) -> Self {
        StoreError::Conflict { thread: key.thread.to_string(), expected, found }
    }

    /// Returns the error for a main thread that can't be deleted alone.
    pub fn is_main(key: &ThreadKey) -> Self {
        StoreError::IsMain { thread: key.thread.to_string() }
    }

    /// Returns the error for items that can't be written.
    pub fn malformed(key: &ThreadKey, detail: impl ToString) -> Self {
        StoreError::Malformed { thread: key.thread.to_string(), detail: detail.to_string() }
    }

    /// Returns the error for a missing knowledge base.
    pub fn no_base(base: &BaseId) -> Self {
        StoreError::NotFound { what: "knowledge base", id: base.to_string() }
    }

    /// Returns the error for a document that already exists.
    pub fn document_exists(key: &DocumentKey) -> Self {
        StoreError::Exists { what: "document", id: key.name.clone() }
    }

    /// Returns the stable code of the error.
    pub fn code(&self) -> ErrorCode {
        match self {
            StoreError::Conflict { .. } | StoreError::Stale { .. } => ErrorCode::VersionConflict,
            StoreError::Held { .. } => ErrorCode::TurnInProgress,
            StoreError::Fenced { .. } => ErrorCode::LeaseLost,
            StoreError::NotFound { .. } => ErrorCode::NotFound,
            StoreError::Exists { .. } => ErrorCode::AlreadyExists,
            StoreError::IsMain { .. } => ErrorCode::MainThread,
            StoreError::Malformed { .. } => ErrorCode::AppendMalformed,
            StoreError::NameTooLong { .. } => ErrorCode::NameTooLong,
            StoreError::Newer { .. } => ErrorCode::SchemaNewer,
            StoreError::Damaged { .. } => ErrorCode::StoreDamaged,
            StoreError::Unavailable { .. } => ErrorCode::StoreUnavailable,
        }
    }
}

fn version_name(version: &Option<String>) -> String {
    version.as_ref().map_or("no version".to_owned(), |it| format!("version `{it}`"))
}
