//! Scrubbing: what is forgotten also leaves the copies of it that logs and passes have.
//!
//! A [`Scrub`] says what to look for: words of records, and turns of threads. In every session in which the memory was
//! shown, the rules are:
//!
//! 1. *Words* leave everything that copies memory: hidden envelopes, frozen blocks of a memory, calls and results of
//!    tools, thinking, summaries and their facts, journals. Messages that the user and the model wrote stay as they were
//!    said; so do skills, artifacts, system events and other blocks, whatever words they share with a memory.
//! 2. *Turns* are emptied: their messages, envelopes and results, in forks too; a summary that covers one loses its text
//!    and the facts that were said there. Turns of another user than the memory's stay, as do skills, artifacts and
//!    other system events.
//! 3. A pass (a record of a journal with `thread` and `turn`) that shows a forgotten turn loses its document, and one
//!    that shows words has a mark in their place. Both say so in `forgotten`.
//!
//! What a running turn writes afterwards is scrubbed when it ends: the namespace keeps the scrub until then, so a crash
//! does not lose it either. Everything here is pure; `erase` reads and rewrites the logs.

use std::collections::{BTreeMap, BTreeSet};

use contexture_agent::{is_frozen_record, is_skill_record, with_frozen_texts};
use contexture_history::compaction::{holds, normal};
use contexture_history::{Body, Change, Cost, Item, Seq, Timestamp, TurnNo};
use contexture_message::{Message, Part, Tokens, ToolOutput};
use contexture_session::{LogHead, LogKind, is_artifact_record};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::blocks::{CORE, MEMORY_CATALOGUE, UPDATED};

/// What stands in the place of what was forgotten.
pub const FORGOTTEN: &str = "[forgotten]";
/// The tools whose arguments and results are memory.
const MEMORY_TOOLS: [&str; 5] = ["memory_search", "memory_read", "remember", "forget", "memory"];
/// The tools whose results are documents of the project and of the application.
const DOCUMENT_TOOLS: [&str; 4] = ["LoadSkill", "LoadReference", "UnloadSkill", "ReadArtifact"];
/// The fields of their arguments that are not text of a memory.
const PLAIN_FIELDS: [&str; 9] =
    ["command", "path", "old_path", "new_path", "id", "layer", "layers", "order", "supersedes"];
/// A line of a longer text is looked for on its own if it has so many characters, and two words.
const MIN_LINE: usize = 12;

/// What to remove from logs and journals.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Scrub {
    /// When it was forgotten.
    pub(crate) at: Timestamp,
    /// The texts of records, each with all of its versions.
    pub(crate) texts: BTreeSet<String>,
    /// Turns of threads, all if there are none.
    pub(crate) turns: BTreeMap<String, BTreeSet<String>>,
}

impl Scrub {
    /// Returns the words to look for.
    pub(crate) fn needles(&self) -> Needles {
        Needles::new(self.texts.iter().map(String::as_str))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.texts.is_empty() && self.turns.is_empty()
    }
}

/// The forgotten turns of a thread: all of them if there are none, up to a position if it is a copy.
pub(crate) struct DoomedTurns {
    turns: BTreeSet<TurnNo>,
    up_to: Option<Seq>,
}

impl DoomedTurns {
    fn has(&self, turn: TurnNo, seq: Seq) -> bool {
        (self.turns.is_empty() || self.turns.contains(&turn)) && self.up_to.is_none_or(|it| seq <= it)
    }
}

/// Returns the forgotten turns of each log of a session. Copies of a thread have its turns, and with the whole main
/// thread all others are forgotten.
pub(crate) fn turns_in(scrub: &Scrub, logs: &[LogHead]) -> BTreeMap<String, DoomedTurns> {
    let parsed = |turns: &BTreeSet<String>| turns.iter().filter_map(|it| TurnNo::parse(it)).collect();
    let mut found = BTreeMap::new();
    for head in logs.iter().filter(|it| it.info.kind.is_thread()) {
        let of_session = scrub.turns.get(head.info.session.as_str()).filter(|it| it.is_empty());
        if let Some(turns) = of_session.or_else(|| scrub.turns.get(head.info.thread.as_str())) {
            let doomed = DoomedTurns { turns: parsed(turns), up_to: None };
            found.insert(head.info.thread.to_string(), doomed);
        }
    }
    // A copy of a copy is found in a later round.
    loop {
        let mut further = Vec::new();
        for head in logs.iter().filter(|it| !found.contains_key(it.info.thread.as_str())) {
            let Some(base) = &head.info.base else { continue };
            if let Some(of) = found.get(base.thread.as_str()) {
                let up_to = Some(of.up_to.map_or(base.seq, |it| it.min(base.seq)));
                let doomed = DoomedTurns { turns: of.turns.clone(), up_to };
                further.push((head.info.thread.to_string(), doomed));
            }
        }
        if further.is_empty() {
            return found;
        }
        found.extend(further);
    }
}

/// A scrub of one log.
pub(crate) struct LogScrub<'a> {
    pub(crate) scrub: &'a Scrub,
    pub(crate) needles: &'a Needles,
    pub(crate) turns: Option<&'a DoomedTurns>,
}

impl LogScrub<'_> {
    /// Returns an item as it stays, if it changes. `is_own` says whether the namespace may forget its turn.
    pub(crate) fn scrubbed(&self, head: &LogHead, item: Item, is_own: bool) -> Option<Item> {
        if item.at > self.scrub.at && (head.info.kind == LogKind::Journal || !is_copy(&item)) {
            return None;
        }
        let body = match head.info.kind {
            LogKind::Journal => self.scrubbed_record(&item.body),
            _ => self.emptied(&item, is_own).or_else(|| self.without_words(&item.body)),
        }?;
        // It has to be counted again.
        let cost = match head.info.kind {
            LogKind::Journal => item.cost,
            _ => Cost { counter: "".into(), tokens: Tokens(0) },
        };
        Some(Item { body, cost, ..item })
    }

    fn emptied(&self, item: &Item, is_own: bool) -> Option<Body> {
        let turns = self.turns?;
        match &item.body {
            Body::Summary(summary) => {
                let (first, last) = summary.turns;
                let covers =
                    turns.turns.is_empty() || turns.turns.iter().any(|it| (first..=last).contains(it));
                if !covers || summary.text == FORGOTTEN {
                    return None;
                }
                let mut summary = summary.clone();
                summary.text = FORGOTTEN.to_owned();
                summary.facts.retain(|it| !turns.turns.is_empty() && !self.needles.is_in(&it.text));
                Some(Body::Summary(summary))
            }
            body if is_own && !is_kept(body) && turns.has(item.turn, item.seq) => {
                Some(empty(body)).filter(|it| it != body)
            }
            _ => None,
        }
    }

    fn without_words(&self, body: &Body) -> Option<Body> {
        if is_kept(body) || matches!(body, Body::Change(Change::TurnBegan { .. })) {
            return None;
        }
        if let Body::SystemEvent(event) = body {
            let mut event = event.clone();
            return self.needles.scrub_text(&mut event.text).then_some(Body::SystemEvent(event));
        }
        if is_frozen_record(body) {
            // Blocks go by the name of their tag.
            let is_memory = |name: &str| name == CORE || name == MEMORY_CATALOGUE.replace('_', "-");
            return with_frozen_texts(body, |name, text| is_memory(name) && self.needles.scrub_text(text));
        }
        let mut value = serde_json::to_value(body).ok()?;
        let is_changed = self.needles.scrub(&mut value, Said::Stays);
        is_changed.then(|| serde_json::from_value(value).ok()).flatten()
    }

    fn scrubbed_record(&self, body: &Body) -> Option<Body> {
        let Body::Application(application) = body else { return None };
        let mut application = application.clone();
        let Value::Object(fields) = &mut application.value else { return None };
        let is_changed = match self.shows_turn(fields) {
            true => drop_document(fields, self.scrub.at),
            false => scrub_record(fields, self.needles, self.scrub.at),
        };
        is_changed.then_some(Body::Application(application))
    }

    /// Whether a record is a pass whose conversation has a forgotten turn.
    fn shows_turn(&self, fields: &Map<String, Value>) -> bool {
        let (Some(thread), Some(turn)) = (fields.get("thread"), fields.get("turn")) else { return false };
        let turn = turn.as_str().and_then(TurnNo::parse);
        let of = thread.as_str().and_then(|it| self.scrub.turns.get(it));
        match (of, turn) {
            (Some(turns), Some(turn)) if !turns.is_empty() => {
                turns.iter().filter_map(|it| TurnNo::parse(it)).any(|it| turn >= it)
            }
            (Some(_), _) => true,
            // Another thread of the session may have begun as a copy.
            (None, _) => {
                let session = thread.as_str().and_then(|it| it.split('/').next());
                let is_of = |it: &String| it.split('/').next() == session;
                self.scrub.turns.keys().any(is_of)
            }
        }
    }
}

/// Whether an item is a fact of its own, whatever turn it was recorded in and whatever words it shares with a memory.
fn is_kept(body: &Body) -> bool {
    match body {
        Body::SystemEvent(event) => event.name != UPDATED,
        body => is_artifact_record(body) || is_skill_record(body),
    }
}

/// Whether an item copies what was there before: a running turn may write forgotten words in one.
fn is_copy(item: &Item) -> bool {
    match &item.body {
        Body::Change(_) | Body::Summary(_) | Body::Envelope(_) => true,
        Body::SystemEvent(event) => event.name == UPDATED,
        Body::Message(_) | Body::Application(_) => false,
    }
}

/// Removes what a pass showed. Returns whether it was there.
fn drop_document(fields: &mut Map<String, Value>, at: Timestamp) -> bool {
    if fields.get("document").is_none_or(Value::is_null) {
        return false;
    }
    fields.insert("document".to_owned(), Value::Null);
    fields.remove("elements");
    fields.insert("forgotten".to_owned(), json!({"at": at}));
    true
}

/// Removes words from a record of a journal, and notes which of its elements had them.
fn scrub_record(fields: &mut Map<String, Value>, needles: &Needles, at: Timestamp) -> bool {
    let mut elements = Vec::new();
    if let Some(Value::Array(all)) = fields.get_mut("elements") {
        let all = (0_usize..).zip(all);
        elements = all.filter_map(|(idx, it)| needles.scrub(it, Said::Goes).then_some(idx)).collect();
    }
    let document = fields.get_mut("document").is_some_and(|it| needles.scrub(it, Said::Goes));
    if !document && elements.is_empty() {
        return false;
    }
    let before: Vec<usize> =
        fields.get("forgotten").and_then(|it| Vec::deserialize(it.get("elements")?).ok()).unwrap_or_default();
    elements.extend(before);
    elements.sort_unstable();
    elements.dedup();
    fields.insert("forgotten".to_owned(), json!({"at": at, "elements": elements}));
    true
}

/// Returns a body of a forgotten turn: what remains is that something was there.
fn empty(body: &Body) -> Body {
    match body {
        Body::Message(message) => Body::Message(empty_message(message).into()),
        Body::SystemEvent(event) => {
            let mut event = event.clone();
            event.text = FORGOTTEN.to_owned();
            Body::SystemEvent(event)
        }
        Body::Envelope(envelope) => {
            let mut envelope = envelope.clone();
            (envelope.text, envelope.evidence) = (FORGOTTEN.to_owned(), Vec::new());
            Body::Envelope(envelope)
        }
        Body::Application(application) => {
            let mut application = application.clone();
            application.value = Value::Null;
            Body::Application(application)
        }
        Body::Change(Change::TurnEnded { status, code, usage, .. }) => {
            let (status, code, usage) = (*status, code.clone(), *usage);
            Body::Change(Change::TurnEnded { status, reason: None, code, usage })
        }
        Body::Summary(_) | Body::Change(_) => body.clone(),
    }
}

fn empty_message(message: &Message) -> Message {
    let part = |part: &Part| match part {
        Part::ToolCall(call) => {
            let mut call = call.clone();
            call.arguments = json!({});
            Some(Part::ToolCall(call))
        }
        Part::ToolResult(result) => {
            let mut result = result.clone();
            result.output = ToolOutput::Text(FORGOTTEN.to_owned());
            Some(Part::ToolResult(result))
        }
        Part::Thinking(_) => None,
        Part::Text { .. } | Part::Image(_) | Part::File(_) | Part::Evidence(_) => Some(Part::text(FORGOTTEN)),
    };
    let mut content: Vec<Part> = message.content.iter().filter_map(part).collect();
    content.dedup();
    Message { content, ..message.clone() }
}

/// What happens to messages that the user and the model wrote.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Said {
    Stays,
    Goes,
}

/// The words to look for, as [`normal`] writes them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Needles {
    /// The texts, and long lines of them. Longest first.
    phrases: Vec<Vec<String>>,
    /// All lines, for what memory tools were told and answered.
    lines: Vec<String>,
    /// The texts.
    texts: Vec<String>,
}

impl Needles {
    fn new<'a>(texts: impl Iterator<Item = &'a str>) -> Self {
        let (mut phrases, mut lines, mut whole) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
        // The mark at the end of a sentence is often another one where it is quoted.
        let words = |it: &str| plain(it).trim_end_matches(['.', '!', '?']).to_owned();
        for text in texts {
            whole.insert(words(text));
            phrases.insert(words(text));
            let each = text.lines().map(words).filter(|it| it.chars().any(char::is_alphanumeric));
            for line in each {
                if line.chars().count() >= MIN_LINE && line.contains(' ') {
                    phrases.insert(line.clone());
                }
                lines.insert(line);
            }
        }
        let tokens = |it: String| it.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let mut phrases: Vec<_> = phrases.into_iter().filter(|it| !it.is_empty()).map(tokens).collect();
        phrases.sort_by_key(|it| std::cmp::Reverse(it.len()));
        let texts = whole.into_iter().filter(|it| !it.is_empty()).collect();
        Self { phrases, lines: lines.into_iter().collect(), texts }
    }

    /// Whether a text has any of the words.
    fn is_in(&self, text: &str) -> bool {
        let text = plain(text);
        self.texts.iter().any(|it| holds(&text, it) || holds(it, &text))
    }

    /// Removes the words from all texts of a value. Returns whether there were any.
    fn scrub(&self, value: &mut Value, said: Said) -> bool {
        match value {
            Value::String(text) => self.scrub_text(text),
            Value::Array(items) => {
                let before = items.len();
                items.retain(|it| !(is_part(it, "thinking") && self.is_thought(it)));
                let is_shorter = items.len() != before;
                items.iter_mut().map(|it| self.scrub(it, said)).fold(is_shorter, |changed, it| changed | it)
            }
            Value::Object(fields) => self.scrub_fields(fields, said),
            Value::Null | Value::Bool(_) | Value::Number(_) => false,
        }
    }

    fn scrub_fields(&self, fields: &mut Map<String, Value>, said: Said) -> bool {
        let name = |key: &str| fields.get(key).and_then(Value::as_str).unwrap_or_default();
        let is_spoken = said == Said::Stays && matches!(name("role"), "user" | "assistant");
        let is_call = matches!(name("type"), "tool_call" | "tool_result");
        let is_memory = is_call && MEMORY_TOOLS.contains(&name("name"));
        if is_call && said == Said::Stays && DOCUMENT_TOOLS.contains(&name("name")) {
            return false;
        }
        let mut changed = false;
        for (key, value) in fields.iter_mut() {
            changed |= match key.as_str() {
                "content" if is_spoken => self.scrub_unspoken(value, said),
                "arguments" | "output" if is_memory => self.scrub_memory(value, ""),
                _ => self.scrub(value, said),
            };
        }
        changed
    }

    /// Scrubs the parts of a message that are not what was said.
    fn scrub_unspoken(&self, content: &mut Value, said: Said) -> bool {
        let Value::Array(parts) = content else { return false };
        let before = parts.len();
        parts.retain(|it| !(is_part(it, "thinking") && self.is_thought(it)));
        let is_shorter = parts.len() != before;
        let unspoken = parts.iter_mut().filter(|it| !is_part(it, "text"));
        unspoken.map(|it| self.scrub(it, said)).fold(is_shorter, |changed, it| changed | it)
    }

    fn is_thought(&self, part: &Value) -> bool {
        let text = plain(part["text"].as_str().unwrap_or_default());
        self.texts.iter().chain(&self.lines).any(|it| holds(&text, it))
    }

    /// Scrubs what a memory tool was told or has answered: also a part of a text is a copy of it.
    fn scrub_memory(&self, value: &mut Value, field: &str) -> bool {
        match value {
            Value::String(text) if !PLAIN_FIELDS.contains(&field) => {
                let words = plain(text);
                let is_copy = self.lines.iter().any(|it| holds(&words, it));
                let is_piece = !words.is_empty() && self.texts.iter().any(|it| holds(it, &words));
                let goes = (is_copy || is_piece) && text != FORGOTTEN;
                if goes {
                    *text = FORGOTTEN.to_owned();
                }
                goes
            }
            Value::Array(items) => {
                items.iter_mut().map(|it| self.scrub_memory(it, field)).fold(false, |all, it| all | it)
            }
            // The type of an output is a name.
            Value::Object(fields) => fields
                .iter_mut()
                .filter(|(key, _)| key.as_str() != "type")
                .map(|(key, it)| self.scrub_memory(it, key))
                .fold(false, |all, it| all | it),
            _ => false,
        }
    }

    /// Puts a mark in the place of the words. Returns whether there were any.
    fn scrub_text(&self, text: &mut String) -> bool {
        // A single word may be a name in a structure, such as a status.
        if !text.contains(char::is_whitespace) {
            return false;
        }
        let mut changed = false;
        for phrase in &self.phrases {
            // Each round takes a word away; the mark is none.
            while let Some(next) = without(text, phrase) {
                *text = next;
                changed = true;
            }
        }
        // What is quoted in JSON has its line breaks written out.
        let unquoted = plain(&text.replace("\\n", " ").replace("\\\"", "\""));
        if self.texts.iter().any(|it| it.contains(' ') && holds(&unquoted, it)) {
            *text = FORGOTTEN.to_owned();
            changed = true;
        }
        if changed {
            drop_empty_lines(text);
        }
        changed
    }
}

/// Removes list items of which nothing but the mark is left.
fn drop_empty_lines(text: &mut String) {
    let is_left = |it: &&str| it.trim().strip_prefix("- ") != Some(FORGOTTEN);
    if text.lines().any(|it| !is_left(&it)) {
        *text = text.lines().filter(is_left).collect::<Vec<_>>().join("\n");
    }
}

fn is_part(value: &Value, kind: &str) -> bool {
    value["type"].as_str() == Some(kind)
}

/// Returns a text in the form in which texts are compared, whatever was escaped in it.
fn plain(text: &str) -> String {
    match text.contains('&') {
        true => normal(
            &text
                .replace("&lt;", "<")
                .replace("&gt;", ">")
                .replace("&quot;", "\"")
                .replace("&#39;", "'")
                .replace("&amp;", "&"),
        ),
        false => normal(text),
    }
}

/// Returns a text with a mark in the place of the first phrase that it has.
fn without(text: &str, phrase: &[String]) -> Option<String> {
    let tokens: Vec<(usize, usize, String)> = tokens(text);
    let at = (0..tokens.len()).find(|start| begins(&tokens[*start..], phrase))?;
    let (first, last) = (tokens[at].0, tokens[at + phrase.len() - 1].1);
    Some(format!("{}{FORGOTTEN}{}", &text[..first], &text[last..]))
}

/// Splits a text at its blanks. Words without a letter of their own, such as quotes, belong to none.
fn tokens(text: &str) -> Vec<(usize, usize, String)> {
    let mut found = Vec::new();
    let mut start = None;
    for (at, char) in text.char_indices().chain([(text.len(), ' ')]) {
        match (start, char.is_whitespace()) {
            (None, false) => start = Some(at),
            (Some(first), true) => {
                let word = plain(&text[first..at]);
                if !word.is_empty() && !word.contains(FORGOTTEN) {
                    found.push((first, at, word));
                }
                start = None;
            }
            _ => {}
        }
    }
    found
}

/// Whether tokens begin with a phrase; more may stand before its first word and behind its last one.
fn begins(tokens: &[(usize, usize, String)], phrase: &[String]) -> bool {
    if tokens.len() < phrase.len() {
        return false;
    }
    let last = phrase.len() - 1;
    phrase.iter().zip(tokens).enumerate().all(|(idx, (word, (_, _, token)))| match (idx == 0, idx == last) {
        (true, true) => holds(token, word),
        (true, false) => {
            token.strip_suffix(word.as_str()).is_some_and(|it| !it.ends_with(char::is_alphanumeric))
        }
        (false, true) => {
            token.strip_prefix(word.as_str()).is_some_and(|it| !it.starts_with(char::is_alphanumeric))
        }
        (false, false) => token == word,
    })
}

/// Scrubs a record of a journal that is about to be written, of a call that was made before something was forgotten.
pub(crate) fn scrub_new_record(value: &mut Value, scrub: &Scrub) {
    let needles = scrub.needles();
    let work = LogScrub { scrub, needles: &needles, turns: None };
    if let Value::Object(fields) = value {
        match work.shows_turn(fields) {
            true => drop_document(fields, scrub.at),
            false => scrub_record(fields, &needles, scrub.at),
        };
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{Needles, Said};

    fn scrubbed(text: &str, value: Value, said: Said) -> String {
        let mut value = value;
        Needles::new([text].into_iter()).scrub(&mut value, said);
        value.to_string()
    }

    #[test]
    fn words_are_found_whatever_their_case_blanks_and_escapes() {
        let of = |text: &str| scrubbed("Ada's key is <blue> & old.", json!(text), Said::Goes);
        insta::assert_snapshot!(of("- Be kind.\n- Ada's key is &lt;blue&gt; &amp; old.\n- Be brief."), @r#""- Be kind.\n- Be brief.""#);
        insta::assert_snapshot!(of("He said: \"ADA’S  key\nis <blue> & old.\" Right"), @r#""He said: [forgotten] Right""#);
        insta::assert_snapshot!(of("Ada's key is <blue> & older."), @r#""Ada's key is <blue> & older.""#);
        insta::assert_snapshot!(of("{\"text\":\"Ada's key is <blue> & old.\"}"), @r#""[forgotten]""#);
    }

    #[test]
    fn what_was_said_stays_and_copies_go() {
        let message = json!({"role": "assistant", "content": [
            {"type": "thinking", "text": "The pin is 47 11, I know."},
            {"type": "text", "text": "The pin is 47 11."},
            {"type": "tool_call", "id": "c", "name": "remember", "arguments": {"text": "pin is 47", "layer": "facts"}},
        ]});
        insta::assert_snapshot!(scrubbed("The pin is 47 11.", message.clone(), Said::Stays), @r#"{"role":"assistant","content":[{"type":"text","text":"The pin is 47 11."},{"type":"tool_call","id":"c","name":"remember","arguments":{"text":"[forgotten]","layer":"facts"}}]}"#);
        insta::assert_snapshot!(scrubbed("The pin is 47 11.", message, Said::Goes), @r#"{"role":"assistant","content":[{"type":"text","text":"[forgotten]"},{"type":"tool_call","id":"c","name":"remember","arguments":{"text":"[forgotten]","layer":"facts"}}]}"#);
    }
}
