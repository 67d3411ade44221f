//! From what a summariser said to what is committed.
//!
//! A summary is tested before it is trusted. One that failed or was rejected changes nothing: excerpts take its place, made
//! without a model, and where not even these are short enough, the range is left out with the reason.

use contexture_compose::BoxError;
use contexture_history::Turn;
use contexture_history::compaction::{
    ExtractLimits, Fact, FactLimits, Plan, Strategy, SummaryPrompt, Verdict, VerdictRules, extract, facts,
    judge, summary_prompt,
};
use contexture_message::TokenCounter;

use super::{Made, Summarized};

/// What is known of a range before it is summarised.
pub(crate) struct Material {
    pub(crate) plan: Plan,
    pub(crate) turns: Vec<Turn>,
    pub(crate) facts: Vec<Fact>,
    rules: VerdictRules,
}

/// What is committed.
#[derive(Debug)]
pub(crate) struct Outcome {
    /// The text, or why the range is left out; nothing if nothing is changed.
    pub(crate) text: Option<Result<String, String>>,
    pub(crate) made: Made,
    /// Why the summariser's summary was not taken.
    pub(crate) reason: Option<String>,
}

impl Material {
    pub(crate) fn new(plan: Plan, turns: Vec<Turn>, counter: &dyn TokenCounter) -> Self {
        let facts = facts(&turns, &FactLimits::for_range(plan.before), counter);
        Self { plan, turns, facts, rules: VerdictRules::default() }
    }

    /// Returns what a model is asked for.
    pub(crate) fn prompt(&self) -> SummaryPrompt {
        summary_prompt(&self.facts, self.plan.before, &self.rules)
    }
}

/// Decides what becomes of a range.
pub(crate) fn settle(
    material: &Material,
    said: Result<Summarized, BoxError>,
    counter: &dyn TokenCounter,
) -> Outcome {
    let Material { plan, turns, facts, rules } = material;
    let reason = match said {
        Err(err) => format!("the summariser failed: {err}"),
        Ok(said) => match judge(&said.text, facts, plan.before, rules, counter) {
            Verdict::Accepted { text, .. } => {
                return Outcome { text: Some(Ok(text)), made: Made::Summary, reason: None };
            }
            Verdict::Rejected { flaws } => {
                flaws.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
            }
        },
    };
    let limits = ExtractLimits::default();
    match extract(turns, facts, plan.before, &limits, counter) {
        Ok(text) => Outcome { text: Some(Ok(text)), made: Made::Extract, reason: Some(reason) },
        // Some rounds may stay; where the window is full, they can't.
        Err(_) if plan.strategy == Strategy::ReactiveMicro => {
            Outcome { text: None, made: Made::Unchanged, reason: Some(reason) }
        }
        Err(err) => {
            let why = format!("{reason}; no excerpt is short enough: {err}");
            Outcome { text: Some(Err(why.clone())), made: Made::LeftOut, reason: Some(why) }
        }
    }
}
