//! Finds the facts that a summary must not lose.
//!
//! The input is the turns of a range and the facts of the summaries in it; the output is [`Fact`]s. The rules:
//!
//! 1. *Standing instructions*: user sentences that contain a phrase such as `always`, `never`, `from now on` or `my
//!    name is`, or that begin like an order (`use`, `avoid`), in English, German, French or Spanish. Questions do not
//!    count, unless they politely ask for something ("Can you always …?"). Code, hidden envelopes, answers and tool
//!    results are not searched: a tool's text is never an instruction of the user.
//! 2. *Open calls*: calls that have no result in the range.
//! 3. *Artifacts*: paths, addresses, identifiers and quoted names in user and assistant text and in the arguments of
//!    calls. The most frequent come first, then the latest.
//! 4. The *last request* of the user.
//! 5. Facts of summaries in the range are carried over word for word. The rest of a summary is not searched for
//!    instructions, since it may come from a tool. User text that a summariser quotes counts, see [`quoted_facts`].
//!
//! Instructions and open calls have a separate budget. If it is too small, sentences that only begin like an order are
//! dropped first, then the oldest. Names and the last request share what is left of a quarter of the range.

use std::collections::HashMap;

use contexture_message::{Message, Part, Role, TokenCounter, Tokens, ToolCall};
use serde_json::Value;

use super::artifacts::artifacts;
use super::cues::{ORDER, POLITE, STANDING};
use super::phrases::{begins_with, clipped, holds, normal, sentences};
use crate::item::fact::read_facts;
use crate::item::wording::summary_text;
use crate::neutral::ENGINE_TAG_NAMES;
use crate::{Fact, FactKind, Turn};

/// The number and size of facts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FactLimits {
    /// The maximum number of open calls.
    pub max_open_calls: usize,
    /// The maximum number of artifacts.
    pub max_artifacts: usize,
    /// The maximum length of a fact in characters. Sentences are cut; longer artifacts are left out.
    pub max_fact_chars: usize,
    /// The maximum total cost of instructions and open calls.
    pub max_tokens: Tokens,
    /// The maximum total cost of names and the last request.
    pub max_name_tokens: Tokens,
}

impl Default for FactLimits {
    fn default() -> Self {
        Self {
            max_open_calls: 8,
            max_artifacts: 24,
            max_fact_chars: 400,
            max_tokens: Tokens(2000),
            max_name_tokens: Tokens(600),
        }
    }
}

impl FactLimits {
    /// Returns the defaults or lower limits: instructions may take an eighth of the `usable` tokens of a request,
    /// names a quarter of the cost of the range.
    pub fn new(usable: Tokens, before: Tokens) -> Self {
        let defaults = Self::default();
        Self {
            max_tokens: defaults.max_tokens.min(Tokens(usable.0 / 8)),
            max_name_tokens: defaults.max_name_tokens.min(Tokens(before.0 / 4)),
            ..defaults
        }
    }
}

/// Returns the facts of these turns. `carried` are the facts of the summaries among them, oldest first.
///
/// ```
/// use contexture_history::compaction::{FactLimits, facts};
/// use contexture_history::{FactKind, Turn};
/// use contexture_message::{Encoding, Message};
///
/// let turn = Turn::new("t1", vec![
///     Message::user("Always answer in German. What does src/main.rs do?"),
///     Message::assistant("Es startet."),
/// ]);
/// let found = facts(&[turn], &[], &FactLimits::default(), &Encoding::O200kBase);
/// let found: Vec<(FactKind, String)> = found.into_iter().map(|it| (it.kind, it.text)).collect();
/// assert_eq!(found, [
///     (FactKind::Instruction, "Always answer in German.".to_owned()),
///     (FactKind::Request, "Always answer in German. What does src/main.rs do?".to_owned()),
/// ]);
/// ```
pub fn facts(turns: &[Turn], carried: &[Fact], limits: &FactLimits, counter: &dyn TokenCounter) -> Vec<Fact> {
    let mut found = Found::default();
    carried.iter().for_each(|it| found.carry(it));
    turns.iter().flat_map(Turn::messages).for_each(|it| found.message(it));
    found.chosen(limits, counter)
}

/// Returns the standing instructions that a summariser lists although no rule found them. Only quotes of the user
/// count: anything not quoted from these turns may have come from a tool.
pub fn quoted_facts(summary: &str, turns: &[Turn], known: &[Fact]) -> Vec<Fact> {
    let said: Vec<String> =
        turns.iter().flat_map(Turn::messages).flat_map(|it| user_texts(it)).map(normal).collect();
    let is_known = |text: &str| known.iter().any(|it| normal(&it.text) == text);
    let listed = read_facts(summary).1.into_iter().filter(|it| it.kind == FactKind::Instruction);
    let is_quoted = |it: &Fact| {
        let text = normal(&it.text);
        text.split(' ').count() > 1 && !is_known(&text) && said.iter().any(|it| holds(it, &text))
    };
    listed.filter(is_quoted).collect()
}

/// A sentence of the user that tells how to do things.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Instruction {
    /// The sentence, word for word.
    pub text: String,
    /// Whether it is meant to stand: it says `always`, `from now on` or `my name is`. Otherwise it only begins like an
    /// order, which may be one for the moment.
    pub is_standing: bool,
}

/// Returns the instructions in the user's own text of a message. Summaries keep them as facts, and memory as rules:
/// both find them here.
///
/// ```
/// use contexture_history::compaction::instructions;
/// use contexture_message::Message;
///
/// let found = instructions(&Message::user("Always answer in German. Why is it slow?"));
/// assert_eq!(found.len(), 1);
/// assert!(found[0].is_standing);
/// assert_eq!(instructions(&Message::assistant("Always answer in German.")), []);
/// ```
pub fn instructions(message: &Message) -> Vec<Instruction> {
    let of_text = |text| sentences(text).filter(|it| is_instruction(it)).take(MAX_PER_MESSAGE);
    let instruction = |it: &str| Instruction { text: it.to_owned(), is_standing: is_standing(&normal(it)) };
    user_texts(message).flat_map(of_text).map(instruction).collect()
}

/// Returns the user's own texts in a message, without those of the engine or of a summary.
fn user_texts(message: &Message) -> impl Iterator<Item = &str> {
    let parts = message.content.iter().filter(|_| message.role == Role::User);
    parts.filter_map(|it| match it {
        Part::Text { text, .. } if !is_engine_text(text) && summary_text(text).is_none() => {
            Some(text.as_str())
        }
        _ => None,
    })
}

/// All facts found, in conversation order.
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
        self.instructions.extend(instructions(message).into_iter().map(|it| it.text));
        let mut asked = Vec::new();
        for part in &message.content {
            match (message.role, part) {
                (_, Part::ToolCall(call)) => self.call(call),
                (_, Part::ToolResult(result)) => {
                    if let Some(open) = self.calls.iter().rposition(|(id, _)| *id == result.call_id) {
                        self.calls.remove(open);
                    }
                }
                (Role::User, Part::Text { text, .. }) if !is_engine_text(text) => match summary_text(text) {
                    // The facts of a summary are carried over; the rest of its text is searched for names only.
                    Some(summary) => read_facts(summary).0.into_iter().for_each(|it| self.name(it)),
                    None => {
                        self.name(text);
                        asked.push(text.as_str());
                    }
                },
                (Role::Assistant, Part::Text { text, .. }) => self.name(text),
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

    fn carry(&mut self, Fact { kind, text }: &Fact) {
        match kind {
            FactKind::Instruction => self.instructions.push(text.clone()),
            FactKind::OpenCall => self.old_calls.push(text.clone()),
            FactKind::Artifact => self.artifacts.push(text.clone()),
            FactKind::Request => self.request = Some(text.clone()),
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

    /// Chooses facts within the limits, the most important first.
    fn chosen(self, limits: &FactLimits, counter: &dyn TokenCounter) -> Vec<Fact> {
        let Found { instructions, calls, old_calls, artifacts, request } = self;
        let calls = old_calls.into_iter().chain(calls.into_iter().map(|(_, it)| it));
        let names = by_weight(artifacts).into_iter().filter(|it| it.chars().count() <= limits.max_fact_chars);
        let mut chosen =
            Chosen { limits, counter, left: limits.max_tokens, facts: Vec::new(), said: Vec::new() };
        chosen.take(FactKind::OpenCall, calls.rev(), limits.max_open_calls);
        let order: Vec<String> = instructions.iter().map(|it| normal(it)).collect();
        let (standing, orders): (Vec<String>, Vec<String>) =
            instructions.into_iter().partition(|it| is_standing(&normal(it)));
        let newest_first = standing.into_iter().rev().chain(orders.into_iter().rev());
        chosen.take(FactKind::Instruction, newest_first, usize::MAX);
        chosen.left = limits.max_name_tokens;
        chosen.take(FactKind::Request, request.into_iter(), 1);
        chosen.take(FactKind::Artifact, names, limits.max_artifacts);
        // In the order they were said: of two contradicting instructions the later one applies.
        let place = |it: &Fact| match it.kind {
            FactKind::Instruction => order.iter().rposition(|said| *said == normal(&it.text)).unwrap_or(0),
            FactKind::OpenCall | FactKind::Artifact | FactKind::Request => 0,
        };
        chosen.facts.sort_by_cached_key(|it| (it.kind, place(it)));
        chosen.facts
    }
}

/// Facts that are being chosen within the limits.
struct Chosen<'a> {
    limits: &'a FactLimits,
    counter: &'a dyn TokenCounter,
    left: Tokens,
    facts: Vec<Fact>,
    /// The facts chosen so far, normalised for comparison.
    said: Vec<(FactKind, String)>,
}

impl Chosen<'_> {
    /// Takes at most `count` texts, the most important first, and stores them in reverse: the order they were said in.
    fn take(&mut self, kind: FactKind, texts: impl Iterator<Item = String>, count: usize) {
        let mut taken = Vec::new();
        for text in texts {
            if taken.len() >= count {
                break;
            }
            let text = clipped(&text, self.limits.max_fact_chars);
            let known = normal(&text);
            // A request may also be an instruction; a name that another fact contains needs no separate line.
            let is_said = |(of, said): &(FactKind, String)| match kind {
                FactKind::Artifact => holds(said, &known),
                _ => *of == kind && *said == known,
            };
            if known.is_empty() || self.said.iter().any(is_said) {
                continue;
            }
            let tokens = self.counter.count(&format!("- {text}\n"));
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

/// Sorts names: the most frequent first, then the latest.
fn by_weight(names: Vec<String>) -> Vec<String> {
    let mut seen: HashMap<String, (usize, usize)> = HashMap::new();
    for (at, name) in names.into_iter().enumerate() {
        let entry = seen.entry(name).or_default();
        *entry = (entry.0 + 1, at);
    }
    let mut names: Vec<(String, (usize, usize))> = seen.into_iter().collect();
    // Positions differ, so the order does not depend on that of the map.
    names.sort_by(|(_, a), (_, b)| b.cmp(a));
    names.into_iter().map(|(name, _)| name).collect()
}

/// How many instructions of one message are considered: a longer list is probably pasted text.
const MAX_PER_MESSAGE: usize = 24;
/// A longer sentence that begins like an order is not treated as one.
const MAX_ORDER_CHARS: usize = 160;

fn is_instruction(sentence: &str) -> bool {
    let text = normal(sentence);
    let is_question = text.ends_with('?') && !POLITE.iter().any(|it| begins_with(&text, it));
    let is_order = || {
        let text = POLITE.iter().find_map(|it| text.strip_prefix(it)).map_or(&*text, str::trim_start);
        text.chars().count() <= MAX_ORDER_CHARS && ORDER.iter().any(|it| begins_with(text, it))
    };
    !is_question && (is_standing(&text) || is_order())
}

/// Whether a normalised sentence is a standing instruction.
fn is_standing(text: &str) -> bool {
    STANDING.iter().any(|it| holds(text, it)) || is_about_user(text)
}

/// Whether the user states something about themselves: "my deadline is Friday".
fn is_about_user(text: &str) -> bool {
    const OWNERS: [(&str, &[&str]); 4] = [
        ("my", &["is", "are"]),
        ("our", &["is", "are"]),
        ("mein", &["ist", "sind"]),
        ("meine", &["ist", "sind"]),
    ];
    let verb_is_near = |verbs: &[&str]| text.split(' ').skip(1).take(5).any(|word| verbs.contains(&word));
    OWNERS.iter().any(|(owner, verbs)| begins_with(text, owner) && verb_is_near(verbs))
}

/// Whether the engine wrote this text in a user message.
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
            "My name is Ada Lovelace.",
            "I am allergic to peanuts.",
            "Our deadline is 3 May.",
            "Use metric units.",
            "Please use metric units.",
            "Ich bin allergisch gegen Nüsse.",
            "Mein Budget ist 500 Euro.",
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
