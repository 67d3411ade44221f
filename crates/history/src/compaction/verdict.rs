//! Whether a summary can be trusted.
//!
//! In come a summary, the facts it must hold and what it would replace; out comes a [`Verdict`] with everything that
//! is wrong. The rule, in full:
//!
//! 1. It says something.
//! 2. As the model will read it, with the facts, it costs `max_percent` of what it replaces at most.
//! 3. It holds every fact as whole words; case, blanks, quotes and emphasis do not matter.
//! 4. It does not begin like a refusal.
//!
//! An accepted summary is committed with the facts in sections at its end. Sections of its own are taken out: a
//! text that a tool slipped into the conversation, and from there into the summary, is no instruction of the user.
//!
//! Whether the call that made it failed is known to whoever called.

use std::fmt;

use contexture_message::{TokenCounter, Tokens, message_tokens};

use super::cues::REFUSAL;
use super::facts::Fact;
use super::notes::sealed;
use super::phrases::{begins_with, holds, normal};
use super::plan::share;
use crate::Summary;
use crate::wording::summary_message;

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
    /// Returns what a summary of a range that costs `before` may cost.
    pub fn allowed(&self, before: Tokens) -> Tokens {
        share(before, self.max_percent)
    }
}

/// What became of a summary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It can take the place of the range.
    Accepted {
        /// The summary to commit: its words, and behind them the facts and no others.
        text: String,
        /// What that costs, as the model will read it.
        tokens: Tokens,
    },
    /// It changes nothing.
    Rejected {
        /// All that is wrong with it.
        flaws: Vec<Flaw>,
    },
}

impl Verdict {
    /// Whether it can take the place of the range.
    pub fn is_accepted(&self) -> bool {
        matches!(self, Verdict::Accepted { .. })
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
    /// It lost a fact.
    MissingFact(Fact),
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
            Flaw::MissingFact(fact) => write!(f, "the summary lacks {}: `{}`", fact.kind.as_str(), fact.text),
            Flaw::Refusal => f.write_str("the summary is a refusal"),
        }
    }
}

/// Tests a summary of a range that costs `before`.
///
/// ```
/// use contexture_history::compaction::{Fact, FactKind, Verdict, VerdictRules, judge};
/// use contexture_message::{Encoding, Tokens};
///
/// let facts = [Fact { kind: FactKind::Artifact, text: "ORDER-123".into() }];
/// let verdict = |text: &str| judge(text, &facts, Tokens(200), &VerdictRules::default(), &Encoding::O200kBase);
/// assert!(verdict("They spoke about order-123.").is_accepted());
/// assert!(!verdict("They spoke about an order.").is_accepted());
/// assert!(!verdict(" ").is_accepted());
/// ```
pub fn judge(
    summary: &str,
    facts: &[Fact],
    before: Tokens,
    rules: &VerdictRules,
    counter: &dyn TokenCounter,
) -> Verdict {
    let mut flaws = Vec::new();
    let text = normal(summary);
    if !text.contains(char::is_alphanumeric) {
        flaws.push(Flaw::Empty);
    }
    let sealed = sealed(summary, facts);
    let (tokens, allowed) = (summary_tokens(&sealed, counter), rules.allowed(before));
    if tokens > allowed {
        flaws.push(Flaw::TooLong { tokens, allowed });
    }
    let missing = facts.iter().filter(|it| !holds(&text, &normal(&it.text)));
    flaws.extend(missing.cloned().map(Flaw::MissingFact));
    if REFUSAL.iter().any(|it| begins_with(&text, it)) {
        flaws.push(Flaw::Refusal);
    }
    match flaws.is_empty() {
        true => Verdict::Accepted { text: sealed, tokens },
        false => Verdict::Rejected { flaws },
    }
}

/// Returns what a summary costs where the model reads it.
pub(super) fn summary_tokens(text: &str, counter: &dyn TokenCounter) -> Tokens {
    let summary = Summary { text: text.to_owned(), ..Summary::default() };
    message_tokens(counter, &summary_message(&summary))
}
