//! Full-text search in archived items: queries, hits and their ranking.
//!
//! Items are indexed and ranked as everything else that is searched ([`crate::rank`]), with the settings for
//! conversations: what was said before and after an item counts, and so does the rest of its day. Only items that have
//! a term of the query are found. A store's reader knows the archived items of one thread; their numbers are their
//! positions.

use std::collections::{BTreeMap, BTreeSet};

use contexture_history::search::{searchable, snippet};
use contexture_history::{Archived, Body, Item, Seq, Summary, Timestamp, TurnNo};

use crate::rank::{
    Analyzer, AnalyzerPool, CollectionStats, Fields, IndexReader, IndexTerms, Language, MemoryReader,
    RankConfig, RankQuery, RankedText, Signal, TermLists, TextNo, at_once, rank,
};

/// The most items that a search finds.
pub const MAX_FOUND: usize = 100;
/// How many characters of an item are shown.
const SNIPPET_CHARS: usize = 400;

/// What was said within so many positions counts as said before or after: changes of the thread lie in between.
pub const NEAR: u64 = 3;
const DAY_MS: i64 = 24 * 60 * 60 * 1000;

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
    /// Returns the query for the ranking.
    pub fn query(&self) -> RankQuery {
        let (text, config) = (self.query.clone(), RankConfig::conversation());
        RankQuery { text, config, language: LANGUAGE, now: None, dense: None }
    }

    /// Whether a position is in one of the ranges.
    pub fn covers(&self, seq: Seq) -> bool {
        covers(&self.within, seq)
    }

    /// Returns the positions of the best items, best first.
    pub async fn best<R: IndexReader>(
        &self,
        reader: &mut R,
        pool: &AnalyzerPool,
    ) -> Result<Vec<Seq>, R::Error> {
        let scored = rank(reader, &self.query(), pool).await?;
        let own = scored.into_iter().filter(|it| it.shares.contains_key(&Signal::Lexical));
        let covered = own.map(|it| Seq(it.no)).filter(|it| self.covers(*it));
        Ok(covered.take(self.max.min(MAX_FOUND)).collect())
    }
}

/// Threads have no language of their own. Stems of another language do no harm: texts and queries share them.
const LANGUAGE: Language = Language::English;

/// Turns items into terms. It remembers words, so one should serve many items.
#[derive(Debug)]
pub struct ItemAnalyzer(Analyzer);

impl Default for ItemAnalyzer {
    fn default() -> Self {
        Self(Analyzer::new(LANGUAGE))
    }
}

impl ItemAnalyzer {
    /// Returns what an index keeps of an item, if it has any searchable text.
    pub fn terms(&mut self, item: &Item) -> Option<IndexTerms> {
        let text = searchable(item)?;
        Some(self.0.index(Fields { body: &text, ..Fields::default() })).filter(|it| !it.is_empty())
    }
}

/// Returns what counts as the session of an item: its day.
pub fn day(at: Timestamp) -> u64 {
    at.0.div_euclid(DAY_MS).cast_unsigned()
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

/// Makes hits of the items that a query found.
#[derive(Debug)]
pub struct HitWriter {
    analyzer: Analyzer,
    terms: BTreeSet<String>,
}

impl HitWriter {
    /// Returns a writer for the hits of a search.
    pub fn new(search: &Search) -> Self {
        let mut analyzer = Analyzer::new(LANGUAGE);
        let terms = analyzer.query(&search.query).into_iter().map(|it| it.term.to_string()).collect();
        Self { analyzer, terms }
    }

    /// Returns the hit for an item.
    pub fn hit(&mut self, item: &Item) -> SearchHit {
        let text = searchable(item).unwrap_or_default();
        let words = self.analyzer.words_with(&text, &self.terms);
        SearchHit {
            seq: item.seq,
            turn: item.turn,
            at: item.at,
            kind: item.body.kind().to_owned(),
            text: snippet(&text, &words, SNIPPET_CHARS),
        }
    }
}

/// Returns the ranges that the summaries among items archive. Their items are what a search can find from then on. What
/// a summary takes over from the archives it replaces was archived with those; in an old log that is most of the range.
pub fn archived_ranges(items: &[Item]) -> Vec<(Seq, Seq)> {
    let ranges = |item: &Item| match &item.body {
        Body::Summary(summary) => newly_archived(summary, summary.last.min(item.seq)),
        _ => Vec::new(),
    };
    items.iter().flat_map(ranges).collect()
}

/// Returns the gaps between the archives that a summary replaces, up to the last position it covers.
fn newly_archived(summary: &Summary, last: Seq) -> Vec<(Seq, Seq)> {
    let mut replaced = ranges_of(&summary.replaces);
    replaced.retain(|(first, last)| first <= last); // An imported log may say anything.
    replaced.sort_unstable();
    let (mut next, mut gaps) = (summary.first, Vec::new());
    for (first, last_replaced) in replaced {
        gaps.push((next, Seq(first.0.saturating_sub(1)).min(last)));
        next = next.max(last_replaced.next());
    }
    gaps.push((next, last));
    gaps.retain(|(first, last)| first <= last);
    gaps
}

/// Returns the ranges of archives.
pub fn ranges_of(archives: &[Archived]) -> Vec<(Seq, Seq)> {
    archives.iter().map(|it| (it.first, it.last)).collect()
}

/// Looks at each of these items of a log, which are in order. The index is made for each search.
pub(crate) fn scan(log: &[Item], archived: &[(Seq, Seq)], search: &Search) -> Vec<SearchHit> {
    let (mut analyzer, mut lists) = (ItemAnalyzer::default(), TermLists::default());
    let items = log.iter().filter(|it| covers(archived, it.seq));
    let items = items.filter_map(|it| Some((it.seq.0, (it, analyzer.terms(it)?))));
    let items: BTreeMap<TextNo, (&Item, IndexTerms)> = items.collect();
    items.iter().for_each(|(no, (_, terms))| lists.insert(*no, terms));
    let length = items.values().map(|(_, it)| u64::from(it.vector.length())).sum();
    let mut reader = MemoryReader {
        stats: CollectionStats { texts: items.len() as u64, length },
        lists: &lists,
        covers: |no| search.covers(Seq(no)),
        text: |no| ranked(&items, no),
        words: |no| searchable(items.get(&no)?.0),
    };
    let best = at_once(search.best(&mut reader, &AnalyzerPool::default()));
    let at = |seq: Seq| log.binary_search_by_key(&seq, |it| it.seq).ok().map(|idx| &log[idx]);
    let mut writer = HitWriter::new(search);
    best.into_iter().filter_map(at).map(|it| writer.hit(it)).collect()
}

fn ranked(items: &BTreeMap<TextNo, (&Item, IndexTerms)>, no: TextNo) -> Option<RankedText> {
    let (item, terms) = items.get(&no)?;
    let before = items.range(no.saturating_sub(NEAR)..no).next_back();
    let after = items.range(no + 1..=no.saturating_add(NEAR)).next();
    Some(RankedText {
        no,
        parent: day(item.at),
        before: before.map(|(no, _)| *no),
        after: after.map(|(no, _)| *no),
        at: item.at,
        terms: terms.vector.clone(),
    })
}

pub(crate) fn covers(ranges: &[(Seq, Seq)], seq: Seq) -> bool {
    ranges.iter().any(|(first, last)| (first..=last).contains(&&seq))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{Archived, Seq, Summary, newly_archived};

    fn archived((first, last): (u64, u64)) -> Archived {
        Archived { number: 1, record: Seq(0), first: Seq(first), last: Seq(last), turns: Default::default() }
    }

    fn summary((first, last): (u64, u64), replaced: &[(u64, u64)]) -> Summary {
        Summary {
            text: String::new(),
            facts: Vec::new(),
            first: Seq(first),
            last: Seq(last),
            number: 2,
            turns: Default::default(),
            strategy: None,
            before: Default::default(),
            replaces: replaced.iter().copied().map(archived).collect(),
            left_out: None,
            event: None,
        }
    }

    proptest! {
        /// Whatever a log says, also an imported one: every covered position is new or was replaced, and never both.
        #[test]
        fn a_summary_archives_what_it_covers_and_does_not_replace(
            range in (1u64..40, 1u64..40),
            replaced in prop::collection::vec((0u64..40, prop_oneof![0u64..40, Just(u64::MAX)]), 0..4),
        ) {
            let gaps = newly_archived(&summary(range, &replaced), Seq(range.1));
            for position in 0..60 {
                let is_in = |(first, last): (u64, u64)| first <= position && position <= last;
                let n_gaps = gaps.iter().filter(|it| is_in((it.0.0, it.1.0))).count();
                let is_new = is_in(range) && !replaced.iter().any(|it| is_in(*it));
                prop_assert_eq!(n_gaps, usize::from(is_new), "position {}", position);
            }
        }
    }
}
