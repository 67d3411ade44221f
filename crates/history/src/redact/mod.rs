//! Redaction: a transform that takes secrets out of what the model reads.
//!
//! What a rule finds becomes `[redacted:<name>]`. The rule, in full:
//!
//! 1. Rules run in their order, over the text between the marks that are there already. They run again until they find
//!    nothing: what a mark cut free may be a secret of its own. Redacting twice is therefore redacting once.
//! 2. A text in which the rules still find something after [`MAX_ROUNDS`] rounds becomes one mark: better too little is
//!    sent than too much.
//! 3. Texts, arguments and results of tools are redacted, with their keys and numbers, and the names of files. Ids and names of
//!    calls, addresses and data of media stay as they are.
//! 4. Thinking can't be changed, for its signature would not hold: where it holds a secret it is left out. In the turn in
//!    flight it stays, because its provider wants it back, and has made it of texts that were redacted.
//!
//! It sees all turns, also the one in flight: a secret in what the user just said, or in a result of this turn, is not
//! sent either.

mod message;
mod rules;

use std::borrow::Cow;
use std::iter;

use regex::Regex;

use self::message::redacted_message;
pub use self::rules::RedactRule;
use crate::{Transform, Turn, TurnStatus};

/// How often the rules run over one text before it is given up.
const MAX_ROUNDS: usize = 16;

/// Rules that can't be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RedactError {
    /// No built-in rule has that name.
    #[error("there is no redaction rule `{name}`; there are: {}", RedactRule::BUILT_IN.join(", "))]
    UnknownRule {
        /// The name.
        name: String,
    },
    /// A name that can't stand in a mark.
    #[error("`{name}` is no name of a redaction rule: use 1 to 64 letters, digits, `_` or `-`")]
    InvalidName {
        /// The name.
        name: String,
    },
    /// A pattern that is no regular expression.
    #[error("the pattern of redaction rule `{name}` is no regular expression: {reason}")]
    InvalidPattern {
        /// The rule's name.
        name: String,
        /// What is wrong with it.
        reason: String,
    },
}

/// A transform that takes secrets out of what the model reads. See [`redact`].
#[derive(Clone, Debug)]
pub struct Redact {
    rules: Vec<RedactRule>,
    /// Finds marks of these rules. They hold nothing any more.
    marks: Option<Regex>,
}

/// Returns a transform that puts `[redacted:<name>]` in the place of what the rules find.
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
    // Names are letters, digits, `_` and `-`: the pattern is valid, and searching for nothing finds nothing.
    let marks = Regex::new(&format!(r"\[redacted:(?:{})\]", names.join("|"))).ok();
    Redact { rules, marks }
}

impl Redact {
    /// Returns the text without what the rules find.
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

    /// Runs each rule once; nothing if none of them finds anything.
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
