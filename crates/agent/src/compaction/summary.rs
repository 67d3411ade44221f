//! From what a summariser said to what is committed.
//!
//! A summary is tested before it is trusted. One that failed or was rejected changes nothing: excerpts take its place, made
//! without a model, and where not even these are short enough, the range is left out with the reason. The facts of the range
//! are committed in any case.

use contexture_compose::BoxError;
use contexture_history::compaction::{
    ExtractLimits, FactLimits, Plan, Strategy, SummaryPrompt, SummaryVerdict, VerdictRules, extract, facts,
    judge, quoted_facts, summary_prompt,
};
use contexture_history::{Fact, Turn};
use contexture_message::{TokenCounter, Tokens};

use super::{Made, Summarized};

/// What is known of a range before it is summarised.
pub(crate) struct Material {
    pub(crate) plan: Plan,
    pub(crate) turns: Vec<Turn>,
    pub(crate) facts: Vec<Fact>,
    limits: FactLimits,
    rules: VerdictRules,
}

/// What is committed.
#[derive(Debug)]
pub(crate) struct Outcome {
    /// The text, or why the range is left out; nothing if nothing is changed.
    pub(crate) text: Option<Result<String, String>>,
    pub(crate) facts: Vec<Fact>,
    pub(crate) made: Made,
    /// Why the summariser's summary was not taken.
    pub(crate) reason: Option<String>,
}

impl Material {
    /// Finds the facts of a range; `carried` are those of summaries in it, `usable` is what a request may have.
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

    /// Returns what a model is asked for whose requests may have `room` tokens, if that is known: a summary that takes more
    /// than a quarter of them would soon have to be summarised itself.
    pub(crate) fn prompt(&self, room: Option<Tokens>) -> SummaryPrompt {
        let most = room.map_or(Tokens(u32::MAX), |it| Tokens(it.0 / 4));
        summary_prompt(&self.facts, self.plan.before, most, &self.rules)
    }

    /// Decides what stands in the place of the range.
    pub(crate) fn settle(&self, said: Result<Summarized, BoxError>, counter: &dyn TokenCounter) -> Outcome {
        let reason = match said {
            Err(err) => format!("the summariser failed: {err}"),
            Ok(said) => match judge(&said.text, &self.facts, self.plan.before, &self.rules, counter) {
                SummaryVerdict::Accepted { text, .. } => {
                    let facts = self.with_quoted(&said.text, counter);
                    return Outcome { text: Some(Ok(text)), facts, made: Made::Summary, reason: None };
                }
                SummaryVerdict::Rejected { flaws } => {
                    flaws.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
                }
            },
        };
        let facts = self.facts.clone();
        match extract(&self.turns, &facts, self.plan.before, &ExtractLimits::default(), counter) {
            Ok(text) => Outcome { text: Some(Ok(text)), facts, made: Made::Extract, reason: Some(reason) },
            // Some rounds may stay; where the window is full, they can't.
            Err(_) if self.plan.strategy == Strategy::ReactiveMicro => {
                Outcome { text: None, facts, made: Made::Unchanged, reason: Some(reason) }
            }
            Err(err) => self.left_out(format!("{reason}; no excerpt is short enough: {err}")),
        }
    }

    /// Leaves the range out, but for its facts.
    pub(crate) fn left_out(&self, why: String) -> Outcome {
        let facts = self.facts.clone();
        Outcome { text: Some(Err(why.clone())), facts, made: Made::LeftOut, reason: Some(why) }
    }

    /// Returns the facts with those that the summariser found, within the same limits.
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
