//! What a summary must not lose.
//!
//! In come the turns of a range and the facts of the summaries in it, out come [`Fact`]s. What counts, in full:
//!
//! 1. *Standing instructions*: sentences of the user with a phrase such as `always`, `never`, `from now on`, `my name is`,
//!    or that begin like an order (`use`, `avoid`), in English, German, French or Spanish. Questions are none, unless they
//!    politely ask for something ("Can you always …?"). Code, hidden envelopes, answers and results of tools are not looked
//!    at: what a tool says is never an instruction of the user.
//! 2. *Open calls*: calls that have no result in the range.
//! 3. *Artifacts*: paths, addresses, identifiers and quoted names in what user and assistant say and in the arguments
//!    of calls. Those that are named most often go first, then the latest.
//! 4. The *last request* of the user.
//! 5. The facts of summaries in the range are facts again, word for word. The other words of a summary are not looked at
//!    for instructions: they may be those of a tool. What a summariser quotes of the user is one, see [`quoted_facts`].
//!
//! Instructions and open calls have a budget of their own. Where it is too small, sentences that only begin like an order
//! give way first, then the oldest. Names and the last request share what is left of a quarter of the range.

use std::collections::HashMap;

use contexture_message::{Message, Part, Role, TokenCounter, Tokens, ToolCall};
use serde_json::Value;

use super::artifacts::artifacts;
use super::cues::{ORDER, POLITE, STANDING};
use super::phrases::{begins_with, clipped, holds, normal, sentences};
use crate::fact::read_facts;
use crate::neutral::ENGINE_TAG_NAMES;
use crate::wording::summary_text;
use crate::{Fact, FactKind, Turn};

/// How many facts, and how long.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FactLimits {
    /// The most open calls.
    pub max_open_calls: usize,
    /// The most artifacts.
    pub max_artifacts: usize,
    /// The most characters of a fact. Sentences are cut, longer artifacts left out.
    pub max_fact_chars: usize,
    /// The most that instructions and open calls may cost together.
    pub max_tokens: Tokens,
    /// The most that names and the last request may cost together.
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
    /// Returns the defaults, or less: instructions may take an eighth of what a request may have, names a quarter of what the
    /// range costs.
    pub fn new(usable: Tokens, before: Tokens) -> Self {
        let defaults = Self::default();
        Self {
            max_tokens: defaults.max_tokens.min(Tokens(usable.0 / 8)),
            max_name_tokens: defaults.max_name_tokens.min(Tokens(before.0 / 4)),
            ..defaults
        }
    }
}

/// Returns what must stay readable of these turns. `carried` are the facts of the summaries among them, oldest first.
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

/// Returns the standing instructions that a summariser lists although no rule found them. Only the user's own words count:
/// what it does not quote from these turns may have come from a tool.
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

/// Returns what the user says in a message; neither the engine's words nor those of a summary.
fn user_texts(message: &Message) -> impl Iterator<Item = &str> {
    let parts = message.content.iter().filter(|_| message.role == Role::User);
    parts.filter_map(|it| match it {
        Part::Text { text } if !is_engine_text(text) && summary_text(text).is_none() => Some(text.as_str()),
        _ => None,
    })
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
                    // Its facts are carried; its other words only have names.
                    Some(summary) => read_facts(summary).0.into_iter().for_each(|it| self.name(it)),
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

    /// Chooses within the limits, the most important first.
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
        // As they were said: the later of two that contradict each other is the one that holds.
        let place = |it: &Fact| match it.kind {
            FactKind::Instruction => order.iter().rposition(|said| *said == normal(&it.text)).unwrap_or(0),
            FactKind::OpenCall | FactKind::Artifact | FactKind::Request => 0,
        };
        chosen.facts.sort_by_cached_key(|it| (it.kind, place(it)));
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

/// How many instructions of one message are looked at: a longer list is a text that was pasted.
const MAX_PER_MESSAGE: usize = 24;
/// A sentence that only begins like an order is short, or it is something else.
const MAX_ORDER_CHARS: usize = 160;

fn instructions(text: &str) -> impl Iterator<Item = String> {
    sentences(text).filter(|it| is_instruction(it)).take(MAX_PER_MESSAGE).map(str::to_owned)
}

fn is_instruction(sentence: &str) -> bool {
    let text = normal(sentence);
    let is_question = text.ends_with('?') && !POLITE.iter().any(|it| begins_with(&text, it));
    let is_order = || {
        let text = POLITE.iter().find_map(|it| text.strip_prefix(it)).map_or(&*text, str::trim_start);
        text.chars().count() <= MAX_ORDER_CHARS && ORDER.iter().any(|it| begins_with(text, it))
    };
    !is_question && (is_standing(&text) || is_order())
}

/// Whether a sentence, written as it is compared, says that it is to hold from now on.
fn is_standing(text: &str) -> bool {
    STANDING.iter().any(|it| holds(text, it)) || is_about_user(text)
}

/// Whether the user says what something of theirs is: "my deadline is Friday".
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
