//! Redaction: a transform that removes secrets from what the model reads.
//!
//! Each match of a rule becomes `[redacted:<name>]`. The rules:
//!
//! 1. Rules run in order, on the text between existing marks. They run again until they find nothing, because removing
//!    one secret may expose another. Redaction is therefore idempotent.
//! 2. If the rules still find something after [`MAX_ROUNDS`] rounds, the whole text becomes one mark: sending too
//!    little is better than sending too much.
//! 3. Texts, tool arguments and tool results are redacted, including keys and numbers, and so are file names. Ids and
//!    names of calls, and the addresses and data of media, stay unchanged.
//! 4. Thinking cannot be changed without breaking its signature, so thinking with a secret is left out. In the turn in
//!    flight it stays, because the provider requires it and produced it from redacted texts.
//!
//! All turns are redacted, including the one in flight: a secret in the user's latest message, or in a result of this
//! turn, is not sent either.

mod message;
mod rules;

use std::borrow::Cow;
use std::iter;

use regex::Regex;

use self::message::redacted_message;
pub use self::rules::RedactRule;
use crate::{Transform, Turn, TurnStatus};

/// How many times the rules run over one text before it is replaced whole.
const MAX_ROUNDS: usize = 16;

/// An error in the redaction rules.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RedactError {
    /// No built-in rule has that name.
    #[error("there is no redaction rule `{name}`; there are: {}", RedactRule::BUILT_IN.join(", "))]
    UnknownRule {
        /// The unknown name.
        name: String,
    },
    /// A name that cannot be used in a mark.
    #[error("invalid redaction rule name `{name}`: use 1 to 64 letters, digits, `_` or `-`")]
    InvalidName {
        /// The invalid name.
        name: String,
    },
    /// A pattern that is not a valid regular expression.
    #[error("the pattern of redaction rule `{name}` is not a valid regular expression: {reason}")]
    InvalidPattern {
        /// The rule's name.
        name: String,
        /// Why the pattern is invalid.
        reason: String,
    },
}

/// A transform that removes secrets from what the model reads. See [`redact`].
#[derive(Clone, Debug)]
pub struct Redact {
    rules: Vec<RedactRule>,
    /// Finds marks written by these rules, which are not searched again.
    marks: Option<Regex>,
}

/// Returns a transform that replaces what the rules find with `[redacted:<name>]`.
///
/// ```
/// use contexture_history::{RedactRule, Transforms, Turn, redact};
/// use contexture_message::Message;
///
/// let rules = [RedactRule::built_in("email")?, RedactRule::pattern("order", r"ORD-\d+")?];
/// let turns = vec![Turn::new("t1", vec![Message::user("I am ada@example.com, where is ORD-17?")])];
/// let said = Transforms::default().then(redact(rules)).run(turns);
/// assert_eq!(
///     said.turns[0].messages()[0].as_text(),
///     Some("I am [redacted:email], where is [redacted:order]?")
/// );
/// # Ok::<(), contexture_history::RedactError>(())
/// ```
pub fn redact(rules: impl IntoIterator<Item = RedactRule>) -> Redact {
    let rules: Vec<RedactRule> = rules.into_iter().collect();
    let names: Vec<&str> = rules.iter().map(RedactRule::name).collect();
    // Names are letters, digits, `_` and `-`, so the pattern is valid; without a pattern no marks are found.
    let marks = Regex::new(&format!(r"\[redacted:(?:{})\]", names.join("|"))).ok();
    Redact { rules, marks }
}

impl Redact {
    /// Returns the redacted text.
    pub fn text<'t>(&self, text: &'t str) -> Cow<'t, str> {
        let mut text = Cow::Borrowed(text);
        for _ in 0..MAX_ROUNDS {
            match self.round(&text) {
                Some(redacted) => text = Cow::Owned(redacted),
                None => return text,
            }
        }
        match self.rules.first() {
            Some(rule) if self.round(&text).is_some() => Cow::Owned(rule.mark()),
            _ => text,
        }
    }

    /// Runs each rule once. Returns `None` if no rule finds anything.
    fn round(&self, text: &str) -> Option<String> {
        let mut redacted: Option<String> = None;
        for rule in &self.rules {
            redacted = self.replaced(rule, redacted.as_deref().unwrap_or(text)).or(redacted);
        }
        redacted
    }

    fn replaced(&self, rule: &RedactRule, text: &str) -> Option<String> {
        let (mut out, mut is_changed, mut done) = (String::new(), false, 0);
        let marks = self.marks.iter().flat_map(|it| it.find_iter(text)).map(|it| it.range());
        for mark in marks.chain(iter::once(text.len()..text.len())) {
            is_changed |= rule.replace(&text[done..mark.start], &mut out);
            out.push_str(&text[mark.clone()]);
            done = mark.end;
        }
        is_changed.then_some(out)
    }
}

impl Transform for Redact {
    fn name(&self) -> &str {
        "redact"
    }

    fn apply(&self, turns: Vec<Turn>) -> Vec<Turn> {
        let over = |turn: Turn| {
            let keeps_thinking = turn.status() == TurnStatus::InFlight;
            turn.map(|it| redacted_message(self, it, keeps_thinking))
        };
        turns.into_iter().map(over).collect()
    }

    fn reword<'t>(&self, text: &'t str) -> Cow<'t, str> {
        self.text(text)
    }
}
