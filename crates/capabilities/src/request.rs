//! The bases that a run can name: `knowledge: {bases, query, top_k}`.

use std::collections::BTreeMap;

use contexture_agent::{KnowledgeBases, KnowledgeRequest};
use contexture_compose::Entry;

use crate::base::KnowledgeBase;
use crate::query::QueryTemplate;
use crate::retrieval::retriever;
use crate::search::DEFAULT_TOP_K;

/// Knowledge bases by name.
///
/// As [`KnowledgeBases`] it lets runs search in them: the snippets become part of `<system-context>`.
#[derive(Clone, Debug, Default)]
pub struct Bases(BTreeMap<String, KnowledgeBase>);

impl Bases {
    /// Returns the base with that name.
    pub fn get(&self, name: &str) -> Option<&KnowledgeBase> {
        self.0.get(name)
    }

    /// Returns all bases, sorted by name.
    pub fn iter(&self) -> impl Iterator<Item = &KnowledgeBase> {
        self.0.values()
    }

    /// Returns whether there is no base.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl FromIterator<KnowledgeBase> for Bases {
    fn from_iter<I: IntoIterator<Item = KnowledgeBase>>(bases: I) -> Self {
        Self(bases.into_iter().map(|it| (it.name().to_owned(), it)).collect())
    }
}

impl KnowledgeBases for Bases {
    fn entry(&self, request: &KnowledgeRequest) -> Result<Entry, String> {
        let named = request.bases.iter().map(|it| self.get(it).cloned().ok_or_else(|| it.clone()));
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
