//! Makes a summary from excerpts, without a model.
//!
//! The input is the turns of a range and the facts stored with the summary; the output is a text that [`judge`]
//! accepts. The rules:
//!
//! 1. Each turn is one line: the request, the tools called and their outcome, and the start of the answer.
//! 2. Lines of a summary in the range are kept unchanged, without its facts.
//! 3. If the text is too long, the oldest lines are left out first. If even the introduction does not fit, it fails.

use std::fmt;

use contexture_message::{Message, Part, Role, TokenCounter, Tokens, ToolOutput};

use super::facts::is_engine_text;
use super::phrases::{excerpt, sentences};
use super::verdict::{SummaryVerdict, VerdictRules, allowed, facts_tokens, judge, summary_tokens};
use crate::item::fact::{read_facts, wording};
use crate::item::wording::{filled, summary_text};
use crate::{Fact, Turn};

/// How many characters of a request and of an answer are shown.
const EXCERPT_CHARS: usize = 160;
/// How many different tools are named.
const MAX_TOOLS: usize = 6;

/// The limits for an extract.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExtractLimits {
    /// The maximum number of tokens without the facts, as the model reads it.
    pub max_tokens: Tokens,
    /// The limits for every summary.
    pub rules: VerdictRules,
}

impl Default for ExtractLimits {
    fn default() -> Self {
        Self { max_tokens: Tokens(2000), rules: VerdictRules::default() }
    }
}

/// No extract is short enough.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unextractable {
    /// The cost of the shortest extract with the facts.
    pub needed: Tokens,
    /// The allowed cost.
    pub allowed: Tokens,
}

impl fmt::Display for Unextractable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the shortest excerpt has {} tokens, {} are allowed", self.needed, self.allowed)
    }
}

impl std::error::Error for Unextractable {}

/// Returns a summary of turns that cost `before`, made of excerpts.
///
/// ```
/// use contexture_history::Turn;
/// use contexture_history::compaction::{ExtractLimits, extract};
/// use contexture_message::{Encoding, Message, Tokens};
///
/// let turn = Turn::new("t1", vec![Message::user("Where is it?"), Message::assistant("Here. Look!")]);
/// let summary = extract(&[turn], &[], Tokens(200), &ExtractLimits::default(), &Encoding::O200kBase)?;
/// assert_eq!(summary, "Earlier conversation, in excerpts:\n- asked: Where is it? | answered: Here.");
/// # Ok::<(), contexture_history::compaction::Unextractable>(())
/// ```
pub fn extract(
    turns: &[Turn],
    facts: &[Fact],
    before: Tokens,
    limits: &ExtractLimits,
    counter: &dyn TokenCounter,
) -> Result<String, Unextractable> {
    let alone = facts_tokens(facts, counter);
    let allowed = (alone + limits.max_tokens).min(allowed(facts, before, &limits.rules, counter));
    let lines: Vec<String> = turns.iter().flat_map(turn_lines).collect();
    let fits = |text: &str| match judge(text, facts, before, &limits.rules, counter) {
        SummaryVerdict::Accepted { tokens, .. } => tokens <= allowed,
        SummaryVerdict::Rejected { .. } => false,
    };
    let from = |first: usize| written(&lines, first);
    // The later the first line, the shorter the text.
    let mut steps = (0, lines.len());
    while steps.0 < steps.1 {
        let middle = usize::midpoint(steps.0, steps.1);
        match fits(&from(middle)) {
            true => steps.1 = middle,
            false => steps.0 = middle + 1,
        }
    }
    let text = from(steps.0);
    match fits(&text) {
        true => Ok(text),
        false => Err(Unextractable { needed: summary_tokens(&text, facts, counter), allowed }),
    }
}

fn written(lines: &[String], first: usize) -> String {
    let left_out = filled(wording("left_out"), &[("count", &first.to_string())]);
    let mut text = vec![wording("intro")];
    text.extend((first > 0).then_some(left_out.as_str()));
    text.extend(lines[first..].iter().map(String::as_str));
    text.join("\n")
}

fn turn_lines(turn: &Turn) -> Vec<String> {
    let mut lines = Vec::new();
    let (mut asked, mut answered) = (Vec::new(), None);
    for message in turn.messages() {
        for part in &message.content {
            match (message.role, part) {
                (Role::User, Part::Text { text, .. }) if !is_engine_text(text) => match summary_text(text) {
                    Some(summary) => lines.extend(kept_lines(summary)),
                    None => asked.push(text.as_str()),
                },
                (Role::Assistant, Part::Text { text, .. }) => answered = sentences(text).next().or(answered),
                _ => {}
            }
        }
    }
    let said = |key: &str, text: &str| {
        let text = excerpt(text, EXCERPT_CHARS);
        (!text.is_empty()).then(|| filled(wording(key), &[("text", &text)]))
    };
    let parts = [
        said("asked", &asked.join(" ")),
        said("tools", &tools(turn.messages().iter().map(AsRef::as_ref))),
        said("answered", answered.unwrap_or_default()),
    ];
    let line = parts.into_iter().flatten().collect::<Vec<_>>().join(" | ");
    lines.extend((!line.is_empty()).then(|| format!("- {line}")));
    lines
}

/// Returns the lines of a summary that describe what happened.
fn kept_lines(summary: &str) -> impl Iterator<Item = String> {
    let (note, note_end) = wording("left_out").split_once("{count}").unwrap_or_default();
    let is_note = move |line: &str| line.starts_with(note) && line.ends_with(note_end);
    let (lines, _) = read_facts(summary);
    lines
        .into_iter()
        .filter(move |it| *it != wording("intro") && !is_note(it))
        .map(str::to_owned)
        .collect::<Vec<_>>()
        .into_iter()
}

/// Describes which tools were called and their outcome.
fn tools<'a>(messages: impl Iterator<Item = &'a Message> + Clone) -> String {
    let parts = || messages.clone().flat_map(|it| &it.content);
    let mut results: Vec<(&str, &ToolOutput)> = Vec::new();
    for part in parts() {
        if let Part::ToolResult(result) = part {
            results.push((&result.call_id, &result.output));
        }
    }
    let mut outcomes: Vec<(String, usize)> = Vec::new();
    for part in parts() {
        let Part::ToolCall(call) = part else { continue };
        let found = results.iter().position(|(id, _)| *id == call.id).map(|it| results.remove(it).1);
        let outcome = format!("{} {}", call.name, outcome(found));
        match outcomes.iter_mut().find(|(it, _)| *it == outcome) {
            Some((_, count)) => *count += 1,
            None => outcomes.push((outcome, 1)),
        }
    }
    let n_more: usize = outcomes.iter().skip(MAX_TOOLS).map(|(_, count)| count).sum();
    let shown = outcomes.iter().take(MAX_TOOLS).map(|(it, count)| match count {
        1 => it.clone(),
        _ => format!("{it} ×{count}"),
    });
    let more = (n_more > 0).then(|| filled(wording("more"), &[("count", &n_more.to_string())]));
    shown.chain(more).collect::<Vec<_>>().join(", ")
}

fn outcome(output: Option<&ToolOutput>) -> &'static str {
    match output {
        None => wording("unanswered"),
        Some(ToolOutput::Text(_) | ToolOutput::Json(_) | ToolOutput::Content(_)) => wording("ok"),
        Some(ToolOutput::ErrorText(_) | ToolOutput::ErrorJson(_)) => wording("failed"),
        Some(ToolOutput::ExecutionDenied { .. }) => wording("refused"),
    }
}
