//! The bases that a run can name: `knowledge: {bases, query, top_k}`.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use contexture_agent::{KnowledgeBases, KnowledgeRequest};
use contexture_compose::Entry;

use crate::base::KnowledgeBase;
use crate::query::QueryTemplate;
use crate::retrieval::retriever;
use crate::search::DEFAULT_TOP_K;

/// Knowledge bases by name.
///
/// As [`KnowledgeBases`] it lets runs search in them: the snippets become part of `<system-context>`.
#[derive(Clone, Default)]
pub struct Bases {
    named: BTreeMap<String, KnowledgeBase>,
    others: Option<FindBase>,
}

/// Finds a base by a name that is not among the known ones.
type FindBase = Arc<dyn Fn(&str) -> Option<KnowledgeBase> + Send + Sync>;

impl Bases {
    /// Returns the base with that name.
    pub fn get(&self, name: &str) -> Option<&KnowledgeBase> {
        self.named.get(name)
    }

    /// Returns all bases, sorted by name.
    pub fn iter(&self) -> impl Iterator<Item = &KnowledgeBase> {
        self.named.values()
    }

    /// Returns whether there is no base.
    pub fn is_empty(&self) -> bool {
        self.named.is_empty()
    }

    /// Lets runs search in other bases too, such as those that callers made themselves. One that turns out not to exist
    /// is a reason in the Explanation.
    #[must_use]
    pub fn or_else(self, find: impl Fn(&str) -> Option<KnowledgeBase> + Send + Sync + 'static) -> Self {
        Self { others: Some(Arc::new(find)), ..self }
    }

    fn find(&self, name: &str) -> Option<KnowledgeBase> {
        let other = || self.others.as_ref().and_then(|it| it(name));
        self.get(name).cloned().or_else(other)
    }
}

impl fmt::Debug for Bases {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Bases").field(&self.named.keys()).finish()
    }
}

impl FromIterator<KnowledgeBase> for Bases {
    fn from_iter<I: IntoIterator<Item = KnowledgeBase>>(bases: I) -> Self {
        let named = bases.into_iter().map(|it| (it.name().to_owned(), it)).collect();
        Self { named, others: None }
    }
}

impl KnowledgeBases for Bases {
    fn entry(&self, request: &KnowledgeRequest) -> Result<Entry, String> {
        let named = request.bases.iter().map(|it| self.find(it).ok_or_else(|| it.clone()));
        let named: Vec<KnowledgeBase> = named.collect::<Result<_, _>>()?;
        let Some(first) = named.first().cloned() else { return Ok(Entry::Nothing) };
        let entry = retriever(first)
            .bases(named)
            .kind("knowledge")
            .id("request")
            .top_k(request.top_k.unwrap_or(DEFAULT_TOP_K));
        Ok(match &request.query {
            Some(words) => entry.query(QueryTemplate::words(words)).into(),
            None => entry.into(),
        })
    }
}
