//! Finds the skills that match what a user says.

use contexture_compose::ports::SkillSummary;
use contexture_history::Timestamp;
use contexture_session::rank::{
    Analyzer, AnalyzerPool, CollectionStats, Fields, IndexTerms, Language, MemoryReader, RankConfig,
    RankQuery, RankedText, SignalWeights, TermLists, TextNo, at_once, rank,
};

/// An index of skills by name, description and instructions. It ranks as all our search does.
pub struct SkillIndex {
    skills: Vec<SkillSummary>,
    terms: Vec<IndexTerms>,
    lists: TermLists,
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
            Self { skills, terms: Vec::new(), lists: TermLists::default(), pool: AnalyzerPool::default() };
        for (no, skill) in (0..).zip(&index.skills) {
            // The description says what a skill is for, so it counts like its name.
            let title = format!("{} {}", skill.name.replace('-', " "), skill.description);
            let terms = analyzer.index(Fields { title: &title, headings: &[], body: &skill.words });
            index.lists.insert(no, &terms);
            index.terms.push(terms);
        }
        index
    }

    /// Returns the skills that match a text, best first, at most `max`.
    pub fn search(&self, text: &str, max: usize) -> Vec<SkillMatch> {
        let signals = SignalWeights { feedback: 0.0, phrase: 0.0, dense: 0.0, ..SignalWeights::default() };
        let config = RankConfig { signals, ..RankConfig::default() };
        let query = RankQuery { text: text.to_owned(), config, ..RankQuery::default() };
        let length = self.terms.iter().map(|it| u64::from(it.vector.length())).sum();
        let mut reader = MemoryReader {
            stats: CollectionStats { texts: self.terms.len() as u64, length },
            lists: &self.lists,
            covers: |_| true,
            text: |no| self.ranked(no),
            words: |no| self.words(no),
        };
        let scored = at_once(rank(&mut reader, &query, &self.pool)).into_iter().filter(|it| it.score > 0.0);
        let found = scored.filter_map(|it| {
            let SkillSummary { name, description, .. } = self.skills.get(usize::try_from(it.no).ok()?)?;
            Some(SkillMatch { name: name.clone(), description: description.clone(), score: it.score })
        });
        found.take(max).collect()
    }

    fn ranked(&self, no: TextNo) -> Option<RankedText> {
        let terms = self.terms.get(usize::try_from(no).ok()?)?.vector.clone();
        Some(RankedText { no, parent: no, before: None, after: None, at: Timestamp(0), terms })
    }

    fn words(&self, no: TextNo) -> Option<String> {
        let skill = self.skills.get(usize::try_from(no).ok()?)?;
        Some(format!("{} {} {}", skill.name, skill.description, skill.words))
    }
}
