//! Names of tenants, sessions and threads, and the keys made of them.
//!
//! They come from outside, so they are checked once, here: not empty, at most 200 bytes (of a thread 300), no control
//! characters. A `/` parts a session's name from that of an isolated thread, so a session's own name has none. They
//! are keys of a database and never file names.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// How long a name may be, in bytes.
pub const MAX_ID_BYTES: usize = 200;
/// The session of what belongs to a tenant and to no conversation of it.
const BOARDS: &str = "~boards";

/// A name that can't be a key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid {what} `{shown}`: {why}")]
pub struct IdInvalid {
    /// The kind of name.
    pub what: &'static str,
    /// The name, cut short and without control characters.
    pub shown: String,
    /// The rule it breaks.
    pub why: Cow<'static, str>,
}

impl IdInvalid {
    /// Says that a text breaks a rule for a kind of name.
    pub fn new(what: &'static str, text: &str, why: impl Into<Cow<'static, str>>) -> Self {
        let shown = text.chars().filter(|it| !it.is_control()).take(40).collect();
        Self { what, shown, why: why.into() }
    }
}

/// Checks a key that comes from outside.
pub(crate) fn check(what: &'static str, text: &str) -> Result<(), IdInvalid> {
    check_within(what, text, MAX_ID_BYTES, |_| None)
}

fn check_within(
    what: &'static str,
    text: &str,
    max: usize,
    broken_rule: impl Fn(&str) -> Option<&'static str>,
) -> Result<(), IdInvalid> {
    let why = match text {
        "" => Some("it is empty".into()),
        _ if text.len() > max => Some(Cow::from(format!("it is longer than {max} bytes"))),
        _ if text.chars().any(char::is_control) => Some("it has control characters".into()),
        _ => broken_rule(text).map(Cow::from),
    };
    why.map_or(Ok(()), |why| Err(IdInvalid::new(what, text, why)))
}

/// A session and another session's thread never have one name.
fn session_rule(text: &str) -> Option<&'static str> {
    text.contains('/').then_some("it has a `/`")
}

fn base_rule(text: &str) -> Option<&'static str> {
    let is_allowed = |it: char| it.is_alphanumeric() || matches!(it, '-' | '_' | '.');
    let is_broken = !text.chars().all(is_allowed) || text.starts_with('.');
    is_broken.then_some("only letters, digits, `-`, `_` and `.` are allowed, and it must not begin with `.`")
}

macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident: $what:literal, $max:expr, $rule:expr;)+) => {$(
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, schemars::JsonSchema)]
        #[serde(try_from = "String", into = "String")]
        #[schemars(inline)]
        pub struct $name(Arc<str>);

        impl $name {
            /// Returns the id, if it can be one.
            pub fn parse(text: impl Into<Arc<str>>) -> Result<Self, IdInvalid> {
                let text = text.into();
                check_within($what, &text, $max, $rule)?;
                Ok(Self(text))
            }

            /// Returns the id as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl TryFrom<String> for $name {
            type Error = IdInvalid;

            fn try_from(text: String) -> Result<Self, IdInvalid> {
                Self::parse(text)
            }
        }

        impl From<$name> for String {
            fn from(id: $name) -> String {
                id.0.as_ref().to_owned()
            }
        }
    )+};
}

ids! {
    /// The owner of sessions. One tenant never sees data of another.
    Tenant: "tenant", MAX_ID_BYTES, |_| None;
    /// The name of a session within its tenant.
    SessionId: "session id", MAX_ID_BYTES, session_rule;
    /// The name of a thread within its tenant. A session's main thread has the session's own name.
    ThreadId: "thread id", 300, |_| None;
    /// The name of a knowledge base within its tenant: letters, digits, `-`, `_` and `.`, so that it can stand in a
    /// citation.
    BaseId: "knowledge base", 64, base_rule;
    /// The name of a document within its knowledge base, such as its path in a folder or its URL.
    SourceId: "document id", 1_000, |_| None;
}

/// The key of a knowledge base.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BaseKey {
    /// The owner.
    pub tenant: Tenant,
    /// The name of the base.
    pub base: BaseId,
}

impl BaseId {
    /// Whether the name is one of the engine's own, such as that of a memory. Lists of knowledge bases leave such bases
    /// out, and no document is added to them from outside.
    pub fn is_reserved(&self) -> bool {
        self.0.starts_with("__")
    }
}

impl Default for Tenant {
    fn default() -> Self {
        Self(Arc::from("default"))
    }
}

impl SessionId {
    /// Returns the name of the session whose journals are the blackboards of users and of the tenant.
    pub fn boards() -> Self {
        Self(Arc::from(BOARDS))
    }

    /// Whether it is a session of the engine's own. [`Sessions`](crate::Sessions) neither lists nor opens it.
    pub fn is_reserved(&self) -> bool {
        &*self.0 == BOARDS
    }

    /// Returns the name of the session's main thread.
    pub fn main(&self) -> ThreadId {
        ThreadId(Arc::clone(&self.0))
    }

    /// Returns the name of the log of one of its runs. No thread has such a name.
    pub fn run(&self, name: &str) -> ThreadId {
        ThreadId(format!("{self}//{name}").into())
    }

    /// Returns the name of one of its journals. Neither a thread nor a run has such a name.
    pub fn journal(&self, name: &str) -> ThreadId {
        ThreadId(format!("{self}///{name}").into())
    }
}

impl ThreadId {
    /// Returns the session that the thread belongs to.
    pub fn session(&self) -> SessionId {
        let name = self.0.split_once('/').map_or(&*self.0, |(session, _)| session);
        SessionId(Arc::from(name))
    }

    /// Whether it is the name of a journal.
    pub fn is_journal(&self) -> bool {
        self.0.split_once('/').is_some_and(|(_, name)| name.starts_with("//"))
    }

    /// Returns its name within its session: empty for the main thread.
    pub fn own_name(&self) -> &str {
        self.0.split_once('/').map_or("", |(_, name)| name.trim_start_matches('/'))
    }
}

/// The key of a session: its tenant and id.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionKey {
    /// The owner.
    pub tenant: Tenant,
    /// The session's or thread's id.
    pub session: SessionId,
}

/// The key of a thread: its tenant and id.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ThreadKey {
    /// The owner.
    pub tenant: Tenant,
    /// The session's or thread's id.
    pub thread: ThreadId,
}

impl SessionKey {
    /// Returns the key of the session's main thread.
    pub fn main(&self) -> ThreadKey {
        ThreadKey { tenant: self.tenant.clone(), thread: self.session.main() }
    }
}

impl ThreadKey {
    /// Returns the key of the session that the thread belongs to.
    pub fn session(&self) -> SessionKey {
        SessionKey { tenant: self.tenant.clone(), session: self.thread.session() }
    }
}

/// The key of a document.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DocumentKey {
    /// The owner.
    pub tenant: Tenant,
    /// The session that it belongs to, if it belongs to one.
    pub session: Option<SessionId>,
    /// The kind, such as `pass`.
    pub kind: String,
    /// Its name among those of its kind: any text of at most [`MAX_NAME_BYTES`].
    pub name: String,
}

impl DocumentKey {
    /// Returns the key of a document of a session.
    pub fn of_session(tenant: &Tenant, session: &SessionId, kind: &str, name: impl Into<String>) -> Self {
        let session = Some(session.clone());
        Self { tenant: tenant.clone(), session, kind: kind.to_owned(), name: name.into() }
    }

    /// Returns the key of a document that belongs to no session.
    pub fn of_tenant(tenant: &Tenant, kind: &str, name: impl Into<String>) -> Self {
        Self { tenant: tenant.clone(), session: None, kind: kind.to_owned(), name: name.into() }
    }
}
