//! Which texts are ranked at all.
//!
//! An index of a hundred thousand texts has lists of tens of thousands for frequent terms. The rule, in full:
//!
//! 1. Terms are taken by their possible contribution to a score, highest first.
//! 2. A term's list is read if it fits into what is left of the [`Budget`]; otherwise the list of the texts that are
//!    likely to be about the term, if that one fits; otherwise neither.
//! 3. If no list fits, the newest texts of the first term's shorter list are read, as many as the budget allows.
//! 4. If there are more texts than the budget allows, those are kept in which the terms that were read have the
//!    highest possible contribution; in a tie the newer ones.
//!
//! It depends on the contents of the index alone, so all stores rank the same texts.

use std::collections::HashMap;

use super::numbers::NumberMap;
use super::reader::{ListKey, TextNo};
use super::terms::Strength;

/// What finding candidates may cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Budget {
    /// How many entries of lists are read.
    pub(super) entries: usize,
    /// How many texts are ranked.
    pub(super) texts: usize,
}

/// For the terms of a query.
pub(super) const QUERY: Budget = Budget { entries: 16_000, texts: 600 };
/// For the terms of feedback: they reorder what was found, and rarely find what was not.
pub(super) const FEEDBACK: Budget = Budget { entries: 8_000, texts: 400 };

/// A term to find texts by.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wanted<'a> {
    pub(super) term: &'a str,
    /// How many texts have it.
    pub(super) count: u64,
    /// The most that it can contribute to a score.
    pub(super) most: f64,
}

/// A list to read, with what it says about the texts in it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Read<'a> {
    pub(super) list: ListKey<'a>,
    pub(super) gain: f64,
}

/// The share of its most that a term contributes at least.
const WEAK: f64 = 0.5;

/// Returns the terms, best first.
pub(super) fn by_gain<'a>(terms: impl Iterator<Item = Wanted<'a>>) -> Vec<Wanted<'a>> {
    let mut terms: Vec<Wanted<'a>> = terms.filter(|it| it.count > 0).collect();
    terms.sort_by(|one, other| other.most.total_cmp(&one.most).then_with(|| one.term.cmp(other.term)));
    terms
}

/// Returns the terms whose list may be too long to be read: of these the shorter list has to be counted.
pub(super) fn long<'a>(budget: Budget, terms: &[Wanted<'a>]) -> Vec<ListKey<'a>> {
    let mut left = budget.entries as u64;
    let mut long = Vec::new();
    for term in terms {
        match left.checked_sub(term.count) {
            Some(rest) => left = rest,
            None => long.push(ListKey { strength: Strength::Strong, term: term.term }),
        }
    }
    long
}

/// Decides which lists to read. `strong` are the lengths of the lists that [`long`] names.
pub(super) fn plan<'a>(budget: Budget, terms: &[Wanted<'a>], strong: &HashMap<&str, u64>) -> Vec<Read<'a>> {
    let mut left = budget.entries as u64;
    let mut reads = Vec::new();
    for term in terms {
        let mut read = |strength, count: u64, share: f64| match left.checked_sub(count) {
            Some(rest) => {
                left = rest;
                let list = ListKey { strength, term: term.term };
                reads.push(Read { list, gain: term.most * share });
                true
            }
            None => false,
        };
        if !read(Strength::Any, term.count, WEAK) {
            let count = strong.get(term.term).copied().filter(|it| *it > 0);
            // A list that does not fit either is left out.
            let _ = count.is_some_and(|it| read(Strength::Strong, it, 1.0));
        }
    }
    if let (true, Some(first)) = (reads.is_empty(), terms.first()) {
        let has_strong = strong.get(first.term).is_some_and(|it| *it > 0);
        let strength = if has_strong { Strength::Strong } else { Strength::Any };
        reads.push(Read { list: ListKey { strength, term: first.term }, gain: first.most });
    }
    reads
}

/// Returns the texts to rank.
pub(super) fn best(budget: Budget, reads: &[Read<'_>], lists: &[Vec<TextNo>]) -> Vec<TextNo> {
    let mut gains: NumberMap<f64> = NumberMap::default();
    for (read, list) in reads.iter().zip(lists) {
        list.iter().for_each(|no| *gains.entry(*no).or_default() += read.gain);
    }
    let mut texts: Vec<(TextNo, f64)> = gains.into_iter().collect();
    let order = |one: &(TextNo, f64), other: &(TextNo, f64)| {
        other.1.total_cmp(&one.1).then_with(|| other.0.cmp(&one.0))
    };
    if texts.len() > budget.texts {
        texts.select_nth_unstable_by(budget.texts, order);
        texts.truncate(budget.texts);
    }
    let mut texts: Vec<TextNo> = texts.into_iter().map(|(no, _)| no).collect();
    texts.sort_unstable();
    texts
}
