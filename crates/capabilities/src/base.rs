//! A knowledge base as prompts name it: its name, its description, and how to search it for a tenant.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use contexture_compose::{BoxFuture, Scope, SharedTool};
use contexture_knowledge::{RetrieveError, Retriever};

/// The tools of so many tenants are kept; then they are made again.
const MAX_TENANTS: usize = 1_024;

/// The future of a retriever.
pub type Lookup = BoxFuture<'static, Result<Arc<dyn Retriever>, RetrieveError>>;

/// Finds the retriever of a base for the tenant and user of a call.
///
/// Implementations return a retriever that sees nothing of another tenant. They may do work that was put off, such as
/// bringing an index up to date.
pub trait BaseAccess: Send + Sync {
    /// Returns the retriever, or why there is none.
    fn retriever(&self, scope: &Scope) -> Lookup;
}

/// A retriever that serves everyone.
struct Fixed(Arc<dyn Retriever>);

impl BaseAccess for Fixed {
    fn retriever(&self, _scope: &Scope) -> Lookup {
        Box::pin(std::future::ready(Ok(Arc::clone(&self.0))))
    }
}

/// A knowledge base that entries refer to. Cheap to clone; clones are the same base and offer the same tools.
#[derive(Clone)]
pub struct KnowledgeBase(Arc<Parts>);

struct Parts {
    name: String,
    description: Option<String>,
    access: Arc<dyn BaseAccess>,
    /// The tools by tenant. Two entries with the same base must offer the very same tool.
    tools: Mutex<BTreeMap<Option<String>, Vec<SharedTool>>>,
}

impl KnowledgeBase {
    /// Returns the base behind a retriever, which serves every caller.
    pub fn new(retriever: Arc<dyn Retriever>) -> Self {
        let name = retriever.base().to_owned();
        Self::with_access(name, None, Arc::new(Fixed(retriever)))
    }

    /// Returns a base whose retriever depends on the caller.
    pub fn with_access(
        name: impl Into<String>,
        description: Option<String>,
        access: Arc<dyn BaseAccess>,
    ) -> Self {
        Self(Arc::new(Parts { name: name.into(), description, access, tools: Mutex::default() }))
    }

    /// Returns the same base with a description, for the catalogue and the tools.
    #[must_use]
    pub fn described(&self, description: impl Into<String>) -> Self {
        Self::with_access(self.name(), Some(description.into()), Arc::clone(&self.0.access))
    }

    /// Returns the name, as it stands in sources and citations.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// Returns what the base is about.
    pub fn description(&self) -> Option<&str> {
        self.0.description.as_deref()
    }

    /// Returns the retriever for a caller.
    pub fn retriever(&self, scope: &Scope) -> Lookup {
        self.0.access.retriever(scope)
    }

    /// Returns the tools that were made for the caller's tenant, or makes them.
    pub(crate) fn kept_tools(
        &self,
        scope: &Scope,
        make: impl FnOnce() -> Vec<SharedTool>,
    ) -> Vec<SharedTool> {
        let mut known = self.0.tools.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= MAX_TENANTS && !known.contains_key(&scope.tenant) {
            known.clear();
        }
        known.entry(scope.tenant.clone()).or_insert_with(make).clone()
    }
}

impl From<Arc<dyn Retriever>> for KnowledgeBase {
    fn from(retriever: Arc<dyn Retriever>) -> Self {
        Self::new(retriever)
    }
}

impl fmt::Debug for KnowledgeBase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("KnowledgeBase").field(&self.0.name).finish()
    }
}
