//! Searches bases for a call: what was found, what was left out and why.

use std::sync::Arc;

use contexture_compose::{BoxError, Call};
use contexture_history::Timestamp;
use contexture_knowledge::pipeline::{PipelineTrace, Step};
use contexture_knowledge::{Hit, Pipeline, Query, Retriever};
use contexture_message::TokenCounter;
use futures::future::join_all;

use crate::base::KnowledgeBase;
use crate::query::{QueryTemplate, QueryValues};

/// How many hits an entry takes, unless it says otherwise.
pub(crate) const DEFAULT_TOP_K: usize = 5;

/// So many hits beyond the last are looked at, to say why they are not there.
const BEYOND: usize = 5;

/// What to search for, and where.
#[derive(Clone)]
pub(crate) struct Search {
    pub(crate) bases: Vec<KnowledgeBase>,
    pub(crate) query: Option<QueryTemplate>,
    pub(crate) top_k: usize,
    pub(crate) min_score: f64,
    /// The steps of a pipeline; by default the bases are searched and nothing else.
    pub(crate) steps: Vec<Step>,
    /// Measures what a pipeline expands and compresses.
    pub(crate) counter: Arc<dyn TokenCounter>,
}

/// What a search found.
#[derive(Debug, Default)]
pub(crate) struct Found {
    pub(crate) query: String,
    /// The hits, best first.
    pub(crate) hits: Vec<Hit>,
    pub(crate) left_out: Vec<LeftOut>,
    /// Why something was not searched.
    pub(crate) failures: Vec<String>,
    pub(crate) notes: Vec<String>,
    pub(crate) trace: Option<PipelineTrace>,
}

/// A hit that is left out.
#[derive(Debug)]
pub(crate) struct LeftOut {
    pub(crate) hit: Hit,
    /// Its rank, from 0.
    pub(crate) rank: usize,
    pub(crate) reason: String,
}

impl Search {
    /// Searches for a call. Fails only if the query can't be rendered; what can't be searched is a failure in the result.
    pub(crate) async fn run(&self, call: &Call) -> Result<Found, BoxError> {
        let values = QueryValues::of(call);
        let query = values.query(self.query.as_ref())?;
        if query.is_empty() {
            let failures = vec!["there is nothing to search for: the query is empty".to_owned()];
            return Ok(Found { failures, ..Found::default() });
        }
        let now = call.scope.now.as_deref().and_then(timestamp);
        let asked = Query { text: query.clone(), top_k: self.top_k + BEYOND, min_score: 0.0, now };
        let mut found = match self.steps.is_empty() {
            true => self.plain(call, asked).await,
            false => self.piped(call, asked, &values).await,
        };
        self.select(&mut found);
        Ok(Found { query, ..found })
    }

    /// Searches each base by itself, so that one that fails takes nothing from the others.
    async fn plain(&self, call: &Call, asked: Query) -> Found {
        let each = self.bases.iter().map(|base| {
            let asked = asked.clone();
            async move { base.retriever(&call.scope).await?.retrieve(asked).await }
        });
        let mut found = Found::default();
        for (base, result) in self.bases.iter().zip(join_all(each).await) {
            match result {
                Ok(retrieved) => {
                    found.hits.extend(retrieved.hits);
                    found.notes.extend(retrieved.notes.iter().map(ToString::to_string));
                }
                Err(err) => found.failures.push(format!("skipped: base `{}`: {err}", base.name())),
            }
        }
        // Stable: in a tie the base comes first that is named first.
        found.hits.sort_by(|one, other| other.score.total_cmp(&one.score));
        found
    }

    async fn piped(&self, call: &Call, asked: Query, values: &QueryValues) -> Found {
        let result = async {
            let mut retrievers: Vec<Arc<dyn Retriever>> = Vec::new();
            for base in &self.bases {
                retrievers.push(base.retriever(&call.scope).await?);
            }
            let pipeline = Pipeline::new(retrievers, self.steps.clone(), Arc::clone(&self.counter));
            pipeline.run(asked, &values.globals()).await
        };
        match result.await {
            Ok(result) => Found { hits: result.hits, trace: Some(result.trace), ..Found::default() },
            Err(err) => Found { failures: vec![format!("skipped: {err}")], ..Found::default() },
        }
    }

    /// Leaves out what is below the score or beyond the number that was asked for.
    fn select(&self, found: &mut Found) {
        let mut kept = Vec::new();
        for (rank, hit) in std::mem::take(&mut found.hits).into_iter().enumerate() {
            let reason = if hit.score < self.min_score {
                Some(format!("score {:.3} is below min_score {:.3}", hit.score, self.min_score))
            } else if rank >= self.top_k {
                Some(format!("rank {} is beyond top_k {}", rank + 1, self.top_k))
            } else {
                None
            };
            match reason {
                Some(reason) => found.left_out.push(LeftOut { hit, rank, reason }),
                None => kept.push(hit),
            }
        }
        found.hits = kept;
    }
}

/// Reads the time of a request.
fn timestamp(text: &str) -> Option<Timestamp> {
    let time: jiff::Timestamp = text.parse().ok()?;
    Some(Timestamp(time.as_millisecond()))
}
