//! Pseudo-relevance feedback: the terms that the best texts of a first round have in common (RM3).
//!
//! A term is likely in a text by its share of it, and texts count by their scores. Three rules keep noise out:
//!
//! 1. A term of one text only is a detail, not a topic.
//! 2. A term of more than a tenth of the collection does not tell texts apart.
//! 3. Shares are smoothed by [`SMOOTHING`] terms: a text of five words must not outweigh a page.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::analysis::QueryTerm;
use super::bm25::rarity;

/// Terms of a feedback text are counted up to here.
const MAX_TERMS: usize = 2_000;
/// Shorter terms, and terms without letters, say little about a topic.
const MIN_CHARS: usize = 3;
const SMOOTHING: f64 = 100.0;
/// How many terms are considered: the index has to be asked how rare each is.
const MAX_CONSIDERED: usize = 40;

/// A text that is taken to be relevant: its terms in order, and its score.
#[derive(Clone, Debug)]
pub(super) struct FeedbackText {
    pub(super) terms: Vec<Arc<str>>,
    pub(super) score: f64,
}

/// Returns the terms that are most likely in the texts, with that likelihood as weight.
pub(super) fn common_terms(texts: &[FeedbackText]) -> Vec<QueryTerm> {
    let mut weights: BTreeMap<&Arc<str>, (f64, u32)> = BTreeMap::new();
    for text in texts {
        let mut counts: BTreeMap<&Arc<str>, u32> = BTreeMap::new();
        let terms = text.terms.iter().take(MAX_TERMS).filter(|it| is_topical(it));
        terms.for_each(|it| *counts.entry(it).or_default() += 1);
        let length = f64::from(counts.values().sum::<u32>()) + SMOOTHING;
        for (term, count) in counts {
            let (weight, n_texts) = weights.entry(term).or_default();
            *weight += text.score * f64::from(count) / length;
            *n_texts += 1;
        }
    }
    let is_common = |n_texts: u32| n_texts > 1 || texts.len() == 1;
    let common = weights.into_iter().filter(|(_, (_, n_texts))| is_common(*n_texts));
    let mut terms: Vec<QueryTerm> =
        common.map(|(term, (weight, _))| QueryTerm { term: Arc::clone(term), weight }).collect();
    keep_best(&mut terms, MAX_CONSIDERED, |it| it.weight);
    terms
}

/// Returns the terms to add to a query, at most `max`, of a collection of so many texts. `count` says how many of them
/// have a term. The weights add up to 1.
pub(super) fn select(
    mut terms: Vec<QueryTerm>,
    max: usize,
    texts: u64,
    count: impl Fn(&str) -> u64,
) -> Vec<QueryTerm> {
    // In a handful of texts nothing is rare.
    terms.retain(|it| count(&it.term) <= (texts / 10).max(3));
    keep_best(&mut terms, max, |it| it.weight * rarity(count(&it.term), texts));
    let total: f64 = terms.iter().map(|it| it.weight).sum();
    terms.iter_mut().for_each(|it| it.weight /= total.max(f64::MIN_POSITIVE));
    terms
}

/// Sorts terms by a value, highest first, and drops the rest. Equal ones stay in their order.
fn keep_best(terms: &mut Vec<QueryTerm>, max: usize, value: impl Fn(&QueryTerm) -> f64) {
    terms.sort_by(|one, other| value(other).total_cmp(&value(one)));
    terms.truncate(max);
}

fn is_topical(term: &str) -> bool {
    let is_word = term.chars().count() >= MIN_CHARS || !term.is_ascii();
    is_word && term.chars().all(char::is_alphabetic)
}
