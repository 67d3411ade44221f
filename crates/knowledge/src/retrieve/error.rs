//! Why a retriever found nothing it could return.

use std::time::Duration;

use contexture_session::StoreError;

/// Why a retrieval failed.
#[derive(Debug, thiserror::Error)]
pub enum RetrieveError {
    /// The store failed, or there is no such base.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The engine can't be reached.
    #[error("the engine of base `{base}` can't be reached: {detail}")]
    Unreachable {
        /// The base.
        base: String,
        /// The reason; without the address, which may have secrets in it.
        detail: String,
    },
    /// The engine did not answer in time.
    #[error("the engine of base `{base}` did not answer within {} ms", .after.as_millis())]
    TimedOut {
        /// The base.
        base: String,
        /// How long it had.
        after: Duration,
    },
    /// The engine refused.
    #[error("the engine of base `{base}` answered with status {status}")]
    Status {
        /// The base.
        base: String,
        /// The HTTP status.
        status: u16,
    },
    /// The engine sent the call elsewhere, and calls stay where they were sent.
    #[error("the engine of base `{base}` redirected with status {status}; redirects are not followed")]
    Redirected {
        /// The base.
        base: String,
        /// The HTTP status.
        status: u16,
    },
    /// The answer is not what the configuration says.
    #[error("the answer of the engine of base `{base}` is not as configured: {detail}")]
    Malformed {
        /// The base.
        base: String,
        /// What is wrong.
        detail: String,
    },
    /// The request can't be made of its template.
    #[error("the request template of base `{base}` is invalid: {detail}")]
    Template {
        /// The base.
        base: String,
        /// What is wrong.
        detail: String,
    },
    /// A step of a pipeline failed.
    #[error("step `{step}` failed: {detail}")]
    Step {
        /// The kind of step.
        step: &'static str,
        /// The reason.
        detail: String,
    },
}
