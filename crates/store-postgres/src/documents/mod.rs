//! Documents, next to the logs.

pub(crate) mod prune;
pub(crate) mod read;
pub(crate) mod write;

use contexture_session::SessionId;

use crate::failure::Failure;

/// The session name for data that belongs to no session; real names are never empty.
fn session_name(session: Option<&SessionId>) -> &str {
    session.map_or("", SessionId::as_str)
}

/// Returns a stored text.
fn text(bytes: Vec<u8>) -> Result<String, Failure> {
    String::from_utf8(bytes).map_err(|err| Failure::Damaged(format!("a text of a document: {err}")))
}
