//! What each step of a pipeline got and returned, for the Explanation.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::retrieve::Hit;

/// What each step got and returned.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PipelineTrace {
    /// The steps in order.
    pub steps: Vec<StepTrace>,
}

/// What a step got and returned.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StepTrace {
    /// The name of the step.
    pub step: String,
    /// The queries before it.
    pub queries_in: Vec<String>,
    /// The queries after it.
    pub queries_out: Vec<String>,
    /// The hits before it.
    pub hits_in: Vec<HitMark>,
    /// The hits after it.
    pub hits_out: Vec<HitMark>,
    /// What else should be known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// A hit in a trace, without its text.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct HitMark {
    /// The source of the hit.
    pub source: String,
    /// Its score.
    pub score: f64,
    /// The size of its text, in characters.
    pub chars: usize,
}

impl StepTrace {
    pub(super) fn new(
        step: &str,
        queries_in: &[String],
        hits_in: &[Hit],
        queries_out: &[String],
        hits_out: &[Hit],
        notes: Vec<String>,
    ) -> Self {
        let mark =
            |it: &Hit| HitMark { source: it.source(), score: it.score, chars: it.text.chars().count() };
        Self {
            step: step.to_owned(),
            queries_in: queries_in.to_vec(),
            queries_out: queries_out.to_vec(),
            hits_in: hits_in.iter().map(mark).collect(),
            hits_out: hits_out.iter().map(mark).collect(),
            notes,
        }
    }
}

impl fmt::Display for PipelineTrace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (idx, step) in self.steps.iter().enumerate() {
            let line = if idx == 0 { "" } else { "\n" };
            write!(f, "{line}{step}")?;
        }
        Ok(())
    }
}

impl fmt::Display for StepTrace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let queries = |count: usize| format!("{count} {}", if count == 1 { "query" } else { "queries" });
        let hits = |count: usize| format!("{count} {}", if count == 1 { "hit" } else { "hits" });
        let (hits_in, hits_out) = (hits(self.hits_in.len()), hits(self.hits_out.len()));
        match self.step.as_str() {
            "rewrite" | "fan_out" => {
                let (before, after) = (queries(self.queries_in.len()), queries(self.queries_out.len()));
                write!(f, "{}: {before} → {after}", self.step)?;
            }
            "retrieve" => write!(f, "retrieve: {}, {hits_in} → {hits_out}", queries(self.queries_in.len()))?,
            other => write!(f, "{other}: {hits_in} → {hits_out}")?,
        }
        self.notes.iter().try_for_each(|it| write!(f, " ({it})"))
    }
}
