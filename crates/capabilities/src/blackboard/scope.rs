//! Whose board it is, and where its log is.

use contexture_compose::Scope;
use contexture_session::{SessionId, SessionKey, Tenant, ThreadId};
use serde::{Deserialize, Serialize};

use super::error::BoardError;

/// How long a name in the key of a board may be, in bytes.
const MAX_NAME_BYTES: usize = 150;

/// Who shares a board.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum BoardScope {
    /// Each thread has its own.
    Thread,
    /// All threads and runs of a session share one.
    #[default]
    Session,
    /// All sessions of a user share one.
    User,
    /// All sessions of the tenant share one.
    Tenant,
}

/// Whose turn or request it is, as far as boards are concerned.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BoardOwner {
    /// The tenant.
    pub tenant: Tenant,
    /// The thread; without it the main thread of the session.
    pub thread: Option<ThreadId>,
    /// The session; without it that of the thread.
    pub session: Option<SessionId>,
    /// The user.
    pub user: Option<String>,
}

impl BoardOwner {
    /// Returns the owner of the boards of a call.
    pub fn of(scope: &Scope) -> Result<Self, BoardError> {
        let invalid = |err: contexture_session::IdInvalid| BoardError::InvalidKey(err.to_string());
        let parse = |it: &String| Tenant::parse(it.as_str()).map_err(invalid);
        Ok(Self {
            tenant: scope.tenant.as_ref().map(parse).transpose()?.unwrap_or_default(),
            thread: scope.thread.as_deref().map(ThreadId::parse).transpose().map_err(invalid)?,
            session: scope.session.as_deref().map(SessionId::parse).transpose().map_err(invalid)?,
            user: scope.user.clone(),
        })
    }

    fn session(&self) -> Result<SessionId, BoardError> {
        let session = self.session.clone().or_else(|| Some(self.thread.as_ref()?.session()));
        session.ok_or(BoardError::Unavailable("the call has no session, and the board belongs to one"))
    }
}

/// Where the log of a board is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct BoardKey {
    pub(crate) session: SessionKey,
    /// The name of the journal.
    pub(crate) name: String,
}

impl BoardKey {
    /// Returns where a board with that id is. `/` separates the parts, and no id has one.
    pub(crate) fn new(id: &str, scope: BoardScope, owner: &BoardOwner) -> Result<Self, BoardError> {
        let (session, name) = match scope {
            BoardScope::Thread => {
                let own = owner.thread.as_ref().map_or("", ThreadId::own_name);
                (owner.session()?, format!("board/{id}/thread/{}", part("thread", own)?))
            }
            BoardScope::Session => (owner.session()?, format!("board/{id}")),
            BoardScope::User => {
                let user = owner.user.as_deref().filter(|it| !it.is_empty());
                let user = user
                    .ok_or(BoardError::Unavailable("the call has no user, and the board belongs to one"))?;
                (SessionId::boards(), format!("board/{id}/user/{}", part("user", user)?))
            }
            BoardScope::Tenant => (SessionId::boards(), format!("board/{id}/tenant")),
        };
        Ok(Self { session: SessionKey { tenant: owner.tenant.clone(), session }, name })
    }

    /// Whether its session exists for the sake of boards only.
    pub(crate) fn is_apart(&self) -> bool {
        self.session.session.is_reserved()
    }
}

fn part<'a>(what: &str, name: &'a str) -> Result<&'a str, BoardError> {
    match name.len() > MAX_NAME_BYTES || name.chars().any(char::is_control) {
        true => Err(BoardError::InvalidKey(format!(
            "a {what} with a board has a name of at most {MAX_NAME_BYTES} bytes without control characters"
        ))),
        false => Ok(name),
    }
}
