//! Errors of sessions.

use contexture_history::TurnNo;
use contexture_message::ErrorCode;

use crate::{IdInvalid, StoreError};

/// An error of a session or thread.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SessionError {
    /// The store refused or failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A name can't be a key.
    #[error(transparent)]
    Id(#[from] IdInvalid),
    /// A turn is running on the thread.
    #[error("a turn is running on thread `{thread}`")]
    TurnInProgress {
        /// The thread's id.
        thread: String,
    },
    /// Too many writers wait for the thread.
    #[error("{queue} writers already wait for thread `{thread}`")]
    QueueFull {
        /// The thread's id.
        thread: String,
        /// How many may wait.
        queue: usize,
    },
    /// The turn does not wait for anything.
    #[error("turn {turn} of thread `{thread}` is not suspended")]
    NotSuspended {
        /// The thread's id.
        thread: String,
        /// The turn's number.
        turn: TurnNo,
    },
    /// The turn can't be resumed: the thread has a newer turn or a new history.
    #[error("thread `{thread}` has moved past turn {turn}")]
    TurnSuperseded {
        /// The thread's id.
        thread: String,
        /// The turn's number.
        turn: TurnNo,
    },
    /// The thread has no such turn or position.
    #[error("thread `{thread}` has no {what}")]
    NotInThread {
        /// The thread's id.
        thread: String,
        /// What was requested.
        what: String,
    },
    /// A message that can't be prepended to the history.
    #[error("message {number} can't be prepended to thread `{thread}`: it contains tool calls or results")]
    NotPrependable {
        /// The thread's id.
        thread: String,
        /// The number of the message, from 1.
        number: usize,
    },
    /// Another writer changed the model's view of the thread in the meantime.
    #[error("the archives of thread `{thread}` changed meanwhile")]
    ViewChanged {
        /// The thread's id.
        thread: String,
    },
    /// An exported session can't be read.
    #[error("line {line}: {detail}")]
    Import {
        /// The line number, from 1.
        line: usize,
        /// The cause.
        detail: String,
    },
}

impl SessionError {
    /// Returns the stable code of the error.
    pub fn code(&self) -> ErrorCode {
        match self {
            SessionError::Store(err) => err.code(),
            SessionError::Id(_) => ErrorCode::IdInvalid,
            SessionError::TurnInProgress { .. } => ErrorCode::TurnInProgress,
            SessionError::QueueFull { .. } => ErrorCode::QueueFull,
            SessionError::NotSuspended { .. } => ErrorCode::TurnNotSuspended,
            SessionError::TurnSuperseded { .. } => ErrorCode::TurnSuperseded,
            SessionError::NotInThread { .. } => ErrorCode::NotFound,
            SessionError::NotPrependable { .. } => ErrorCode::MessageNotPrependable,
            SessionError::ViewChanged { .. } => ErrorCode::VersionConflict,
            SessionError::Import { .. } => ErrorCode::ImportInvalid,
        }
    }
}
