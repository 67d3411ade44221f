//! One search: from a query and a reader to ranked texts.
//!
//! The store's reader answers questions; which ones are asked, in which order, and what follows from the answers is
//! decided here, for all stores alike.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use contexture_history::Timestamp;

use super::analysis::{Analyzer, QueryTerm};
use super::bm25::{Scorer, WeighedTerm};
use super::candidates::{self, Budget, Wanted};
use super::config::RankConfig;
use super::feedback::{self, FeedbackText};
use super::reader::{CollectionStats, IndexReader, ListKey, RankedText, TextNo};
use super::signals::{self, Evidence, Scored};
use super::terms::Strength;
use super::{AnalyzerPool, Language};

/// The phrases of the query are looked for in so many texts.
const MAX_PHRASE_TEXTS: usize = 16;

/// A query on a collection.
#[derive(Clone, Debug, Default)]
pub struct RankQuery {
    /// Words; they have no syntax.
    pub text: String,
    /// The language of the collection.
    pub language: Language,
    /// How much counts for what.
    pub config: RankConfig,
    /// The time from which ages are counted; without it recency does not count.
    pub now: Option<Timestamp>,
    /// The similarity of the texts to the query by their vectors.
    pub dense: Option<Arc<Similarities>>,
}

/// How similar the texts of a collection are to a query, by their vectors.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Similarities {
    /// The numbers of the texts, in order.
    pub nos: Arc<[TextNo]>,
    /// The similarity of each, from -1 to 1.
    pub values: Vec<f32>,
    /// The most similar texts, to be ranked even if they have no term of the query.
    pub best: Vec<TextNo>,
}

impl Similarities {
    fn of(&self, no: TextNo) -> Option<f64> {
        let idx = self.nos.binary_search(&no).ok()?;
        self.values.get(idx).map(|it| f64::from(*it))
    }
}

/// The terms of the two parts of a query, weighed.
struct Weighed {
    query: Vec<WeighedTerm>,
    feedback: Vec<WeighedTerm>,
}

/// Ranks the texts of a collection, best first. Texts in a tie are in the order of their numbers, newest first.
pub async fn rank<R: IndexReader>(
    reader: &mut R,
    query: &RankQuery,
    pool: &AnalyzerPool,
) -> Result<Vec<Scored>, R::Error> {
    let mut analyzer = pool.take(query.language);
    let ranked = rank_with(reader, query, &mut analyzer).await;
    pool.put(analyzer);
    ranked
}

async fn rank_with<R: IndexReader>(
    reader: &mut R,
    query: &RankQuery,
    analyzer: &mut Analyzer,
) -> Result<Vec<Scored>, R::Error> {
    let stats = reader.stats().await?;
    let terms = analyzer.query(&query.text);
    let is_dense = query.dense.is_some() && query.config.signals.dense > 0.0;
    if stats.texts == 0 || (terms.is_empty() && !is_dense) {
        return Ok(Vec::new());
    }
    let scorer = Scorer::new(&query.config, stats);
    let mut found = Found { reader, stats, counts: HashMap::new(), texts: BTreeMap::new() };
    let mut weighed =
        Weighed { query: found.add_matches(candidates::QUERY, &terms).await?, feedback: Vec::new() };
    if query.config.signals.feedback > 0.0 {
        let common = found.feedback(analyzer, query, &scorer, &weighed.query).await?;
        weighed.feedback = found.add_matches(candidates::FEEDBACK, &common).await?;
    }
    if let Some(dense) = query.dense.as_ref().filter(|_| is_dense) {
        found.add(dense.best.iter().copied()).await?;
    }
    if query.config.signals.neighbours > 0.0 {
        found.add_neighbours().await?;
    }
    let evidence = found.evidence(query, &scorer, &weighed);
    let mut scored = signals::score(&query.config.signals, evidence);
    if query.config.signals.phrase > 0.0 {
        found.add_phrases(analyzer, query, &mut scored).await?;
    }
    Ok(scored)
}

/// What is known about the collection so far.
struct Found<'a, R> {
    reader: &'a mut R,
    stats: CollectionStats,
    counts: HashMap<Arc<str>, u64>,
    texts: BTreeMap<TextNo, RankedText>,
}

impl<R: IndexReader> Found<'_, R> {
    /// Reads the candidates that have some of the terms.
    async fn add_matches(
        &mut self,
        budget: Budget,
        terms: &[QueryTerm],
    ) -> Result<Vec<WeighedTerm>, R::Error> {
        self.count(terms).await?;
        let count = |it: &QueryTerm| self.counts.get(&it.term).copied().unwrap_or(0);
        let weighed: Vec<WeighedTerm> =
            terms.iter().map(|it| WeighedTerm::new(it, count(it), self.stats)).collect();
        let wanted = terms.iter().zip(&weighed);
        let wanted =
            wanted.map(|(it, weighed)| Wanted { term: &it.term, count: count(it), most: weighed.most });
        let wanted = candidates::by_gain(wanted);
        let long = candidates::long(budget, &wanted);
        let counts = if long.is_empty() { Vec::new() } else { self.reader.counts(&long).await? };
        let strong = long.iter().map(|it| it.term).zip(counts).collect();
        let reads = candidates::plan(budget, &wanted, &strong);
        let lists: Vec<ListKey<'_>> = reads.iter().map(|it| it.list).collect();
        let lists = self.reader.lists(&lists, budget.entries).await?;
        self.add(candidates::best(budget, &reads, &lists).into_iter()).await?;
        Ok(weighed)
    }

    async fn count(&mut self, terms: &[QueryTerm]) -> Result<(), R::Error> {
        let unknown: Vec<&Arc<str>> =
            terms.iter().map(|it| &it.term).filter(|it| !self.counts.contains_key(*it)).collect();
        let lists: Vec<ListKey<'_>> =
            unknown.iter().map(|it| ListKey { strength: Strength::Any, term: it }).collect();
        let counts = if lists.is_empty() { Vec::new() } else { self.reader.counts(&lists).await? };
        self.counts.extend(unknown.into_iter().cloned().zip(counts));
        Ok(())
    }

    /// Reads texts, unless they are known.
    async fn add(&mut self, nos: impl Iterator<Item = TextNo>) -> Result<(), R::Error> {
        let missing: Vec<TextNo> = nos.filter(|it| !self.texts.contains_key(it)).collect();
        if !missing.is_empty() {
            let texts = self.reader.texts(&missing).await?;
            self.texts.extend(texts.into_iter().map(|it| (it.no, it)));
        }
        Ok(())
    }

    /// Reads the texts before and after those that are known.
    async fn add_neighbours(&mut self) -> Result<(), R::Error> {
        let around: BTreeSet<TextNo> =
            self.texts.values().flat_map(|it| [it.before, it.after]).flatten().collect();
        self.add(around.into_iter()).await
    }

    /// Returns the terms that the best texts have in common.
    async fn feedback(
        &mut self,
        analyzer: &mut Analyzer,
        query: &RankQuery,
        scorer: &Scorer,
        terms: &[WeighedTerm],
    ) -> Result<Vec<QueryTerm>, R::Error> {
        let mut best: Vec<(TextNo, f64)> =
            self.texts.values().map(|it| (it.no, scorer.score(terms, &it.terms))).collect();
        best.retain(|(_, score)| *score > 0.0);
        best.sort_by(|one, other| other.1.total_cmp(&one.1).then_with(|| other.0.cmp(&one.0)));
        best.truncate(query.config.feedback.documents);
        let nos: Vec<TextNo> = best.iter().map(|(no, _)| *no).collect();
        let words = self.reader.words(&nos).await?;
        let text = |(no, score): (TextNo, f64)| {
            let terms = words.get(&no).map(|it| analyzer.sequence(it)).unwrap_or_default();
            FeedbackText { terms, score }
        };
        let texts: Vec<FeedbackText> = best.into_iter().map(text).collect();
        let common = feedback::common_terms(&texts);
        self.count(&common).await?;
        let count = |term: &str| self.counts.get(term).copied().unwrap_or(0);
        Ok(feedback::select(common, query.config.feedback.terms, self.stats.texts, count))
    }

    fn evidence(&self, query: &RankQuery, scorer: &Scorer, terms: &Weighed) -> Vec<Evidence> {
        let signals = &query.config.signals;
        // Both parts share one denominator, so their order is that of the expanded query.
        let most = |terms: &[WeighedTerm]| terms.iter().map(|it| it.most).sum::<f64>();
        let total = signals.lexical + signals.feedback;
        let denominator =
            (signals.lexical * most(&terms.query) + signals.feedback * most(&terms.feedback)) / total;
        let share = |score: f64| if denominator > 0.0 { score / denominator } else { 0.0 };
        let of = |text: &RankedText| Evidence {
            no: text.no,
            parent: text.parent,
            before: text.before,
            after: text.after,
            lexical: share(scorer.score(&terms.query, &text.terms)),
            feedback: (signals.feedback > 0.0).then(|| share(scorer.score(&terms.feedback, &text.terms))),
            recency: query.now.map(|now| recency(now, text.at, query.config.half_life_days)),
            dense: query.dense.as_ref().map(|it| it.of(text.no).unwrap_or(0.0).clamp(0.0, 1.0)),
        };
        self.texts.values().map(of).collect()
    }

    /// Adds the signal of phrases to the best texts, and sorts again.
    async fn add_phrases(
        &mut self,
        analyzer: &mut Analyzer,
        query: &RankQuery,
        scored: &mut [Scored],
    ) -> Result<(), R::Error> {
        let pairs = signals::pairs(&analyzer.sequence(&query.text));
        if pairs.is_empty() {
            return Ok(());
        }
        let nos: Vec<TextNo> = scored.iter().take(MAX_PHRASE_TEXTS).map(|it| it.no).collect();
        let words = self.reader.words(&nos).await?;
        for text in scored.iter_mut().take(MAX_PHRASE_TEXTS) {
            let terms = words.get(&text.no).map(|it| analyzer.sequence(it)).unwrap_or_default();
            text.add_phrases(
                &query.config.signals,
                signals::pairs(&terms).intersection(&pairs).count(),
                pairs.len(),
            );
        }
        signals::sort(scored);
        Ok(())
    }
}

/// Returns 1 for now, and half as much after each half-life.
fn recency(now: Timestamp, at: Timestamp, half_life_days: f64) -> f64 {
    const DAY: f64 = 24.0 * 60.0 * 60.0 * 1000.0;
    let days = now.0.saturating_sub(at.0).max(0) as f64 / DAY;
    0.5_f64.powf(days / half_life_days.max(f64::MIN_POSITIVE))
}
