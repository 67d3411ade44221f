//! What can go wrong with a session.

use contexture_history::TurnNo;

use crate::{IdInvalid, StoreError};

/// Why a session did not do what it was asked for.
#[derive(Debug, thiserror::Error)]
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
        /// The thread.
        thread: String,
    },
    /// Too many writers wait for the thread.
    #[error("{queue} writers wait for thread `{thread}` already")]
    QueueFull {
        /// The thread.
        thread: String,
        /// How many may wait.
        queue: usize,
    },
    /// The turn does not wait for anything.
    #[error("turn {turn} of thread `{thread}` is not suspended")]
    NotSuspended {
        /// The thread.
        thread: String,
        /// The turn.
        turn: TurnNo,
    },
    /// The turn can't go on: the thread went on without it, with another turn or a new history.
    #[error("thread `{thread}` went on without turn {turn}")]
    TurnSuperseded {
        /// The thread.
        thread: String,
        /// The turn.
        turn: TurnNo,
    },
    /// The thread has no such turn or position.
    #[error("thread `{thread}` has no {what}")]
    NotInThread {
        /// The thread.
        thread: String,
        /// What was asked for.
        what: String,
    },
    /// A message that can't stand before the history.
    #[error(
        "message {number} can't be put before thread `{thread}`: tool calls and results stay where they were made"
    )]
    NotPrependable {
        /// The thread.
        thread: String,
        /// Which message, from 1.
        number: usize,
    },
    /// What the model reads of the thread was changed by someone else meanwhile.
    #[error("the archives of thread `{thread}` changed meanwhile")]
    ViewChanged {
        /// The thread.
        thread: String,
    },
    /// An exported session can't be read.
    #[error("line {line}: {detail}")]
    Import {
        /// Where.
        line: usize,
        /// What is wrong.
        detail: String,
    },
}

impl SessionError {
    /// Returns the stable code of the error.
    pub fn code(&self) -> &'static str {
        match self {
            SessionError::Store(err) => err.code(),
            SessionError::Id(_) => "id_invalid",
            SessionError::TurnInProgress { .. } => "turn_in_progress",
            SessionError::QueueFull { .. } => "queue_full",
            SessionError::NotSuspended { .. } => "turn_not_suspended",
            SessionError::TurnSuperseded { .. } => "turn_superseded",
            SessionError::NotInThread { .. } => "not_found",
            SessionError::NotPrependable { .. } => "message_not_prependable",
            SessionError::ViewChanged { .. } => "version_conflict",
            SessionError::Import { .. } => "import_invalid",
        }
    }
}
