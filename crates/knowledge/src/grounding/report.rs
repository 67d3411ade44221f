//! The report of a check: what is wrong with the citations of an answer, for applications and for the model.

use std::fmt::Write as _;

use contexture_message::Span;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::facts::FactKind;

/// What a check found. Faults are in the order of the checks, and in the order of the text within each.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "GroundingReport")]
pub struct Report {
    /// Whether the answer has no fault.
    pub passed: bool,
    /// How many sentences the answer has.
    pub sentences: usize,
    /// How many of them have a citation that holds.
    pub cited: usize,
    /// The share of sentences that have one, from 0 to 1.
    pub coverage: f64,
    /// What is wrong.
    pub faults: Vec<Fault>,
}

/// A fault of an answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "GroundingFault")]
pub struct Fault {
    /// The place in the answer.
    pub at: Span,
    /// What is wrong there.
    #[serde(flatten)]
    pub kind: FaultKind,
}

/// What is wrong with a citation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[schemars(rename = "GroundingFaultKind")]
pub enum FaultKind {
    /// The chunk does not exist, as far as this pass knows.
    UnknownChunk {
        /// The id that is cited.
        chunk: String,
    },
    /// The chunk was found, but the budget left no room for it.
    DroppedChunk {
        /// The id that is cited.
        chunk: String,
    },
    /// A quote is required and missing.
    QuoteMissing {
        /// The id that is cited.
        chunk: String,
    },
    /// The chunk does not contain the quote.
    QuoteNotFound {
        /// The id that is cited.
        chunk: String,
        /// The words of the answer.
        quote: String,
        /// The words of the chunk that come close, if any do.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        nearest: Option<String>,
    },
    /// None of the chunks that the sentence cites contains the fact.
    FactNotFound {
        /// The kind of fact.
        fact: FactKind,
        /// The words of the answer.
        text: String,
        /// The ids that the sentence cites.
        chunks: Vec<String>,
    },
    /// Too few sentences have a citation.
    TooFewCitations {
        /// How many sentences must have one.
        needed: usize,
    },
    /// The quote is in a part of the chunk that was not sent.
    QuoteCut {
        /// The id that is cited.
        chunk: String,
        /// The words of the answer.
        quote: String,
    },
    /// The fact is in a part of the chunks that was not sent.
    FactCut {
        /// The kind of fact.
        fact: FactKind,
        /// The words of the answer.
        text: String,
        /// The ids that the sentence cites.
        chunks: Vec<String>,
    },
}

impl Report {
    /// Returns the complaint with which the model is asked to answer again; `None` if the answer has no fault.
    pub fn complaint(&self) -> Option<String> {
        if self.passed {
            return None;
        }
        let mut faults: Vec<String> = Vec::new();
        for fault in &self.faults {
            // Indented, because the complaint may itself be an item of a list.
            let line = format!("  - {}", self.wording(&fault.kind));
            if !faults.contains(&line) {
                faults.push(line);
            }
        }
        let template = include_str!("templates/complaint.txt").trim_end();
        Some(fill(template, &[("faults", &faults.join("\n"))]))
    }

    fn wording(&self, fault: &FaultKind) -> String {
        let mark = |chunk: &str| format!("[{chunk}]");
        let listed = |chunks: &[String]| chunks.iter().map(|it| mark(it)).collect::<Vec<_>>().join(", ");
        match fault {
            FaultKind::UnknownChunk { chunk } => said("unknown_chunk", &[("mark", &mark(chunk))]),
            FaultKind::DroppedChunk { chunk } => said("dropped_chunk", &[("mark", &mark(chunk))]),
            FaultKind::QuoteMissing { chunk } => said("quote_missing", &[("mark", &mark(chunk))]),
            FaultKind::QuoteNotFound { chunk, quote, nearest: Some(nearest) } => {
                said("quote_near_miss", &[("mark", &mark(chunk)), ("quote", quote), ("nearest", nearest)])
            }
            FaultKind::QuoteNotFound { chunk, quote, nearest: None } => {
                said("quote_not_found", &[("mark", &mark(chunk)), ("quote", quote)])
            }
            FaultKind::FactNotFound { fact, text, chunks } => {
                let values = [("kind", &*fact.to_string()), ("text", text), ("chunks", &listed(chunks))];
                said("fact_not_found", &values)
            }
            FaultKind::TooFewCitations { needed } => {
                let (cited, sentences) = (self.cited.to_string(), self.sentences.to_string());
                let needed = needed.to_string();
                let values = [("cited", &*cited), ("sentences", &sentences), ("needed", &needed)];
                said("too_few_citations", &values)
            }
            FaultKind::QuoteCut { chunk, quote } => {
                said("quote_cut", &[("mark", &mark(chunk)), ("quote", quote)])
            }
            FaultKind::FactCut { fact, text, chunks } => {
                let values = [("kind", &*fact.to_string()), ("text", text), ("chunks", &listed(chunks))];
                said("fact_cut", &values)
            }
        }
    }
}

/// Returns the wording of a fault, with its values.
fn said(key: &str, values: &[(&str, &str)]) -> String {
    let mut lines = include_str!("templates/faults.txt").lines();
    let template = lines.find_map(|it| it.strip_prefix(key)?.strip_prefix(": "));
    fill(template.unwrap_or_default(), values)
}

/// Replaces each `{…}` of a template with its value. Values are not searched for places themselves.
fn fill(template: &str, values: &[(&str, &str)]) -> String {
    let mut out = String::new();
    let mut rest = template;
    while let Some((before, after)) = rest.split_once('{') {
        let Some((name, after)) = after.split_once('}') else { break };
        let value = values.iter().find(|(it, _)| *it == name).map_or("", |(_, it)| *it);
        // Writing to a text cannot fail.
        let _ = write!(out, "{before}{value}");
        rest = after;
    }
    out + rest
}
