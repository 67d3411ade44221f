//! What a summary must not lose.
//!
//! In come the turns of a range, out come [`Fact`]s, few and short. What counts, in full:
//!
//! 1. *Standing instructions*: sentences of the user with a word such as `always`, `never`, `from now on`, `remember`
//!    or `prefer`, in English, German, French or Spanish. Questions are none, unless they politely ask for something
//!    ("Can you always …?"). Code, hidden envelopes, answers and results of tools are not looked at: what a tool says
//!    is never an instruction of the user.
//! 2. *Open calls*: calls that have no result in the range.
//! 3. *Artifacts*: paths, addresses, identifiers and quoted names in what user and assistant say and in the arguments
//!    of calls. Those that are named most often go first, then the latest.
//! 4. The *last request* of the user.
//! 5. The facts of a summary in the range are facts again, as they stand there. Its other words are not looked at for
//!    instructions: they may be those of a tool.
//!
//! Facts are found by their wording, so some are missed and some are none. There are never more than
//! the limits say: the last request goes first, then open calls, then the newest instructions, then artifacts.

use std::collections::HashMap;

use contexture_message::{Message, Part, Role, TokenCounter, Tokens, ToolCall};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::artifacts::artifacts;
use super::cues::{INSTRUCTION, POLITE, PROHIBITION};
use super::notes::read_facts;
use super::phrases::{begins_with, clipped, holds, normal, sentences};
use crate::Turn;
use crate::neutral::ENGINE_TAG_NAMES;
use crate::wording::summary_text;

/// Something that a summary must hold.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fact {
    /// What it is.
    pub kind: FactKind,
    /// The words, on one line.
    pub text: String,
}

/// The kinds of facts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FactKind {
    /// What the user wants from now on.
    Instruction,
    /// A call without a result.
    OpenCall,
    /// A name.
    Artifact,
    /// What the user asked for last.
    Request,
}

impl FactKind {
    pub(super) const ALL: [FactKind; 4] =
        [FactKind::Instruction, FactKind::OpenCall, FactKind::Artifact, FactKind::Request];

    /// Returns the name, such as `open_call`.
    pub fn as_str(self) -> &'static str {
        match self {
            FactKind::Instruction => "instruction",
            FactKind::OpenCall => "open_call",
            FactKind::Artifact => "artifact",
            FactKind::Request => "request",
        }
    }
}

/// How many facts, and how long.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FactLimits {
    /// The most instructions.
    pub max_instructions: usize,
    /// The most open calls.
    pub max_open_calls: usize,
    /// The most artifacts.
    pub max_artifacts: usize,
    /// The most characters of a fact. Sentences are cut, longer artifacts left out.
    pub max_fact_chars: usize,
    /// The most that all may cost together.
    pub max_tokens: Tokens,
}

impl Default for FactLimits {
    fn default() -> Self {
        Self {
            max_instructions: 12,
            max_open_calls: 8,
            max_artifacts: 24,
            max_fact_chars: 300,
            max_tokens: Tokens(1000),
        }
    }
}

impl FactLimits {
    /// Returns the defaults, or less for a range that costs so little that they would take much of it: about a
    /// quarter at most.
    pub fn for_range(before: Tokens) -> Self {
        let defaults = Self::default();
        let max_tokens = defaults.max_tokens.min(Tokens(before.0 / 4));
        // Of the kinds of facts each should find room; a token is some characters.
        let max_fact_chars = defaults.max_fact_chars.min(max_tokens.0 as usize);
        Self { max_fact_chars, max_tokens, ..defaults }
    }
}

/// Returns what a summary of these turns must hold.
///
/// ```
/// use contexture_history::Turn;
/// use contexture_history::compaction::{FactKind, FactLimits, facts};
/// use contexture_message::{Encoding, Message};
///
/// let turn = Turn::new("t1", vec![
///     Message::user("Always answer in German. What does src/main.rs do?"),
///     Message::assistant("Es startet."),
/// ]);
/// let found = facts(&[turn], &FactLimits::default(), &Encoding::O200kBase);
/// let found: Vec<(FactKind, String)> = found.into_iter().map(|it| (it.kind, it.text)).collect();
/// assert_eq!(found, [
///     (FactKind::Instruction, "Always answer in German.".to_owned()),
///     (FactKind::Request, "Always answer in German. What does src/main.rs do?".to_owned()),
/// ]);
/// ```
pub fn facts(turns: &[Turn], limits: &FactLimits, counter: &dyn TokenCounter) -> Vec<Fact> {
    let mut found = Found::default();
    turns.iter().flat_map(Turn::messages).for_each(|it| found.message(it));
    found.chosen(limits, counter)
}

/// All that was found, in the order of the conversation.
#[derive(Default)]
struct Found {
    instructions: Vec<String>,
    calls: Vec<(String, String)>,
    /// Open calls of earlier ranges.
    old_calls: Vec<String>,
    artifacts: Vec<String>,
    request: Option<String>,
}

impl Found {
    fn message(&mut self, message: &Message) {
        let mut asked = Vec::new();
        for part in &message.content {
            match (message.role, part) {
                (_, Part::ToolCall(call)) => self.call(call),
                (_, Part::ToolResult(result)) => {
                    if let Some(open) = self.calls.iter().rposition(|(id, _)| *id == result.call_id) {
                        self.calls.remove(open);
                    }
                }
                (Role::User, Part::Text { text }) if !is_engine_text(text) => match summary_text(text) {
                    Some(summary) => self.summary(summary),
                    None => {
                        self.instructions.extend(instructions(text));
                        self.name(text);
                        asked.push(text.as_str());
                    }
                },
                (Role::Assistant, Part::Text { text }) => self.name(text),
                _ => {}
            }
        }
        let asked = asked.join("\n");
        if asked.contains(char::is_alphanumeric) {
            self.request = Some(asked);
        }
    }

    fn call(&mut self, call: &ToolCall) {
        let arguments = match &call.arguments {
            Value::Null => String::new(),
            other => format!(" {other}"),
        };
        self.calls.push((call.id.clone(), format!("{}{arguments}", call.name)));
        self.names_in(&call.arguments);
    }

    fn summary(&mut self, text: &str) {
        let (lines, facts) = read_facts(text);
        lines.into_iter().for_each(|it| self.name(it));
        for Fact { kind, text } in facts {
            match kind {
                FactKind::Instruction => self.instructions.push(text),
                FactKind::OpenCall => self.old_calls.push(text),
                FactKind::Artifact => self.artifacts.push(text),
                FactKind::Request => self.request = Some(text),
            }
        }
    }

    fn name(&mut self, text: &str) {
        self.artifacts.extend(artifacts(text).into_iter().map(str::to_owned));
    }

    fn names_in(&mut self, value: &Value) {
        match value {
            Value::String(text) => self.name(text),
            Value::Array(values) => values.iter().for_each(|it| self.names_in(it)),
            Value::Object(fields) => fields.values().for_each(|it| self.names_in(it)),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    /// Chooses within the limits, the most important first.
    fn chosen(self, limits: &FactLimits, counter: &dyn TokenCounter) -> Vec<Fact> {
        let mut chosen =
            Chosen { limits, counter, left: limits.max_tokens, facts: Vec::new(), said: Vec::new() };
        let names = by_weight(self.artifacts);
        let calls = self.old_calls.into_iter().chain(self.calls.into_iter().map(|(_, it)| it));
        chosen.take(FactKind::Request, self.request.into_iter(), 1);
        chosen.take(FactKind::OpenCall, calls.rev(), limits.max_open_calls);
        chosen.take(FactKind::Instruction, self.instructions.into_iter().rev(), limits.max_instructions);
        let names = names.into_iter().filter(|it| it.chars().count() <= limits.max_fact_chars);
        chosen.take(FactKind::Artifact, names, limits.max_artifacts);
        chosen.facts.sort_by_key(|it| it.kind);
        chosen.facts
    }
}

/// Facts on their way through the limits.
struct Chosen<'a> {
    limits: &'a FactLimits,
    counter: &'a dyn TokenCounter,
    left: Tokens,
    facts: Vec<Fact>,
    /// What was taken, as it is compared.
    said: Vec<(FactKind, String)>,
}

impl Chosen<'_> {
    /// Takes so many texts, the most important first; they stand in the reverse order, as they were said.
    fn take(&mut self, kind: FactKind, texts: impl Iterator<Item = String>, count: usize) {
        let mut taken = Vec::new();
        for text in texts {
            if taken.len() >= count {
                break;
            }
            let text = clipped(&text, self.limits.max_fact_chars);
            let known = normal(&text);
            // A request may well be an instruction too; a name that stands in another fact needs no line of its own.
            let is_said = |(of, said): &(FactKind, String)| match kind {
                FactKind::Artifact => holds(said, &known),
                _ => *of == kind && *said == known,
            };
            if known.is_empty() || self.said.iter().any(is_said) {
                continue;
            }
            let tokens = self.counter.count(&format!(
                "- {text}
"
            ));
            if tokens > self.left {
                continue;
            }
            self.left = self.left.saturating_sub(tokens);
            self.said.push((kind, known));
            taken.push(Fact { kind, text });
        }
        self.facts.extend(taken.into_iter().rev());
    }
}

/// Orders names: the most frequent first, then the latest.
fn by_weight(names: Vec<String>) -> Vec<String> {
    let mut seen: HashMap<String, (usize, usize)> = HashMap::new();
    for (at, name) in names.into_iter().enumerate() {
        let entry = seen.entry(name).or_default();
        *entry = (entry.0 + 1, at);
    }
    let mut names: Vec<(String, (usize, usize))> = seen.into_iter().collect();
    // Positions differ, so the order does not depend on the map's.
    names.sort_by(|(_, a), (_, b)| b.cmp(a));
    names.into_iter().map(|(name, _)| name).collect()
}

fn instructions(text: &str) -> impl Iterator<Item = String> {
    sentences(text).filter(|it| is_instruction(it)).map(str::to_owned)
}

fn is_instruction(sentence: &str) -> bool {
    let text = normal(sentence);
    let is_question = text.ends_with('?') && !POLITE.iter().any(|it| begins_with(&text, it));
    let begins = || PROHIBITION.iter().any(|it| begins_with(&text, it));
    !is_question && (INSTRUCTION.iter().any(|it| holds(&text, it)) || begins())
}

/// Whether the engine says it in the user's place.
pub(super) fn is_engine_text(text: &str) -> bool {
    let tag = text.strip_prefix('<').unwrap_or_default();
    ENGINE_TAG_NAMES.iter().any(|it| tag.strip_prefix(it).is_some_and(|it| it.starts_with(['>', ' '])))
}

#[cfg(test)]
mod tests {
    use super::is_instruction;

    #[test]
    fn instructions_are_recognised() {
        for text in [
            "Always use tabs.",
            "From now on, call it X.",
            "Please don’t touch main.",
            "Do not touch main.",
            "I PREFER short answers",
            "Can you always answer in German?",
            "Antworte immer auf Deutsch.",
            "Merke dir: der Termin ist am 3. Mai.",
            "Lösche niemals Daten!",
            "Réponds toujours en français.",
            "Responde siempre en español.",
        ] {
            assert!(is_instruction(text), "{text}");
        }
    }

    #[test]
    fn other_sentences_are_not() {
        for text in [
            "Why does it always fail?",
            "Do you remember it?",
            "What is in main.rs?",
            "Nievergelt kommt.",
            "I don't know.",
            "",
        ] {
            assert!(!is_instruction(text), "{text}");
        }
    }
}
