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
    /// An artifact can't be written.
    #[error(transparent)]
    Artifact(#[from] ArtifactError),
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
    /// The idempotency key was used for something else: one that began a turn adds no items, and one that added items
    /// begins no turn.
    #[error("the idempotency key `{key}` was used for another request on thread `{thread}`")]
    KeyUsed {
        /// The thread's id.
        thread: String,
        /// The key.
        key: String,
    },
    /// The turn does not wait for anything.
    #[error("turn {turn} of thread `{thread}` is not suspended")]
    NotSuspended {
        /// The thread's id.
        thread: String,
        /// The turn's number.
        turn: TurnNo,
    },
    /// The turn can't be resumed or continued from: the thread has a newer turn or a new history.
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
            SessionError::Artifact(ArtifactError::Stale { .. }) => ErrorCode::VersionConflict,
            SessionError::Artifact(ArtifactError::Missing { .. }) => ErrorCode::NotFound,
            SessionError::Artifact(ArtifactError::TooMuch { .. }) => ErrorCode::InputInvalid,
            SessionError::TurnInProgress { .. } => ErrorCode::TurnInProgress,
            SessionError::QueueFull { .. } => ErrorCode::QueueFull,
            SessionError::KeyUsed { .. } => ErrorCode::IdempotencyKeyUsed,
            SessionError::NotSuspended { .. } => ErrorCode::TurnNotSuspended,
            SessionError::TurnSuperseded { .. } => ErrorCode::TurnSuperseded,
            SessionError::NotInThread { .. } => ErrorCode::NotFound,
            SessionError::NotPrependable { .. } => ErrorCode::MessageNotPrependable,
            SessionError::ViewChanged { .. } => ErrorCode::VersionConflict,
            SessionError::Import { .. } => ErrorCode::ImportInvalid,
        }
    }

    /// Whether the store can't be reached.
    pub fn is_outage(&self) -> bool {
        matches!(self, SessionError::Store(StoreError::Unavailable { .. }))
    }
}

/// Why an artifact can't be written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ArtifactError {
    /// There is another version than the writer expects.
    #[error("artifact `{name}` has version {found}, not {expected}")]
    Stale {
        /// Its name.
        name: String,
        /// The version that the writer expects.
        expected: u64,
        /// The version that there is; 0 if there is none.
        found: u64,
    },
    /// There is no such artifact.
    #[error("there is no artifact `{name}`")]
    Missing {
        /// Its name.
        name: String,
    },
    /// A field is too long, or there are too many artifacts.
    #[error("{what}: {found} of at most {max}")]
    TooMuch {
        /// What there is too much of.
        what: &'static str,
        /// How much.
        found: usize,
        /// The limit.
        max: usize,
    },
}
