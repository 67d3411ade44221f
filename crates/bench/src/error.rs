//! What can be wrong with a call.

use std::path::PathBuf;

/// Why a job can't run.
#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    /// No job has this name.
    #[error("unknown job `{name}`; the jobs are {known}")]
    UnknownJob {
        /// What was asked for.
        name: String,
        /// What there is.
        known: String,
    },
    /// Nobody said where the data is.
    #[error("`PEERS_DATA` is not set; it names the folder with the data")]
    NoData,
    /// A file is not there.
    #[error("{path} can't be read: {source}")]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// A file holds something else.
    #[error("{path} is not what the job needs: {source}")]
    Undecodable {
        /// The file.
        path: PathBuf,
        /// Where and what.
        source: serde_json::Error,
    },
}
