//! Why something could not be done with a run.

use contexture_session::{IdInvalid, SessionError, StoreError};

use super::event::RunStatus;

/// Why something could not be done with a run.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// There is no such run.
    #[error("there is no run `{run}`")]
    NotFound {
        /// The run.
        run: String,
    },
    /// Nothing of that id waits in the run.
    #[error("run `{run}` has no wait `{wait}`")]
    NoSuchWait {
        /// The run.
        run: String,
        /// The wait.
        wait: String,
    },
    /// It was answered before.
    #[error("wait `{wait}` of run `{run}` was answered before")]
    Answered {
        /// The run.
        run: String,
        /// The wait.
        wait: String,
    },
    /// The answer does not fit what was asked.
    #[error("the answer to wait `{wait}` does not fit: {why}")]
    AnswerInvalid {
        /// The wait.
        wait: String,
        /// What is wrong with it.
        why: String,
    },
    /// What a run is given does not fit the flow.
    #[error("input of flow `{flow}`: {why}")]
    InputInvalid {
        /// The flow.
        flow: String,
        /// What is wrong with it.
        why: String,
    },
    /// The run had already ended.
    #[error("run `{run}` is over: {}", .status.as_str())]
    Over {
        /// The run.
        run: String,
        /// The final status.
        status: RunStatus,
    },
    /// Another driver has the run, in this or another process.
    #[error("run `{run}` has another driver")]
    Driven {
        /// The run.
        run: String,
    },
    /// The flow of the run can't be made again.
    #[error("run `{run}` was begun with another version of flow `{flow}`: {why}")]
    FlowChanged {
        /// The run.
        run: String,
        /// The flow.
        flow: String,
        /// What is in the way.
        why: String,
    },
    /// What is on record of the run can't be read.
    #[error("cannot read run `{run}`: {detail}")]
    Damaged {
        /// The run.
        run: String,
        /// What was found.
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
    /// Returns the stable code of the error.
    pub fn code(&self) -> &'static str {
        match self {
            RunError::NotFound { .. } | RunError::NoSuchWait { .. } => "not_found",
            RunError::Answered { .. } => "wait_answered",
            RunError::AnswerInvalid { .. } => "answer_invalid",
            RunError::InputInvalid { .. } => "input_invalid",
            RunError::Over { .. } => "run_over",
            RunError::Driven { .. } => "run_driven",
            RunError::FlowChanged { .. } => "flow_changed",
            RunError::Damaged { .. } => "store_damaged",
            RunError::Id(_) => "id_invalid",
            RunError::Session(err) => err.code(),
            RunError::Store(err) => err.code(),
        }
    }
}
