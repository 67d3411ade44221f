//! Errors of the benchmarks.

use std::path::PathBuf;

/// An error that keeps a job from running.
#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    /// No job has this name.
    #[error("unknown job `{name}`; the jobs are {known}")]
    UnknownJob {
        /// The requested name.
        name: String,
        /// The known names.
        known: String,
    },
    /// The folder with the data is not configured.
    #[error("`PEERS_DATA` is not set; it names the folder with the data")]
    NoData,
    /// A file can't be read.
    #[error("{path} can't be read: {source}")]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// A file does not have the expected content.
    #[error("{path} is not what the job needs: {source}")]
    Undecodable {
        /// The file.
        path: PathBuf,
        /// The parse error.
        source: serde_json::Error,
    },
}
