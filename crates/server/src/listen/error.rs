//! Errors of listening.

use contexture_message::ErrorCode;
use contexture_session::StoreError;

/// Errors of listening.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// The address is invalid.
    #[error("`server.listen`: invalid address `{address}`: {why}")]
    Address {
        /// The configured address.
        address: String,
        /// The reason.
        why: String,
    },
    /// The address can't be had.
    #[error("cannot listen on `{address}`: {source}")]
    Bind {
        /// The configured address.
        address: String,
        /// The system's error.
        source: std::io::Error,
    },
    /// No threads can be started.
    #[error("cannot start the threads that serve connections: {source}")]
    Threads {
        /// The system's error.
        source: std::io::Error,
    },
    /// The server would be open to everyone.
    #[error("`{address}` can be reached from other machines, and there is no API key")]
    NoKeys {
        /// The configured address.
        address: String,
    },
    /// TLS needs both files.
    #[error("`server.{given}` is set, and `server.{missing}` is not")]
    HalfTls {
        /// The key that is set.
        given: &'static str,
        /// The key that is not.
        missing: &'static str,
    },
    /// A file of TLS can't be used.
    #[error("`server.{key}`: cannot use `{path}`: {why}")]
    TlsFile {
        /// The key of the configuration.
        key: &'static str,
        /// The path of the file.
        path: String,
        /// The reason.
        why: String,
    },
    /// Whether there are keys can't be found out.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl ListenError {
    /// Returns the stable code.
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::Address { .. } | Self::HalfTls { .. } | Self::TlsFile { .. } => {
                ErrorCode::ServerConfigInvalid
            }
            Self::Bind { .. } => ErrorCode::ListenFailed,
            Self::Threads { .. } => ErrorCode::RuntimeFailed,
            Self::NoKeys { .. } => ErrorCode::KeysMissing,
            Self::Store(StoreError::Damaged { .. }) => ErrorCode::StoreDamaged,
            Self::Store(_) => ErrorCode::StoreUnavailable,
        }
    }

    /// Returns a hint on how to fix it.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Address { .. } => Some("write an address and a port, such as `127.0.0.1:4747`"),
            Self::Bind { .. } => Some("`--listen ADDRESS:PORT` names another one; port 0 is any free one"),
            Self::NoKeys { .. } => {
                Some("`contexture keys create` makes one; or listen on this machine only: 127.0.0.1")
            }
            Self::HalfTls { .. } => Some("TLS needs both: the certificate and its key"),
            Self::TlsFile { .. } => Some("both files are PEM"),
            Self::Threads { .. } | Self::Store(_) => None,
        }
    }
}
