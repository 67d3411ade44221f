//! The names of runs.

use std::fmt;

use contexture_session::{IdInvalid, SessionId, Tenant, ThreadId, ThreadKey};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The name of a run within its tenant: its session's, a dot, and its own.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
#[schemars(inline)]
pub struct RunId {
    session: SessionId,
    name: String,
}

impl RunId {
    pub(crate) fn new(session: SessionId, name: String) -> Self {
        Self { session, name }
    }

    /// Returns the run that has a log.
    pub(crate) fn of_log(log: &ThreadId) -> Self {
        Self::new(log.session(), log.own_name().to_owned())
    }

    /// Returns the key of the run's log.
    pub(crate) fn log(&self, tenant: &Tenant) -> ThreadKey {
        ThreadKey { tenant: tenant.clone(), thread: self.session.run(&self.name) }
    }

    /// Returns the id, if it can be one.
    ///
    /// ```
    /// use contexture_flow::RunId;
    ///
    /// assert_eq!(RunId::parse("shop.7")?.session().as_str(), "shop");
    /// assert!(RunId::parse("shop").is_err());
    /// # Ok::<(), contexture_session::IdInvalid>(())
    /// ```
    pub fn parse(text: &str) -> Result<Self, IdInvalid> {
        let wrong = |why: &'static str| IdInvalid::new("run id", text, why);
        let (session, name) =
            text.rsplit_once('.').ok_or_else(|| wrong("it is not a session, a dot and a name"))?;
        let fine = |it: char| it.is_ascii_alphanumeric() || it == '-' || it == '_';
        if name.is_empty() || name.len() > 64 || !name.chars().all(fine) {
            return Err(wrong("after the dot there are at most 64 letters, digits, `-` and `_`"));
        }
        Ok(Self { session: SessionId::parse(session)?, name: name.to_owned() })
    }

    /// Returns the session that the run belongs to.
    pub fn session(&self) -> &SessionId {
        &self.session
    }

    /// Returns the run's own part of the name.
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl fmt::Display for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.session, self.name)
    }
}

impl TryFrom<String> for RunId {
    type Error = IdInvalid;

    fn try_from(text: String) -> Result<Self, IdInvalid> {
        Self::parse(&text)
    }
}

impl From<RunId> for String {
    fn from(id: RunId) -> String {
        id.to_string()
    }
}
