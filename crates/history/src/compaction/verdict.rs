//! Decides whether a summary is accepted.
//!
//! The input is a summary, the facts stored with it and the cost of what both would replace; the output is a
//! [`SummaryVerdict`] with everything that is wrong. The rules:
//!
//! 1. The summary is not empty.
//! 2. Without the facts, it costs at most `max_percent` of what it replaces, as the model will read it.
//! 3. It does not begin like a refusal.
//!
//! Facts are separate records, so a summary does not have to repeat them. Fact sections in the summary itself are
//! removed: text that a tool slipped into the conversation, and so into the summary, is not an instruction of the
//! user.
//!
//! The caller handles failures of the call that made the summary.

use std::fmt;

use contexture_message::{TokenCounter, Tokens, message_tokens};

use super::cues::REFUSAL;
use super::phrases::{begins_with, normal};
use super::plan::share;
use crate::item::fact::read_facts;
use crate::item::wording::summary_message;
use crate::{Fact, Summary, TurnNo};

/// The limits for a summary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VerdictRules {
    /// The maximum cost, in percent of what it replaces.
    pub max_percent: u8,
}

impl Default for VerdictRules {
    fn default() -> Self {
        Self { max_percent: 60 }
    }
}

impl VerdictRules {
    /// Returns the allowed cost of a summary with its facts, for a range that costs `before` and facts that cost
    /// `facts`.
    pub fn allowed(&self, before: Tokens, facts: Tokens) -> Tokens {
        facts + share(before.saturating_sub(facts), self.max_percent)
    }
}

/// The outcome of checking a summary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SummaryVerdict {
    /// The summary can replace the range.
    Accepted {
        /// The text to commit, without fact sections.
        text: String,
        /// The cost of text and facts, as the model will read them.
        tokens: Tokens,
    },
    /// The summary is not used.
    Rejected {
        /// Everything that is wrong with it.
        flaws: Vec<Flaw>,
    },
}

impl SummaryVerdict {
    /// Whether the summary can replace the range.
    pub fn is_accepted(&self) -> bool {
        matches!(self, SummaryVerdict::Accepted { .. })
    }
}

/// A reason to reject a summary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Flaw {
    /// The summary is empty.
    Empty,
    /// The summary is too long for what it replaces.
    TooLong {
        /// The cost of the summary.
        tokens: Tokens,
        /// The allowed cost.
        allowed: Tokens,
    },
    /// The summary is a refusal.
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

/// Checks a summary of a range that costs `before`.
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

/// Returns the allowed cost of a summary with its facts.
pub(super) fn allowed(
    facts: &[Fact],
    before: Tokens,
    rules: &VerdictRules,
    counter: &dyn TokenCounter,
) -> Tokens {
    rules.allowed(before, facts_tokens(facts, counter))
}

/// Returns the cost of facts alone, without the event that a summary comes with.
pub(super) fn facts_tokens(facts: &[Fact], counter: &dyn TokenCounter) -> Tokens {
    if facts.is_empty() {
        return Tokens(0);
    }
    let summary = Summary { facts: facts.to_vec(), ..Summary::default() };
    message_tokens(counter, &summary_message(&summary))
}

/// Returns the cost of a summary and its facts, as the model reads them, its event included.
pub(super) fn summary_tokens(text: &str, facts: &[Fact], counter: &dyn TokenCounter) -> Tokens {
    // The numbers in its event are not known yet; these are as long as those of a long thread.
    let (number, turns) = (999, (TurnNo(999), TurnNo(9_999)));
    let summary =
        Summary { text: text.to_owned(), facts: facts.to_vec(), number, turns, ..Summary::default() };
    message_tokens(counter, &summary_message(&summary.told()))
}
