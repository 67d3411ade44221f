//! The prompt for a model that summarises a range.
//!
//! The user text is self-contained: it can follow the original messages of the conversation, which makes use of the
//! provider's cache, without other instructions. The system text is for a model that reads only the range.

use contexture_message::Tokens;

use super::verdict::VerdictRules;
use crate::Fact;
use crate::item::fact::write_facts;
use crate::item::wording::filled;
use crate::neutral::neutralise;

/// The prompt for a model that summarises.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SummaryPrompt {
    /// The instructions, for a model that does not get those of the conversation.
    pub system: String,
    /// The user message after the messages of the range.
    pub user: String,
    /// The maximum cost of an acceptable summary.
    pub max_tokens: Tokens,
}

/// Returns the prompt for a summary, of at most `most` tokens, of a range that costs `before`.
///
/// ```
/// use contexture_history::compaction::{VerdictRules, summary_prompt};
/// use contexture_history::{Fact, FactKind};
/// use contexture_message::Tokens;
///
/// let facts = [Fact { kind: FactKind::Artifact, text: "ORDER-123".into() }];
/// let prompt = summary_prompt(&facts, Tokens(1000), Tokens(8000), &VerdictRules::default());
/// assert!(prompt.user.contains("less than 500 tokens") && prompt.user.contains("- ORDER-123"));
/// assert_eq!(prompt.max_tokens, Tokens(600));
/// ```
pub fn summary_prompt(facts: &[Fact], before: Tokens, most: Tokens, rules: &VerdictRules) -> SummaryPrompt {
    let max_tokens = rules.allowed(before, Tokens(0)).min(most);
    // Models count badly, so the prompt asks for less than is allowed.
    let asked = Tokens(u32::try_from(u64::from(max_tokens.0) * 5 / 6).unwrap_or(u32::MAX));
    let facts = match facts {
        [] => String::new(),
        facts => {
            let template = include_str!("../../templates/summarise-facts.txt");
            filled(template, &[("facts", &neutralise(&write_facts(facts)))])
        }
    };
    let values = [("max_tokens", asked.to_string()), ("facts", facts)];
    let values = values.each_ref().map(|(name, value)| (*name, value.as_str()));
    let user = filled(include_str!("../../templates/summarise-user.txt"), &values).trim_end().to_owned();
    let system = include_str!("../../templates/summarise-system.txt").trim_end().to_owned();
    SummaryPrompt { system, user, max_tokens }
}
