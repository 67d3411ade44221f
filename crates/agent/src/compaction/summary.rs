//! Turns the summarizer's answer into what is committed.
//!
//! A summary is checked before it is used. If it failed or was rejected, excerpts made without a model replace the
//! range instead. If even these are too long, the range is left out, with the reason; a micro compaction leaves it
//! unchanged. Whatever replaces the range, its facts are committed too.

use contexture_compose::BoxError;
use contexture_history::compaction::{
    ExtractLimits, FactLimits, Plan, Strategy, SummaryPrompt, SummaryVerdict, VerdictRules, extract, facts,
    judge, quoted_facts, summary_prompt,
};
use contexture_history::{Fact, Turn};
use contexture_message::{TokenCounter, Tokens};

use super::summarizer::Summarized;
use crate::event::Made;

/// What is known about a range before it is summarised.
pub(crate) struct Material {
    pub(crate) plan: Plan,
    pub(crate) turns: Vec<Turn>,
    pub(crate) facts: Vec<Fact>,
    limits: FactLimits,
    rules: VerdictRules,
}

/// The result to commit.
#[derive(Debug)]
pub(crate) struct Replacement {
    /// The text, or why the range is left out; `None` if nothing changes.
    pub(crate) text: Option<Result<String, String>>,
    pub(crate) facts: Vec<Fact>,
    pub(crate) made: Made,
    /// Why the summarizer's summary was not used.
    pub(crate) reason: Option<String>,
}

impl Material {
    /// Extracts the facts of a range. `carried` are those of its summaries, `usable` is the token limit of a request.
    pub(crate) fn new(
        plan: Plan,
        turns: Vec<Turn>,
        carried: &[Fact],
        usable: Tokens,
        counter: &dyn TokenCounter,
    ) -> Self {
        let limits = FactLimits::new(usable, plan.before);
        let facts = facts(&turns, carried, &limits, counter);
        Self { plan, turns, facts, limits, rules: VerdictRules::default() }
    }

    /// Returns the prompt for a model whose requests may have `room` tokens, if known. A summary longer than a quarter
    /// of that would soon have to be summarised itself.
    pub(crate) fn prompt(&self, room: Option<Tokens>) -> SummaryPrompt {
        let most = room.map_or(Tokens(u32::MAX), |it| Tokens(it.0 / 4));
        summary_prompt(&self.facts, self.plan.before, most, &self.rules)
    }

    /// Decides what replaces the range.
    pub(crate) fn settle(
        &self,
        summary: Result<Summarized, BoxError>,
        counter: &dyn TokenCounter,
    ) -> Replacement {
        let reason = match summary {
            Err(err) => format!("the summariser failed: {err}"),
            Ok(summary) => match judge(&summary.text, &self.facts, self.plan.before, &self.rules, counter) {
                SummaryVerdict::Accepted { text, .. } => {
                    let facts = self.with_quoted(&summary.text, counter);
                    return Replacement { text: Some(Ok(text)), facts, made: Made::Summary, reason: None };
                }
                SummaryVerdict::Rejected { flaws } => {
                    flaws.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
                }
            },
        };
        let facts = self.facts.clone();
        match extract(&self.turns, &facts, self.plan.before, &ExtractLimits::default(), counter) {
            Ok(text) => {
                Replacement { text: Some(Ok(text)), facts, made: Made::Extract, reason: Some(reason) }
            }
            // A micro compaction can keep its rounds; the others must free the space.
            Err(_) if self.plan.strategy == Strategy::ReactiveMicro => {
                Replacement { text: None, facts, made: Made::Unchanged, reason: Some(reason) }
            }
            Err(err) => self.left_out(format!("{reason}; no excerpt is short enough: {err}")),
        }
    }

    /// Leaves the range out and keeps only its facts.
    pub(crate) fn left_out(&self, why: String) -> Replacement {
        let facts = self.facts.clone();
        Replacement { text: Some(Err(why.clone())), facts, made: Made::LeftOut, reason: Some(why) }
    }

    /// Returns the facts together with those that the summary quotes, within the same limits.
    fn with_quoted(&self, summary: &str, counter: &dyn TokenCounter) -> Vec<Fact> {
        match quoted_facts(summary, &self.turns, &self.facts) {
            quoted if quoted.is_empty() => self.facts.clone(),
            quoted => {
                let all: Vec<Fact> = self.facts.iter().cloned().chain(quoted).collect();
                facts(&[], &all, &self.limits, counter)
            }
        }
    }
}
