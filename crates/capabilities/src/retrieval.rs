//! The entries `retriever` and `pipeline`: hits in the request, or tools to search with, or both.

use std::sync::Arc;

use contexture_agent::Tool;
use contexture_compose::{
    BoxError, BoxFuture, Call, Contribution, Contributor, ConversationUse, Declaration, Entry, OnError,
    Placement, Priority, Profile, Scope, Trust,
};
use contexture_knowledge::pipeline::Step;
use contexture_message::{TokenCounter, counter_for};
use serde::{Deserialize, Serialize};

use crate::base::KnowledgeBase;
use crate::pieces::{HitForm, pieces};
use crate::query::QueryTemplate;
use crate::search::{DEFAULT_TOP_K, Search};
use crate::tools;

/// How the model gets at a base.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Inject {
    /// Hits are part of the request.
    #[default]
    Context,
    /// The model has tools to search and to read.
    Tool,
    /// Both.
    Both,
}

impl Inject {
    pub(crate) fn has_context(self) -> bool {
        self != Inject::Tool
    }

    pub(crate) fn has_tools(self) -> bool {
        self != Inject::Context
    }
}

/// An entry that searches knowledge bases. Make it with [`retriever`] or [`pipeline`].
///
/// By default hits are part of the hidden envelope of the user message, are recorded with the turn, and leave the bytes
/// before it alone. A failure is a reason in the Explanation; [`on_error`](Self::on_error) makes it one of the pass.
#[derive(Clone)]
pub struct Retrieval {
    id: String,
    kind: &'static str,
    search: Search,
    inject: Inject,
    placement: Placement,
    priority: Priority,
    on_error: OnError,
}

/// Returns an entry that puts the best hits of a base into the request.
///
/// ```
/// # use std::sync::Arc;
/// # use contexture_compose::{BoxFuture, Prompt, ResolveOptions};
/// # use contexture_knowledge::{Hit, Query, RetrieveError, Retrieved, Retriever};
/// # struct Handbook;
/// # impl Retriever for Handbook {
/// #     fn base(&self) -> &str { "handbook" }
/// #     fn retrieve(&self, _: Query) -> BoxFuture<'_, Result<Retrieved, RetrieveError>> {
/// #         let hit = Hit {
/// #             base: "handbook".into(), chunk: "12".into(), text: "Refunds take 30 days.".into(), score: 0.9,
/// #             shares: Default::default(), document: Default::default(),
/// #         };
/// #         Box::pin(async { Ok(Retrieved { hits: vec![hit], notes: Vec::new() }) })
/// #     }
/// # }
/// # futures::executor::block_on(async {
/// use contexture_capabilities::{KnowledgeBase, retriever};
///
/// let handbook = KnowledgeBase::new(Arc::new(Handbook));
/// let prompt = Prompt::builder("support").include(retriever(handbook).top_k(3)).build()?;
/// let pass = prompt.resolve(ResolveOptions::default().user_message("How long do refunds take?")).await?;
/// let part = pass.explain().parts.into_iter().find(|it| it.source == "knowledge:handbook#12").unwrap();
/// assert_eq!(part.detail.unwrap()["rank"], 1);
/// assert!(pass.request().messages[0].joined_text().contains("Refunds take 30 days."));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # }).unwrap();
/// ```
pub fn retriever(base: impl Into<KnowledgeBase>) -> Retrieval {
    let base = base.into();
    let id = base.name().to_owned();
    Retrieval::new("retriever", id, vec![base], Vec::new())
}

/// Returns an entry that searches bases in steps: rewriting queries, filtering, reranking, expanding, compressing.
pub fn pipeline(bases: Vec<KnowledgeBase>, steps: Vec<Step>) -> Retrieval {
    let id = bases.iter().map(KnowledgeBase::name).collect::<Vec<_>>().join("+");
    Retrieval::new("pipeline", id, bases, steps)
}

impl Retrieval {
    fn new(kind: &'static str, id: String, bases: Vec<KnowledgeBase>, steps: Vec<Step>) -> Self {
        let search = Search {
            bases,
            query: None,
            top_k: DEFAULT_TOP_K,
            min_score: 0.0,
            steps,
            counter: counter_for(None),
        };
        Self {
            id,
            kind,
            search,
            inject: Inject::Context,
            placement: Placement::User,
            priority: Priority::DEFAULT,
            on_error: OnError::Skip,
        }
    }

    /// Sets the id, by default made of the names of the bases. Two entries of a prompt need different ids.
    #[must_use]
    pub fn id(self, id: impl Into<String>) -> Self {
        Self { id: id.into(), ..self }
    }

    /// Names the kind of entry in the Explanation.
    #[must_use]
    pub(crate) fn kind(self, kind: &'static str) -> Self {
        Self { kind, ..self }
    }

    /// Searches several bases; the hits are ranked by score.
    #[must_use]
    pub(crate) fn bases(mut self, bases: Vec<KnowledgeBase>) -> Self {
        self.search.bases = bases;
        self
    }

    /// Sets what to search for; by default the user's text with the last turn.
    #[must_use]
    pub fn query(mut self, query: QueryTemplate) -> Self {
        self.search.query = Some(query);
        self
    }

    /// Sets how many hits to take at most.
    #[must_use]
    pub fn top_k(mut self, top_k: usize) -> Self {
        self.search.top_k = top_k.min(contexture_session::sources::MAX_HITS);
        self
    }

    /// Leaves out hits below this score.
    #[must_use]
    pub fn min_score(mut self, min_score: f64) -> Self {
        self.search.min_score = min_score;
        self
    }

    /// Sets how the model gets at the base.
    #[must_use]
    pub fn inject(self, inject: Inject) -> Self {
        Self { inject, ..self }
    }

    /// Sets the priority of the best hit under a budget; the others follow below it.
    #[must_use]
    pub fn priority(self, priority: Priority) -> Self {
        Self { priority, ..self }
    }

    /// Puts the hits into the system message. They then change it with each turn, and count towards its budget.
    #[must_use]
    pub fn in_system(self) -> Self {
        Self { placement: Placement::System, ..self }
    }

    /// Sets what happens to the pass if a base can't be searched; by default the reason is recorded.
    #[must_use]
    pub fn on_error(self, on_error: OnError) -> Self {
        Self { on_error, ..self }
    }

    /// Sets the counter that measures what a pipeline expands and compresses.
    #[must_use]
    pub fn counter(mut self, counter: Arc<dyn TokenCounter>) -> Self {
        self.search.counter = counter;
        self
    }

    /// Returns the part that puts hits into the request, for prompts that are composed by hand.
    pub fn as_context(&self) -> Entry {
        self.clone().inject(Inject::Context).into()
    }

    /// Returns the tools for a caller, for prompts and agents that are composed by hand.
    pub fn as_tools(&self, scope: &Scope) -> Vec<Tool> {
        self.search.bases.iter().flat_map(|it| tools::tools(it, scope)).collect()
    }

    /// Returns the name of the entry in the Explanation, such as `retriever:handbook`.
    fn owner(&self) -> String {
        format!("{}:{}", self.kind, self.id)
    }

    async fn contribution(&self, call: Call) -> Result<Contribution, BoxError> {
        let mut contribution = Contribution::default();
        if self.inject.has_tools() {
            contribution.tools = self.search.bases.iter().flat_map(|it| it.tools(&call.scope)).collect();
        }
        // A recorded turn has its hits; nothing of what a search finds now would be sent.
        let is_recorded = self.placement == Placement::User && call.has_envelope();
        if self.inject.has_context() && !is_recorded {
            let found = self.search.run(&call).await?;
            if let Some(failure) = found.failures.first().filter(|_| self.on_error == OnError::Fail) {
                return Err(failure.clone().into());
            }
            contribution.pieces = pieces(&self.owner(), found, HitForm::Snippet, self.priority);
        }
        Ok(contribution)
    }
}

/// An entry under its id in the prompt.
struct Node {
    id: String,
    retrieval: Retrieval,
}

impl Contributor for Node {
    fn id(&self) -> &str {
        &self.id
    }

    fn contribute(&self, call: Call) -> BoxFuture<'_, Result<Contribution, BoxError>> {
        Box::pin(self.retrieval.contribution(call))
    }

    fn has_gate(&self) -> bool {
        false
    }

    fn declare(&self) -> Declaration {
        let Retrieval { priority, placement, kind, .. } = &self.retrieval;
        let (priority, placement, trust) = (*priority, *placement, Trust::External);
        let profile = Profile { priority, placement, trust, ..Profile::default() };
        let (family, conversation) = (Some((*kind).to_owned()), ConversationUse::AtTurnStart);
        Declaration { profile, family, conversation, ..Declaration::default() }
    }
}

impl From<Retrieval> for Entry {
    fn from(retrieval: Retrieval) -> Self {
        Entry::Contributor(Arc::new(Node { id: retrieval.owner(), retrieval }))
    }
}
