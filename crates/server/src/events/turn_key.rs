//! The key of a turn, and of the documents about it.

use contexture_session::records::DocumentKey;
use contexture_session::{SessionKey, ThreadId};
use serde::{Deserialize, Serialize};

/// The kind of the documents that mark running turns. An instance that finds one with a lost writer ends its turn.
pub(crate) const RUNNING: &str = "running";

/// The key of a turn, known once it has begun.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct TurnKey {
    pub(crate) thread: ThreadId,
    pub(crate) turn: String,
}

/// Returns the key of a document about a turn.
pub(crate) fn key_of(session: &SessionKey, kind: &str, turn_key: &TurnKey) -> DocumentKey {
    let name = format!("{}:{}", turn_key.thread, turn_key.turn);
    DocumentKey::of_session(&session.tenant, &session.session, kind, name)
}

/// Returns the session and the turn that a document is about.
pub(crate) fn turn_of(key: &DocumentKey) -> Option<(SessionKey, TurnKey)> {
    let (thread, turn) = key.name.rsplit_once(':')?;
    let session = SessionKey { tenant: key.tenant.clone(), session: key.session.clone()? };
    Some((session, TurnKey { thread: ThreadId::parse(thread).ok()?, turn: turn.to_owned() }))
}
