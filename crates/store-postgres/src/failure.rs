//! Database errors, and whether a retry makes sense.

use std::error::Error as _;
use std::io;

use contexture_session::{IdInvalid, StoreError, codec};
use deadpool_postgres::{HookError, PoolError, TimeoutType};
use tokio_postgres::error::SqlState;

/// Why one attempt failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// An answer: trying again changes nothing.
    #[error(transparent)]
    Answer(#[from] StoreError),
    /// The database refused, or the connection broke.
    #[error(transparent)]
    Database(#[from] tokio_postgres::Error),
    /// No connection could be made; nothing was sent.
    #[error(transparent)]
    Unreached(tokio_postgres::Error),
    /// A connection took too long to be made.
    #[error("a connection took too long")]
    Slow,
    /// All connections were in use for too long.
    #[error("all connections are in use")]
    Busy,
    /// The pool is closed or misconfigured.
    #[error("{0}")]
    Pool(String),
    /// Something changed between two looks at it.
    #[error("the thread keeps changing")]
    Raced,
    /// It may have been done, and can't be tried again.
    #[error(transparent)]
    OutcomeUnknown(tokio_postgres::Error),
    /// Stored data can't be read.
    #[error("{0}")]
    Damaged(String),
}

/// Returns the error for a database that has no name for messages yet.
pub(crate) fn unavailable(detail: impl ToString) -> StoreError {
    StoreError::Unavailable { place: "the database".to_owned(), detail: detail.to_string() }
}

impl From<PoolError> for Failure {
    fn from(err: PoolError) -> Failure {
        match err {
            PoolError::Backend(err) | PoolError::PostCreateHook(HookError::Backend(err)) => {
                Failure::Unreached(err)
            }
            PoolError::Timeout(TimeoutType::Wait) => Failure::Busy,
            PoolError::Timeout(TimeoutType::Create | TimeoutType::Recycle) => Failure::Slow,
            other => Failure::Pool(other.to_string()),
        }
    }
}

impl From<IdInvalid> for Failure {
    fn from(err: IdInvalid) -> Failure {
        Failure::Damaged(err.to_string())
    }
}

/// How to react to a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Remedy {
    /// Try again: nothing was done.
    Retry,
    /// Try again, but it may have been done: the connection broke before the answer.
    RetryAfterLoss,
    /// Do not retry.
    None,
}

impl Failure {
    pub(crate) fn damaged_row(first: i64, why: &codec::RowDamaged) -> Failure {
        Failure::Damaged(format!("the row of item {first}: {why}"))
    }

    /// Marks a failure as final if the outcome of the operation is unknown.
    pub(crate) fn or_outcome_unknown(self) -> Failure {
        match self {
            Failure::Database(err) if of_error(&err) == Remedy::RetryAfterLoss => {
                Failure::OutcomeUnknown(err)
            }
            other => other,
        }
    }

    /// Whether this is the violation of a primary key.
    pub(crate) fn is_duplicate(&self) -> bool {
        matches!(self, Failure::Database(err) if err.code() == Some(&SqlState::UNIQUE_VIOLATION))
    }

    pub(crate) fn remedy(&self) -> Remedy {
        match self {
            Failure::Answer(_)
            | Failure::Damaged(_)
            | Failure::Busy
            | Failure::Pool(_)
            | Failure::OutcomeUnknown(_) => Remedy::None,
            Failure::Raced | Failure::Slow => Remedy::Retry,
            Failure::Unreached(err) if of_error(err) == Remedy::None => Remedy::None,
            Failure::Unreached(_) => Remedy::Retry,
            Failure::Database(err) => of_error(err),
        }
    }

    /// Whether the server is reachable but not ready yet; the first connection waits for that.
    pub(crate) fn is_starting(&self) -> bool {
        let starting = [SqlState::CANNOT_CONNECT_NOW, SqlState::TOO_MANY_CONNECTIONS];
        matches!(self, Failure::Unreached(err) if err.code().is_some_and(|it| starting.contains(it)))
    }

    pub(crate) fn into_store_error(self, place: &str) -> StoreError {
        let place = place.to_owned();
        match self {
            Failure::Answer(err) => err,
            Failure::Damaged(detail) => StoreError::Damaged { place, detail },
            Failure::Database(err) if err.code().is_some_and(|it| it.code().starts_with("XX")) => {
                StoreError::Damaged { place, detail: describe(&err) }
            }
            Failure::Database(err) | Failure::Unreached(err) | Failure::OutcomeUnknown(err) => {
                StoreError::Unavailable { place, detail: describe(&err) }
            }
            other => StoreError::Unavailable { place, detail: other.to_string() },
        }
    }
}

fn of_error(err: &tokio_postgres::Error) -> Remedy {
    let Some(code) = err.code() else {
        let is_lost = err.is_closed() || err.source().is_some_and(|it| it.is::<io::Error>());
        return if is_lost { Remedy::RetryAfterLoss } else { Remedy::None };
    };
    let refused = [
        SqlState::T_R_SERIALIZATION_FAILURE,
        SqlState::T_R_DEADLOCK_DETECTED,
        SqlState::CANNOT_CONNECT_NOW,
        SqlState::TOO_MANY_CONNECTIONS,
    ];
    let lost = [
        SqlState::ADMIN_SHUTDOWN,
        SqlState::CRASH_SHUTDOWN,
        SqlState::IDLE_SESSION_TIMEOUT,
        SqlState::T_R_STATEMENT_COMPLETION_UNKNOWN,
    ];
    if refused.contains(code) {
        Remedy::Retry
    } else if lost.contains(code) || code.code().starts_with("08") {
        Remedy::RetryAfterLoss
    } else {
        Remedy::None
    }
}

/// Returns the database's message, without the values it may have quoted.
pub(crate) fn describe(err: &tokio_postgres::Error) -> String {
    match (err.as_db_error(), err.source()) {
        (Some(said), _) => format!("{} ({})", said.message(), said.code().code()),
        (None, Some(source)) => format!("{err}: {source}"),
        (None, None) => err.to_string(),
    }
}
