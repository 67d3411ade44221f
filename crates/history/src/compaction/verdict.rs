//! Whether a summary can be trusted.
//!
//! In come a summary, the facts that stand beside it and what both would replace; out comes a [`SummaryVerdict`] with everything
//! that is wrong. The rule, in full:
//!
//! 1. It says something.
//! 2. Besides the facts, it costs `max_percent` of what it replaces at most, as the model will read it.
//! 3. It does not begin like a refusal.
//!
//! Facts are records: a summary that lacks some is no worse for it. Sections of facts that it has itself are taken out: a
//! text that a tool slipped into the conversation, and from there into the summary, is no instruction of the user.
//!
//! Whether the call that made it failed is known to whoever called.

use std::fmt;

use contexture_message::{TokenCounter, Tokens, message_tokens};

use super::cues::REFUSAL;
use super::phrases::{begins_with, normal};
use super::plan::share;
use crate::fact::read_facts;
use crate::wording::summary_message;
use crate::{Fact, Summary};

/// What a summary must keep to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VerdictRules {
    /// The most it may cost, in percent of what it replaces.
    pub max_percent: u8,
}

impl Default for VerdictRules {
    fn default() -> Self {
        Self { max_percent: 60 }
    }
}

impl VerdictRules {
    /// Returns what a summary of a range that costs `before` may cost with its facts, which cost `facts`.
    pub fn allowed(&self, before: Tokens, facts: Tokens) -> Tokens {
        facts + share(before.saturating_sub(facts), self.max_percent)
    }
}

/// What became of a summary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SummaryVerdict {
    /// It can take the place of the range.
    Accepted {
        /// The words to commit, without sections of facts.
        text: String,
        /// What they cost with the facts, as the model will read both.
        tokens: Tokens,
    },
    /// It changes nothing.
    Rejected {
        /// All that is wrong with it.
        flaws: Vec<Flaw>,
    },
}

impl SummaryVerdict {
    /// Whether it can take the place of the range.
    pub fn is_accepted(&self) -> bool {
        matches!(self, SummaryVerdict::Accepted { .. })
    }
}

/// Something that is wrong with a summary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Flaw {
    /// It says nothing.
    Empty,
    /// It is too long for what it replaces.
    TooLong {
        /// What it costs.
        tokens: Tokens,
        /// What it may cost.
        allowed: Tokens,
    },
    /// It is a refusal.
    Refusal,
}

impl fmt::Display for Flaw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Flaw::Empty => f.write_str("the summary is empty"),
            Flaw::TooLong { tokens, allowed } => {
                write!(f, "the summary has {tokens} tokens, {allowed} are allowed")
            }
            Flaw::Refusal => f.write_str("the summary is a refusal"),
        }
    }
}

/// Tests a summary of a range that costs `before`.
///
/// ```
/// use contexture_history::compaction::{VerdictRules, judge};
/// use contexture_message::{Encoding, Tokens};
///
/// let verdict = |text: &str| judge(text, &[], Tokens(200), &VerdictRules::default(), &Encoding::O200kBase);
/// assert!(verdict("They spoke about an order.").is_accepted());
/// assert!(!verdict("I'm sorry, I can't.").is_accepted());
/// assert!(!verdict(" ").is_accepted());
/// ```
pub fn judge(
    summary: &str,
    facts: &[Fact],
    before: Tokens,
    rules: &VerdictRules,
    counter: &dyn TokenCounter,
) -> SummaryVerdict {
    let mut flaws = Vec::new();
    let text = read_facts(summary).0.join("\n").trim().to_owned();
    let compared = normal(&text);
    if !compared.contains(char::is_alphanumeric) {
        flaws.push(Flaw::Empty);
    }
    let (tokens, allowed) = (summary_tokens(&text, facts, counter), allowed(facts, before, rules, counter));
    if tokens > allowed {
        flaws.push(Flaw::TooLong { tokens, allowed });
    }
    if REFUSAL.iter().any(|it| begins_with(&compared, it)) {
        flaws.push(Flaw::Refusal);
    }
    match flaws.is_empty() {
        true => SummaryVerdict::Accepted { text, tokens },
        false => SummaryVerdict::Rejected { flaws },
    }
}

/// Returns what a summary may cost with its facts.
pub(super) fn allowed(
    facts: &[Fact],
    before: Tokens,
    rules: &VerdictRules,
    counter: &dyn TokenCounter,
) -> Tokens {
    let alone = if facts.is_empty() { Tokens(0) } else { summary_tokens("", facts, counter) };
    rules.allowed(before, alone)
}

/// Returns what a summary and its facts cost where the model reads them.
pub(super) fn summary_tokens(text: &str, facts: &[Fact], counter: &dyn TokenCounter) -> Tokens {
    let summary = Summary { text: text.to_owned(), facts: facts.to_vec(), ..Summary::default() };
    message_tokens(counter, &summary_message(&summary))
}
