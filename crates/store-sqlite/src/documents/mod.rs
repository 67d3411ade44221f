//! Documents, next to the logs.

pub(crate) mod prune;
pub(crate) mod read;
pub(crate) mod write;

/// The session name for data that belongs to no session; real names are never empty.
pub(crate) fn session_name(session: Option<&contexture_session::SessionId>) -> &str {
    session.map_or("", contexture_session::SessionId::as_str)
}
