//! BM25 with weighted fields.

use super::analysis::QueryTerm;
use super::config::{FieldWeights, RankConfig};
use super::reader::CollectionStats;
use super::terms::{TermCounts, TermVector, hash};

/// A term with its weight in one query on one collection.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct WeighedTerm {
    hash: u32,
    /// The most that it contributes.
    pub(super) most: f64,
}

impl WeighedTerm {
    pub(super) fn new(term: &QueryTerm, count: u64, stats: CollectionStats) -> Self {
        WeighedTerm { hash: hash(&term.term), most: term.weight * rarity(count, stats.texts) }
    }
}

/// Returns how rare a term is: high for few texts among many. Rounded so that all machines agree.
pub(super) fn rarity(count: u64, texts: u64) -> f64 {
    let (count, texts) = (count as f64, texts.max(count) as f64);
    let rarity = ((texts - count + 0.5) / (count + 0.5)).ln_1p();
    (rarity * 65_536.0).round() / 65_536.0
}

/// Scores texts of one collection.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scorer {
    k1: f64,
    b: f64,
    fields: FieldWeights,
    average_length: f64,
}

impl Scorer {
    pub(super) fn new(config: &RankConfig, stats: CollectionStats) -> Self {
        let average_length = stats.length as f64 / stats.texts.max(1) as f64;
        Self { k1: config.k1, b: config.b, fields: config.fields, average_length: average_length.max(1.0) }
    }

    /// Returns the score of a text: less than the sum of what the terms contribute at most.
    pub(super) fn score(&self, terms: &[WeighedTerm], text: &TermVector) -> f64 {
        let length = f64::from(text.length()) / self.average_length;
        let saturation = self.k1 * (1.0 - self.b + self.b * length);
        let of_term = |term: &WeighedTerm| {
            let frequency = text.counts(term.hash).map_or(0.0, |it| self.frequency(it));
            if frequency > 0.0 { term.most * frequency / (frequency + saturation) } else { 0.0 }
        };
        terms.iter().map(of_term).sum()
    }

    fn frequency(&self, counts: TermCounts) -> f64 {
        let FieldWeights { body, title, headings, identifiers } = self.fields;
        body * f64::from(counts.body)
            + title * f64::from(counts.title)
            + headings * f64::from(counts.headings)
            + identifiers * f64::from(counts.identifiers)
    }
}
