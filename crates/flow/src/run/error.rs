//! Errors of runs.

use contexture_message::ErrorCode;
use contexture_session::{IdInvalid, SessionError, StoreError};

use crate::{RunId, RunStatus};

/// Errors of runs.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The run does not exist.
    #[error("there is no run `{run}`")]
    NotFound {
        /// The run's id.
        run: String,
    },
    /// Nothing of that id waits in the run.
    #[error("run `{run}` has no wait `{wait}`")]
    NoSuchWait {
        /// The run's id.
        run: String,
        /// The wait's id.
        wait: String,
    },
    /// It was answered before.
    #[error("wait `{wait}` of run `{run}` was answered before")]
    Answered {
        /// The run's id.
        run: String,
        /// The wait's id.
        wait: String,
    },
    /// The answer does not fit the question.
    #[error("the answer to wait `{wait}` does not fit: {why}")]
    AnswerInvalid {
        /// The wait's id.
        wait: String,
        /// The reason.
        why: String,
    },
    /// The input does not fit the flow.
    #[error("input of flow `{flow}`: {why}")]
    InputInvalid {
        /// The flow's id.
        flow: String,
        /// The reason.
        why: String,
    },
    /// The run had already ended.
    #[error("run `{run}` is over: {}", .status.as_str())]
    Over {
        /// The run's id.
        run: String,
        /// The final status.
        status: RunStatus,
    },
    /// Another driver has the run, in this or another process.
    #[error("run `{run}` has another driver")]
    Driven {
        /// The run's id.
        run: String,
    },
    /// The flow of the run can't be made again.
    #[error("run `{run}` was begun with another version of flow `{flow}`: {why}")]
    FlowChanged {
        /// The run's id.
        run: String,
        /// The flow's id.
        flow: String,
        /// The reason.
        why: String,
    },
    /// The record of the run can't be read.
    #[error("cannot read run `{run}`: {detail}")]
    Damaged {
        /// The run's id.
        run: String,
        /// The cause.
        detail: String,
    },
    /// A name that can't be one.
    #[error(transparent)]
    Id(#[from] IdInvalid),
    /// The session can't be read or written.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// The store can't be read or written.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl RunError {
    /// Returns what an error of the store means for a run.
    pub(crate) fn of(run: &RunId, err: StoreError) -> Self {
        let run = run.to_string();
        match err {
            StoreError::NotFound { what: "thread", .. } => RunError::NotFound { run },
            StoreError::Held { .. } | StoreError::Fenced { .. } => RunError::Driven { run },
            err => RunError::Store(err),
        }
    }

    /// Returns the stable code of the error.
    pub fn code(&self) -> ErrorCode {
        match self {
            RunError::NotFound { .. } | RunError::NoSuchWait { .. } => ErrorCode::NotFound,
            RunError::Answered { .. } => ErrorCode::WaitAnswered,
            RunError::AnswerInvalid { .. } => ErrorCode::AnswerInvalid,
            RunError::InputInvalid { .. } => ErrorCode::InputInvalid,
            RunError::Over { .. } => ErrorCode::RunOver,
            RunError::Driven { .. } => ErrorCode::RunDriven,
            RunError::FlowChanged { .. } => ErrorCode::FlowChanged,
            RunError::Damaged { .. } => ErrorCode::StoreDamaged,
            RunError::Id(_) => ErrorCode::IdInvalid,
            RunError::Session(err) => err.code(),
            RunError::Store(err) => err.code(),
        }
    }
}
