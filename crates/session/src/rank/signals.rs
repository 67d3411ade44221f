//! The signals of a text, and their sum.
//!
//! Each signal is a number from 0 to 1. A score is their convex sum: each counts by its share of the weights of the
//! signals that the search has. There is no fusion of ranks: a weak signal must not overrule a strong one because its
//! best text is a first, too.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::config::SignalWeights;
use super::numbers::NumberMap;
use super::reader::TextNo;

/// The signals of a ranking, see [`SignalWeights`].
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
#[allow(missing_docs, reason = "each has the doc of its weight")]
pub enum Signal {
    Lexical,
    Feedback,
    Phrase,
    Neighbours,
    Session,
    Parent,
    Recency,
    Dense,
}

impl Signal {
    /// Returns the name of the signal, as it is serialised.
    pub fn as_str(self) -> &'static str {
        match self {
            Signal::Lexical => "lexical",
            Signal::Feedback => "feedback",
            Signal::Phrase => "phrase",
            Signal::Neighbours => "neighbours",
            Signal::Session => "session",
            Signal::Parent => "parent",
            Signal::Recency => "recency",
            Signal::Dense => "dense",
        }
    }
}

/// What is known about a text before its neighbours are considered.
#[derive(Clone, Debug)]
pub(super) struct Evidence {
    pub(super) no: TextNo,
    pub(super) parent: u64,
    pub(super) before: Option<TextNo>,
    pub(super) after: Option<TextNo>,
    pub(super) lexical: f64,
    pub(super) feedback: Option<f64>,
    pub(super) recency: Option<f64>,
    pub(super) dense: Option<f64>,
}

/// A ranked text.
#[derive(Clone, Debug, PartialEq)]
pub struct Scored {
    /// The number of the text.
    pub no: TextNo,
    /// From 0 to 1.
    pub score: f64,
    /// What each signal adds to the score.
    pub shares: BTreeMap<Signal, f64>,
    /// The sum of the weights of the signals.
    total: f64,
}

/// Scores texts and sorts them, best first. Texts without any evidence are left out.
pub(super) fn score(weights: &SignalWeights, texts: Vec<Evidence>) -> Vec<Scored> {
    let own: NumberMap<f64> = texts.iter().map(|it| (it.no, own_score(weights, it))).collect();
    let parents = parents(&texts, &own);
    let scored = texts.into_iter().map(|text| {
        let of = |no: Option<TextNo>| no.and_then(|it| own.get(&it)).copied().unwrap_or(0.0);
        let parent = parents.get(&text.parent).copied().unwrap_or_default();
        let own = of(Some(text.no));
        let signals = [
            (Signal::Lexical, weights.lexical, Some(text.lexical)),
            (Signal::Feedback, weights.feedback, text.feedback),
            (Signal::Neighbours, weights.neighbours, Some((of(text.before) + of(text.after)) / 2.0)),
            (Signal::Session, weights.session, Some(parent.best)),
            (Signal::Parent, weights.parent, Some(parent.without(own))),
            (Signal::Recency, weights.recency, text.recency),
            (Signal::Dense, weights.dense, text.dense),
        ];
        let phrase = (Signal::Phrase, weights.phrase, Some(0.0));
        let there =
            signals.iter().chain([&phrase]).filter(|(_, weight, value)| *weight > 0.0 && value.is_some());
        let total: f64 = there.clone().map(|(_, weight, _)| weight).sum();
        let share = |(signal, weight, value): &(Signal, f64, Option<f64>)| {
            (*signal, weight * value.unwrap_or(0.0) / total)
        };
        let shares: BTreeMap<Signal, f64> = there.map(share).filter(|(_, share)| *share > 0.0).collect();
        Scored { no: text.no, score: shares.values().sum(), shares, total }
    });
    let is_relevant = |it: &Scored| it.shares.keys().any(|signal| *signal != Signal::Recency);
    let mut scored: Vec<Scored> = scored.filter(is_relevant).collect();
    sort(&mut scored);
    scored
}

/// Sorts texts, best first; in a tie the newer one comes first.
pub(super) fn sort(scored: &mut [Scored]) {
    scored.sort_by(|one, other| other.score.total_cmp(&one.score).then_with(|| other.no.cmp(&one.no)));
}

fn own_score(weights: &SignalWeights, text: &Evidence) -> f64 {
    let total = weights.lexical + weights.feedback;
    if total <= 0.0 {
        return 0.0;
    }
    (weights.lexical * text.lexical + weights.feedback * text.feedback.unwrap_or(0.0)) / total
}

/// The scores of the texts of a document or a session.
#[derive(Clone, Copy, Debug, Default)]
struct ParentScore {
    best: f64,
    second: f64,
}

impl ParentScore {
    /// Returns the best score of the other texts.
    fn without(self, own: f64) -> f64 {
        if own < self.best { self.best } else { self.second }
    }
}

fn parents(texts: &[Evidence], own: &NumberMap<f64>) -> NumberMap<ParentScore> {
    let mut parents: NumberMap<ParentScore> = NumberMap::default();
    for text in texts {
        let score = own.get(&text.no).copied().unwrap_or(0.0);
        let parent = parents.entry(text.parent).or_default();
        parent.second = parent.second.max(score.min(parent.best));
        parent.best = parent.best.max(score);
    }
    parents
}

/// Returns the pairs of neighbouring terms.
pub(super) fn pairs(terms: &[Arc<str>]) -> BTreeSet<(Arc<str>, Arc<str>)> {
    terms.windows(2).map(|it| (Arc::clone(&it[0]), Arc::clone(&it[1]))).collect()
}

impl Scored {
    /// Adds what the pairs of terms count that a text and the query have in common.
    pub(super) fn add_phrases(&mut self, weights: &SignalWeights, found: usize, asked: usize) {
        let share = weights.phrase * found as f64 / asked.max(1) as f64 / self.total;
        if share > 0.0 {
            self.shares.insert(Signal::Phrase, share);
            self.score = self.shares.values().sum();
        }
    }
}
