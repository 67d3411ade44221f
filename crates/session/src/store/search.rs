//! Full-text search in archived items: queries, hits and their ranking.
//!
//! A store only reports which items contain which words. Ranking and snippets are computed here, so they are the same
//! for every store, and one thread never affects the ranking in another.

use std::collections::BTreeMap;

use contexture_history::search::{query_words, searchable, snippet, words};
use contexture_history::{Archived, Body, Item, Seq, Timestamp, TurnNo};

/// The most items that a search finds.
pub const MAX_FOUND: usize = 100;
/// How many characters of an item are shown.
const SNIPPET_CHARS: usize = 400;

/// A search in a thread.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Search {
    /// Words; an item with any of them is found. They are literal, see [`contexture_history::search`].
    pub query: String,
    /// The first and the last position of each range to look in.
    pub within: Vec<(Seq, Seq)>,
    /// How many items at most; never more than [`MAX_FOUND`].
    pub max: usize,
}

impl Search {
    /// Returns the words to search for: at most 32, each once, consisting of letters and digits only.
    pub fn words(&self) -> Vec<String> {
        query_words(&self.query)
    }

    /// Whether a position is in one of the ranges.
    pub fn covers(&self, seq: Seq) -> bool {
        covers(&self.within, seq)
    }
}

/// An item that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SearchHit {
    /// The item's position.
    pub seq: Seq,
    /// The turn it belongs to.
    pub turn: TurnNo,
    /// The time of the append.
    pub at: Timestamp,
    /// Its kind, see [`Body::kind`].
    pub kind: String,
    /// The snippet of its text with the most query words, at most 400 characters.
    pub text: String,
}

impl SearchHit {
    /// Returns the hit for an item that contains some of the words.
    pub fn of(item: &Item, words: &[String]) -> SearchHit {
        let text = searchable(item).unwrap_or_default();
        SearchHit {
            seq: item.seq,
            turn: item.turn,
            at: item.at,
            kind: item.body.kind().to_owned(),
            text: snippet(&text, words, SNIPPET_CHARS),
        }
    }
}

/// Which items contain which words of a query.
#[derive(Clone, Debug, Default)]
pub struct Hits {
    /// The words of each item, as a bit set.
    items: BTreeMap<Seq, u64>,
    /// How many items have a word, for each word.
    counts: BTreeMap<usize, u64>,
}

impl Hits {
    /// Notes that an item has a word, given by its number in the query.
    pub fn add(&mut self, seq: Seq, word: usize) {
        let bit = u32::try_from(word).ok().and_then(|it| 1_u64.checked_shl(it)).unwrap_or(0);
        let bits = self.items.entry(seq).or_default();
        if *bits & bit == 0 {
            *bits |= bit;
            *self.counts.entry(word).or_default() += 1;
        }
    }

    /// Returns the items with the most and the rarest words, best first; ties are broken by recency.
    pub fn best(&self, max: usize) -> Vec<Seq> {
        let weights: Vec<(usize, u64)> =
            self.counts.iter().map(|(word, count)| (*word, self.weight(*count))).collect();
        let score = |bits: u64| -> u64 {
            weights.iter().filter(|(word, _)| bits >> word & 1 == 1).map(|(_, weight)| weight).sum()
        };
        let mut scored: Vec<(u64, Seq)> = self.items.iter().map(|(seq, bits)| (score(*bits), *seq)).collect();
        scored.sort_unstable_by(|one, other| other.cmp(one));
        scored.into_iter().take(max.min(MAX_FOUND)).map(|(_, seq)| seq).collect()
    }

    /// Returns the weight of a word, given how many of the found items contain it. Rounded so that all machines agree.
    fn weight(&self, count: u64) -> u64 {
        let share = self.items.len() as f64 / count.max(1) as f64;
        ((1.0 + share).ln() * 1024.0).round() as u64
    }
}

/// Returns the ranges that the summaries among items archive. Their items are what a search can find from then on.
pub fn archived_ranges(items: &[Item]) -> Vec<(Seq, Seq)> {
    let range = |item: &Item| match &item.body {
        Body::Summary(summary) => Some((summary.first, summary.last.min(item.seq))),
        _ => None,
    };
    items.iter().filter_map(range).collect()
}

/// Returns the ranges of archives.
pub fn ranges_of(archives: &[Archived]) -> Vec<(Seq, Seq)> {
    archives.iter().map(|it| (it.first, it.last)).collect()
}

/// Looks at each item of a log, which has all of its items in order.
pub(crate) fn scan(log: &[Item], archived: &[(Seq, Seq)], search: &Search) -> Vec<SearchHit> {
    let asked = search.words();
    if asked.is_empty() {
        return Vec::new();
    }
    let mut hits = Hits::default();
    for item in log.iter().filter(|it| search.covers(it.seq) && covers(archived, it.seq)) {
        let words = searchable(item).map(|it| words(&it)).unwrap_or_default();
        let matching = asked.iter().enumerate().filter(|(_, word)| words.contains(*word));
        matching.for_each(|(idx, _)| hits.add(item.seq, idx));
    }
    let at = |seq: Seq| log.get(usize::try_from(seq.0.checked_sub(1)?).ok()?);
    hits.best(search.max).into_iter().filter_map(at).map(|it| SearchHit::of(it, &asked)).collect()
}

pub(crate) fn covers(ranges: &[(Seq, Seq)], seq: Seq) -> bool {
    ranges.iter().any(|(first, last)| (first..=last).contains(&&seq))
}
