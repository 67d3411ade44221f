//! Pipelines: typed steps from a query to the hits that go into a request.
//!
//! ```text
//! rewrite · fan_out ─▶ retrieve ─▶ filter · rerank · expand · compress
//! ```
//!
//! A pipeline holds queries and hits; each step changes one of the two. What can run concurrently does: all queries on
//! all retrievers, and the expansion of all hits. What each step got and returned is in the [`PipelineTrace`].

mod compress;
mod expand;
mod merge;
mod model;
mod trace;

use std::sync::Arc;

use contexture_message::TokenCounter;
use contexture_template::{Globals, RenderConfig, Template};
use futures::future::try_join_all;
use serde_json::Value;

use crate::retrieve::{Around, Hit, Query, RetrievalNote, RetrieveError, Retriever};

pub use model::{AskModel, ListwiseReranker, Reranker};
pub use trace::{HitMark, PipelineTrace, StepTrace};

/// How many queries a pipeline has at most.
pub const MAX_QUERIES: usize = 16;

/// One step of a pipeline.
#[derive(Clone)]
pub enum Step {
    /// Replaces each query.
    Rewrite(Rewriting),
    /// Adds queries to those there are.
    FanOut(Vec<Rewriting>),
    /// Finds texts for all queries.
    Retrieve {
        /// How many for each query.
        top_k: usize,
    },
    /// Leaves out hits.
    Filter(Filter),
    /// Puts hits into a better order.
    Rerank {
        /// Knows the order.
        by: Arc<dyn Reranker>,
        /// How many of the first hits it is asked about; the others stay behind them.
        top: usize,
    },
    /// Adds the texts around each hit to it.
    Expand {
        /// Which texts.
        around: Around,
        /// How many tokens all hits may have together.
        tokens: u32,
    },
    /// Keeps the sentences of each hit that have most in common with the query.
    Compress {
        /// How many tokens a hit may have.
        tokens: u32,
    },
}

/// How a query becomes another.
#[derive(Clone)]
pub enum Rewriting {
    /// By a template over `query` and the values of the run.
    Template(Template),
    /// By a model, which is asked for one query, or several in fan-out.
    Model(Arc<dyn AskModel>),
}

/// Which hits stay.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Filter {
    /// Those with at least this score.
    pub min_score: f64,
    /// At most so many of one document.
    pub per_document: Option<usize>,
    /// Those whose documents have these values in their metadata.
    pub metadata: Vec<(String, Value)>,
    /// At most so many in all.
    pub top_k: Option<usize>,
}

/// Steps with what they need. See [`Pipeline::run`].
#[derive(Clone)]
pub struct Pipeline {
    retrievers: Vec<Arc<dyn Retriever>>,
    steps: Vec<Step>,
    counter: Arc<dyn TokenCounter>,
}

impl std::fmt::Debug for Pipeline {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.steps.iter().map(Step::name)).finish()
    }
}

impl Step {
    /// Returns the name of the step, as in a definition.
    pub fn name(&self) -> &'static str {
        match self {
            Step::Rewrite(_) => "rewrite",
            Step::FanOut(_) => "fan_out",
            Step::Retrieve { .. } => "retrieve",
            Step::Filter(_) => "filter",
            Step::Rerank { .. } => "rerank",
            Step::Expand { .. } => "expand",
            Step::Compress { .. } => "compress",
        }
    }
}

/// What a pipeline found, and how.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PipelineResult {
    /// The hits, best first.
    pub hits: Vec<Hit>,
    /// What each step got and returned.
    pub trace: PipelineTrace,
}

/// Queries and hits between two steps.
#[derive(Clone, Debug, Default)]
struct PipelineState {
    /// The query of the caller.
    asked: String,
    queries: Vec<String>,
    hits: Vec<Hit>,
}

impl Pipeline {
    /// Returns a pipeline over some retrievers.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use contexture_history::Timestamp;
    /// # use contexture_knowledge::{Document, Indexer, IndexPorts, LocalRetriever, Media, Query};
    /// use contexture_knowledge::pipeline::{Filter, Pipeline, Step};
    /// # use contexture_session::{BaseId, BaseKey, MemoryStore, SourceId, SourceIndex, Tenant};
    /// # use contexture_session::conformance::SystemTime;
    ///
    /// # futures::executor::block_on(async {
    /// # let store: Arc<dyn SourceIndex> = Arc::new(MemoryStore::new(Arc::new(SystemTime)));
    /// # let base = BaseKey { tenant: Tenant::default(), base: BaseId::parse("handbook")? };
    /// # store.put_base(base.clone(), Default::default(), Timestamp(0)).await?;
    /// # let counter = contexture_message::counter_for(None);
    /// # let ports = IndexPorts { store: Arc::clone(&store), counter: Arc::clone(&counter), converter: None };
    /// # let document = Document::new(SourceId::parse("refunds")?, Media::Text, "Refunds take 30 days.");
    /// # Indexer::new(ports, Default::default()).add(&base, vec![document], &|_| {}).await?;
    /// # let handbook = LocalRetriever::new(store, base);
    /// let steps = vec![
    ///     Step::Retrieve { top_k: 20 },
    ///     Step::Filter(Filter { per_document: Some(2), ..Filter::default() }),
    /// ];
    /// let pipeline = Pipeline::new(vec![Arc::new(handbook)], steps, counter);
    /// let found = pipeline.run(Query::new("refunds", 5), &[]).await?;
    /// assert_eq!(found.trace.to_string(), "retrieve: 1 query, 0 hits → 1 hit\nfilter: 1 hit → 1 hit");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn new(
        retrievers: Vec<Arc<dyn Retriever>>,
        steps: Vec<Step>,
        counter: Arc<dyn TokenCounter>,
    ) -> Self {
        Self { retrievers, steps, counter }
    }

    /// Runs the steps in order. `values` are what templates of queries may read besides `query`. A pipeline without a
    /// step that retrieves does that at its end.
    pub async fn run(
        &self,
        query: Query,
        values: &[(&str, &Value)],
    ) -> Result<PipelineResult, RetrieveError> {
        let asked = query.text.clone();
        let mut state = PipelineState { queries: vec![asked.clone()], asked, hits: Vec::new() };
        let mut trace = PipelineTrace::default();
        let retrieves = self.steps.iter().any(|it| matches!(it, Step::Retrieve { .. }));
        let at_end = (!retrieves).then_some(Step::Retrieve { top_k: query.top_k });
        for step in self.steps.iter().chain(&at_end) {
            let before = state.clone();
            let notes = self.step(step, &query, values, &mut state).await?;
            trace.steps.push(StepTrace::new(
                step.name(),
                &before.queries,
                &before.hits,
                &state.queries,
                &state.hits,
                notes,
            ));
        }
        state.hits.truncate(query.top_k);
        Ok(PipelineResult { hits: state.hits, trace })
    }

    /// Runs a step. Returns what should be known about it.
    async fn step(
        &self,
        step: &Step,
        query: &Query,
        values: &[(&str, &Value)],
        state: &mut PipelineState,
    ) -> Result<Vec<String>, RetrieveError> {
        match step {
            Step::Rewrite(rewriting) => {
                let rewritten = state.queries.iter().map(|it| rewrite(rewriting, it, values, step.name()));
                let rewritten = try_join_all(rewritten).await?;
                state.queries = unique(rewritten.into_iter().filter_map(|it| it.into_iter().next()));
            }
            Step::FanOut(rewritings) => {
                let more = rewritings.iter().map(|it| rewrite(it, &state.asked, values, step.name()));
                let more = try_join_all(more).await?.into_iter().flatten();
                state.queries = unique(std::mem::take(&mut state.queries).into_iter().chain(more));
            }
            Step::Retrieve { top_k } => return self.retrieve(*top_k, query, state).await,
            Step::Filter(filter) => filter.apply(&mut state.hits),
            Step::Rerank { by, top } => return Ok(rerank(&**by, *top, state).await),
            Step::Expand { around, tokens } => {
                let hits = std::mem::take(&mut state.hits);
                let expanded = expand::expand(&self.retrievers, &*self.counter, hits, *around, *tokens).await;
                state.hits = expanded.hits;
                return Ok(expanded.notes);
            }
            Step::Compress { tokens } => {
                for hit in &mut state.hits {
                    hit.text = compress::compress(&hit.text, &state.asked, *tokens, &*self.counter);
                }
            }
        }
        Ok(Vec::new())
    }

    async fn retrieve(
        &self,
        top_k: usize,
        query: &Query,
        state: &mut PipelineState,
    ) -> Result<Vec<String>, RetrieveError> {
        let one = |text: &String, retriever: &Arc<dyn Retriever>| {
            let (retriever, query) =
                (Arc::clone(retriever), Query { text: text.clone(), top_k, ..query.clone() });
            async move { retriever.retrieve(query).await }
        };
        let all = state.queries.iter().flat_map(|text| self.retrievers.iter().map(move |it| one(text, it)));
        let found = try_join_all(all).await?;
        let mut notes: Vec<RetrievalNote> = Vec::new();
        let mut lists = Vec::new();
        for retrieved in found {
            notes.extend(retrieved.notes.into_iter().filter(|it| !notes.contains(it)).collect::<Vec<_>>());
            lists.push(retrieved.hits);
        }
        lists.push(std::mem::take(&mut state.hits));
        state.hits = merge::merged(lists);
        Ok(notes.iter().map(ToString::to_string).collect())
    }
}

/// Returns the queries that a query becomes.
async fn rewrite(
    rewriting: &Rewriting,
    query: &str,
    values: &[(&str, &Value)],
    step: &'static str,
) -> Result<Vec<String>, RetrieveError> {
    let failed = |detail: String| RetrieveError::Step { step, detail };
    match rewriting {
        Rewriting::Template(template) => {
            let text = Value::String(query.to_owned());
            let globals: Vec<(&str, &Value)> =
                [("query", &text)].into_iter().chain(values.iter().copied()).collect();
            let text = template.render(&Globals::new(&globals), &RenderConfig::strict());
            Ok(vec![text.map_err(|err| failed(err.to_string()))?])
        }
        Rewriting::Model(model) => {
            let answer = match step {
                "fan_out" => model::fan_out(&**model, query).await,
                _ => model::rewrite(&**model, query).await,
            };
            answer.map_err(|err| failed(err.to_string()))
        }
    }
}

/// Returns the queries that are not empty, each once.
fn unique(queries: impl Iterator<Item = String>) -> Vec<String> {
    let mut unique: Vec<String> = Vec::new();
    for query in queries.map(|it| it.trim().to_owned()).filter(|it| !it.is_empty()) {
        if !unique.contains(&query) && unique.len() < MAX_QUERIES {
            unique.push(query);
        }
    }
    unique
}

/// Puts the first hits into the order that a reranker gives them. If it fails, the order stays.
async fn rerank(by: &dyn Reranker, top: usize, state: &mut PipelineState) -> Vec<String> {
    let top = top.min(state.hits.len());
    match by.order(&state.asked, &state.hits[..top]).await {
        Ok(order) => {
            let rest = state.hits.split_off(top);
            state.hits = merge::ordered(std::mem::take(&mut state.hits), &order);
            state.hits.extend(rest);
            Vec::new()
        }
        Err(err) => vec![format!("the order stays as it was: {err}")],
    }
}

impl Filter {
    fn apply(&self, hits: &mut Vec<Hit>) {
        let has = |hit: &Hit, (name, value): &(String, Value)| hit.document.metadata.get(name) == Some(value);
        hits.retain(|it| it.score >= self.min_score && self.metadata.iter().all(|wanted| has(it, wanted)));
        if let Some(most) = self.per_document {
            let mut counts: std::collections::BTreeMap<(String, Option<String>), usize> = Default::default();
            hits.retain(|it| {
                let count = counts.entry((it.base.clone(), it.document.id.clone())).or_default();
                *count += 1;
                *count <= most || it.document.id.is_none()
            });
        }
        hits.truncate(self.top_k.unwrap_or(usize::MAX));
    }
}
