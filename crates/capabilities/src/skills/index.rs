//! Finds the skills that match what a user says.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;

use contexture_compose::ports::SkillSummary;
use contexture_history::Timestamp;
use contexture_session::rank::{
    Analyzer, AnalyzerPool, CollectionStats, Fields, IndexReader, IndexTerms, Language, ListKey, RankConfig,
    RankQuery, RankedText, SignalWeights, Strength, TextNo, rank,
};
use futures::FutureExt;

/// An index of skills by name, description and instructions. It ranks as all our search does.
pub struct SkillIndex {
    skills: Vec<SkillSummary>,
    terms: Vec<IndexTerms>,
    lists: BTreeMap<(Strength, String), BTreeSet<TextNo>>,
    pool: AnalyzerPool,
}

/// A skill that matches.
#[derive(Clone, Debug, PartialEq)]
pub struct SkillMatch {
    /// The name of the skill.
    pub name: String,
    /// What it is for.
    pub description: String,
    /// How well it matches, from 0 to 1.
    pub score: f64,
}

impl SkillIndex {
    /// Indexes skills.
    ///
    /// ```
    /// use contexture_capabilities::SkillIndex;
    /// use contexture_compose::ports::{FixedSkill, FixedSkills, SkillSource};
    ///
    /// let skills = FixedSkills(vec![
    ///     FixedSkill::new("refunds", "Pays back money for orders.", "Ask for the order number."),
    ///     FixedSkill::new("poems", "Writes poems.", "Rhyme."),
    /// ]);
    /// let found = SkillIndex::new(skills.list()).search("I want my money back", 10);
    /// assert_eq!(found.iter().map(|it| &*it.name).collect::<Vec<_>>(), ["refunds"]);
    /// ```
    pub fn new(skills: Vec<SkillSummary>) -> Self {
        let mut analyzer = Analyzer::new(Language::default());
        let mut index =
            Self { skills, terms: Vec::new(), lists: BTreeMap::new(), pool: AnalyzerPool::default() };
        for (no, skill) in (0..).zip(&index.skills) {
            // The description says what a skill is for, so it counts like its name.
            let title = format!("{} {}", skill.name.replace('-', " "), skill.description);
            let terms = analyzer.index(Fields { title: &title, headings: &[], body: &skill.words });
            let all = terms.all().map(|it| (Strength::Any, it));
            for (strength, term) in all.chain(terms.strong().map(|it| (Strength::Strong, it))) {
                index.lists.entry((strength, term.to_owned())).or_default().insert(no);
            }
            index.terms.push(terms);
        }
        index
    }

    /// Returns the skills that match a text, best first, at most `max`.
    pub fn search(&self, text: &str, max: usize) -> Vec<SkillMatch> {
        let signals = SignalWeights { feedback: 0.0, phrase: 0.0, dense: 0.0, ..SignalWeights::default() };
        let config = RankConfig { signals, ..RankConfig::default() };
        let query = RankQuery { text: text.to_owned(), config, ..RankQuery::default() };
        // The index is in memory, so nothing is waited for.
        let ranked = rank(&mut Reader(self), &query, &self.pool).now_or_never();
        let scored = ranked.map(|Ok(it)| it).unwrap_or_default().into_iter().filter(|it| it.score > 0.0);
        let found = scored.filter_map(|it| {
            let SkillSummary { name, description, .. } = self.skills.get(usize::try_from(it.no).ok()?)?;
            Some(SkillMatch { name: name.clone(), description: description.clone(), score: it.score })
        });
        found.take(max).collect()
    }
}

struct Reader<'a>(&'a SkillIndex);

impl Reader<'_> {
    fn list(&self, key: &ListKey<'_>) -> Option<&BTreeSet<TextNo>> {
        self.0.lists.get(&(key.strength, key.term.to_owned()))
    }
}

impl IndexReader for Reader<'_> {
    type Error = Infallible;

    async fn stats(&mut self) -> Result<CollectionStats, Infallible> {
        let length = self.0.terms.iter().map(|it| u64::from(it.vector.length())).sum();
        Ok(CollectionStats { texts: self.0.terms.len() as u64, length })
    }

    async fn counts(&mut self, lists: &[ListKey<'_>]) -> Result<Vec<u64>, Infallible> {
        Ok(lists.iter().map(|it| self.list(it).map_or(0, |it| it.len() as u64)).collect())
    }

    async fn lists(&mut self, lists: &[ListKey<'_>], max: usize) -> Result<Vec<Vec<TextNo>>, Infallible> {
        let list = |it| self.list(it).into_iter().flatten().rev().take(max).copied().collect();
        Ok(lists.iter().map(list).collect())
    }

    async fn texts(&mut self, nos: &[TextNo]) -> Result<Vec<RankedText>, Infallible> {
        let text = |no: &TextNo| {
            let terms = self.0.terms.get(usize::try_from(*no).ok()?)?.vector.clone();
            Some(RankedText { no: *no, parent: *no, before: None, after: None, at: Timestamp(0), terms })
        };
        Ok(nos.iter().filter_map(text).collect())
    }

    async fn words(&mut self, nos: &[TextNo]) -> Result<BTreeMap<TextNo, String>, Infallible> {
        let words = |no: &TextNo| {
            let skill = self.0.skills.get(usize::try_from(*no).ok()?)?;
            Some((*no, format!("{} {} {}", skill.name, skill.description, skill.words)))
        };
        Ok(nos.iter().filter_map(words).collect())
    }
}
