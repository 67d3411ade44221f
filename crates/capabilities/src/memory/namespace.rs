//! Namespaces: whose memory it is.

use std::fmt;
use std::str::FromStr;

use contexture_compose::Scope;
use contexture_session::{BaseId, BaseKey, Tenant, codec};
use serde::{Deserialize, Serialize};

use super::error::MemoryError;

/// How many characters each name of a namespace may have.
const MAX_NAME: usize = 1000;
/// The names of the bases that hold memory begin like this.
const PREFIX: &str = "__memory-";

/// Whose memory it is, within a tenant: any of a user, an agent and a name of the application's own.
///
/// Two namespaces are the same only if all parts are. Every operation is bound to one, and no operation reads another.
///
/// ```
/// use contexture_capabilities::memory::Namespace;
///
/// let space: Namespace = "user=ada,agent=support".parse()?;
/// assert_eq!(space, Namespace { user: Some("ada".into()), agent: Some("support".into()), custom: None });
/// assert_eq!(space.to_string(), "user=ada,agent=support");
/// # Ok::<(), contexture_capabilities::memory::MemoryError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Namespace {
    /// The user.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// The agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// A name of the application's own, such as that of a project.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub custom: Option<String>,
}

impl Namespace {
    /// Returns the memory of a user, whichever agent they talk to.
    pub fn of_user(user: impl Into<String>) -> Self {
        Self { user: Some(user.into()), ..Self::default() }
    }

    /// Returns the memory of an agent, shared by all its users.
    pub fn of_agent(agent: impl Into<String>) -> Self {
        Self { agent: Some(agent.into()), ..Self::default() }
    }

    /// Returns the base that holds it. Its name is a hash of the parts: they may be long, and contain anything.
    pub(crate) fn key(&self, tenant: &Tenant) -> Result<BaseKey, MemoryError> {
        for name in [&self.user, &self.agent, &self.custom].into_iter().flatten() {
            let found = name.chars().count();
            if found > MAX_NAME {
                let text = format!("a name of a namespace has {found} characters, the limit is {MAX_NAME}");
                return Err(MemoryError::Invalid(text));
            }
        }
        let hash = codec::blob_hash(&self.canonical());
        let name = format!("{PREFIX}{}", hash.get(..40).unwrap_or(&hash));
        let base = BaseId::parse(name).map_err(|err| MemoryError::Invalid(err.to_string()))?;
        Ok(BaseKey { tenant: tenant.clone(), base })
    }

    /// Returns the parts as one text, which no other namespace has.
    pub(crate) fn canonical(&self) -> String {
        // Plain strings always serialise.
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Reads what [`canonical`](Self::canonical) wrote.
    pub(crate) fn from_canonical(text: &str) -> Option<Self> {
        serde_json::from_str(text).ok()
    }
}

/// Whether a base holds memory.
pub(crate) fn is_memory(base: &BaseId) -> bool {
    base.as_str().starts_with(PREFIX)
}

impl fmt::Display for Namespace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = [("user", &self.user), ("agent", &self.agent), ("custom", &self.custom)];
        let given = parts.iter().filter_map(|(name, it)| Some(format!("{name}={}", it.as_ref()?)));
        f.write_str(&given.collect::<Vec<_>>().join(","))
    }
}

impl FromStr for Namespace {
    type Err = MemoryError;

    /// Reads `user=ada,agent=support,custom=apollo`; every part may be absent.
    fn from_str(text: &str) -> Result<Self, MemoryError> {
        let mut namespace = Namespace::default();
        for part in text.split(',').map(str::trim).filter(|it| !it.is_empty()) {
            let (name, value) = part.split_once('=').ok_or_else(|| unreadable(part))?;
            let field = match name {
                "user" => &mut namespace.user,
                "agent" => &mut namespace.agent,
                "custom" => &mut namespace.custom,
                _ => return Err(unreadable(part)),
            };
            *field = Some(value.to_owned());
        }
        Ok(namespace)
    }
}

fn unreadable(part: &str) -> MemoryError {
    MemoryError::Invalid(format!(
        "`{part}` is not a part of a namespace; write `user=…`, `agent=…` or `custom=…`, separated by commas"
    ))
}

/// Which namespace an entry is bound to, before it is known who talks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct NamespaceRule {
    /// Whether each user has a memory of their own. A turn without a user then has no memory.
    pub user: bool,
    /// The agent, if each has a memory of its own.
    pub agent: Option<String>,
    /// A name of the application's own.
    pub custom: Option<String>,
}

impl Default for NamespaceRule {
    fn default() -> Self {
        Self { user: true, agent: None, custom: None }
    }
}

impl NamespaceRule {
    /// Returns the namespace of a call, or why there is none.
    pub(crate) fn of(&self, scope: &Scope) -> Result<Namespace, &'static str> {
        let user = match (self.user, &scope.user) {
            (true, None) => return Err("the turn has no user, and memory is kept by user"),
            (true, user) => user.clone(),
            (false, _) => None,
        };
        Ok(Namespace { user, agent: self.agent.clone(), custom: self.custom.clone() })
    }
}

/// Returns the tenant of a call.
pub(crate) fn tenant_of(scope: &Scope) -> Result<Tenant, MemoryError> {
    let parse = |it: &String| Tenant::parse(it.as_str()).map_err(|err| MemoryError::Invalid(err.to_string()));
    Ok(scope.tenant.as_ref().map(parse).transpose()?.unwrap_or_default())
}
