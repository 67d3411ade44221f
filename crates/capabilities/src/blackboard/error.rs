//! Errors of blackboards.

use contexture_message::ErrorCode;
use contexture_session::StoreError;
use serde_json::Value;

/// An error of a blackboard.
#[derive(Debug, thiserror::Error)]
pub enum BoardError {
    /// The definition of a board can't be used.
    #[error("blackboard `{id}`: {reason}")]
    Definition {
        /// The id of the board.
        id: String,
        /// The rule it breaks.
        reason: String,
    },
    /// A text is not a JSON Pointer.
    #[error("invalid path `{path}`: {why}")]
    InvalidPath {
        /// The beginning of the text.
        path: String,
        /// The rule it breaks.
        why: &'static str,
    },
    /// There is nothing at a path, or nothing can be there.
    #[error("there is no `{path}`")]
    NoSuchPath {
        /// The path.
        path: String,
    },
    /// The path was written since the writer read it.
    #[error(
        "`{path}` was changed: its version is {version}, the write expected {expected}; its value is {value}"
    )]
    Stale {
        /// The path.
        path: String,
        /// What the write expected: a version, or `nothing there`.
        expected: String,
        /// The version of the path now.
        version: u64,
        /// The value at the path now; null if there is none. It is boxed because errors are returned everywhere.
        value: Box<Value>,
    },
    /// A `test` of a patch does not hold.
    #[error("the test of `{path}` does not hold: its value is {value}")]
    TestFailed {
        /// The path.
        path: String,
        /// The value at the path now; null if there is none.
        value: Value,
    },
    /// The result would not fit the schema of the board.
    #[error("the write does not fit the schema: {}", .faults.join("; "))]
    Schema {
        /// Each fault with its path.
        faults: Vec<String>,
    },
    /// The merge rule of a field can't take a value.
    #[error("`{path}` has the rule `{rule}`: {reason}")]
    Merge {
        /// The path.
        path: String,
        /// The rule.
        rule: &'static str,
        /// Why it can't.
        reason: &'static str,
    },
    /// The board would become too large.
    #[error("the board would have {bytes} bytes, the limit is {max}")]
    TooLarge {
        /// How large it would be.
        bytes: usize,
        /// How large it may be.
        max: usize,
    },
    /// No board has this id.
    #[error("there is no blackboard `{id}`")]
    Unknown {
        /// The id.
        id: String,
    },
    /// There is no board here: the turn has no user, or the program has no store.
    #[error("{0}")]
    Unavailable(&'static str),
    /// A name can't be part of the key of a board.
    #[error("{0}")]
    InvalidKey(String),
    /// What is stored of a board can't be read, or does not fit together.
    #[error("{place} is damaged: {detail}")]
    Damaged {
        /// The board and its record.
        place: String,
        /// The cause.
        detail: String,
    },
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl BoardError {
    /// Returns the stable code of the error.
    pub fn code(&self) -> ErrorCode {
        match self {
            BoardError::Definition { .. } => ErrorCode::DefinitionInvalid,
            BoardError::InvalidPath { .. } => ErrorCode::PathInvalid,
            BoardError::InvalidKey(_) => ErrorCode::IdInvalid,
            BoardError::Schema { .. } | BoardError::Merge { .. } | BoardError::TooLarge { .. } => {
                ErrorCode::InputInvalid
            }
            BoardError::NoSuchPath { .. } | BoardError::Unknown { .. } | BoardError::Unavailable(_) => {
                ErrorCode::NotFound
            }
            BoardError::Stale { .. } | BoardError::TestFailed { .. } => ErrorCode::VersionConflict,
            BoardError::Damaged { .. } => ErrorCode::StoreDamaged,
            BoardError::Store(err) => err.code(),
        }
    }
}
