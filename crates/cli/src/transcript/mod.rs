//! Reads and writes transcripts: conversations in the engine's own JSON or a provider's.
//!
//! ```text
//! text ─▶ source ─▶ detect ─▶ neutral | openai | anthropic ─▶ Transcript ─▶ window ─▶ Windowed
//! ```
//!
//! A message is read twice: as the engine's [`Message`], which determines its cost and its turn, and as the original
//! JSON. Kept messages are printed unchanged; only messages that a repair changed or added are rewritten, in the same
//! format. `contexture_history` decides which turns are kept and what is repaired.

mod anthropic;
mod detect;
mod json;
mod neutral;
mod openai;
#[cfg(test)]
mod properties;
mod source;
mod trace;
mod windowed;

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use contexture_history::{Turn, group_turns};
use contexture_message::{Message, ToolCall};
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, Value};

use self::detect::detect;
use self::neutral::Unknown;
pub(crate) use self::source::Json;
use self::source::Source;
use self::trace::{Piece, sketch};
pub(crate) use self::windowed::{Windowed, reason};
use crate::error::Failure;

/// The format of the messages of a transcript.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    /// The engine's own format.
    Neutral,
    /// OpenAI's Chat Completions.
    Openai,
    /// Anthropic's Messages.
    Anthropic,
}

/// A parsed conversation.
#[derive(Debug)]
pub(crate) struct Transcript<'t> {
    format: Format,
    source: Source<'t>,
    entries: Vec<Entry<'t>>,
    /// The `system` field of a request.
    system: Option<Message>,
    /// The indices of the messages before the first turn.
    leading: Vec<usize>,
    /// Sketches of the turns.
    turns: Vec<Turn>,
}

/// A message of the transcript.
#[derive(Debug)]
struct Entry<'t> {
    raw: &'t RawValue,
    fields: Map<String, Value>,
    /// The turn id that the message declares.
    turn: Option<String>,
    message: Message,
}

/// A piece with its turn.
#[derive(Clone, Debug)]
struct Placed<'e> {
    piece: Piece,
    /// The id of the turn, as its first message declares it.
    turn: Option<&'e Value>,
    /// Whether it is the first piece of its turn.
    begins: bool,
}

/// An output message.
#[derive(Clone, Debug, PartialEq)]
enum Made {
    /// An original message, unchanged.
    Same(usize),
    /// A rewritten message.
    New(Map<String, Value>),
}

/// The tool calls so far.
#[derive(Debug, Default)]
struct Calls {
    names: HashMap<String, String>,
    /// The calls of the preceding message.
    open: HashSet<String>,
}

impl Format {
    /// Returns the display name.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Format::Neutral => "neutral",
            Format::Openai => "openai",
            Format::Anthropic => "anthropic",
        }
    }

    fn read(
        self,
        fields: &Map<String, Value>,
        calls: &mut Calls,
    ) -> Result<(Option<String>, Message), String> {
        match self {
            Format::Neutral => neutral::read(fields, Unknown::Kept),
            Format::Openai => Ok((None, openai::read(fields, calls)?)),
            Format::Anthropic => Ok((None, anthropic::read(fields, calls)?)),
        }
    }

    fn write(self, entries: &[Entry<'_>], pieces: &[Placed<'_>]) -> Vec<Made> {
        match self {
            Format::Neutral => pieces.iter().map(|it| neutral::write(entries, it)).collect(),
            Format::Openai => pieces.iter().flat_map(|it| openai::write(entries, &it.piece)).collect(),
            Format::Anthropic => {
                let pieces: Vec<Piece> = pieces.iter().map(|it| it.piece.clone()).collect();
                anthropic::write(entries, &pieces)
            }
        }
    }
}

impl<'t> Transcript<'t> {
    /// Parses a transcript. `name` is used in errors; without a format, it is detected.
    pub(crate) fn read(text: &'t str, name: &'t str, format: Option<Format>) -> Result<Self, Failure> {
        let source = Source::read(text, name)?;
        let fields = source.messages.iter().map(|it| source.fields(it));
        let fields = fields.collect::<Result<Vec<_>, Failure>>()?;
        let (format, is_guess) = match format {
            Some(format) => (format, false),
            None => (detect(&source, &fields), true),
        };
        let hinted = |failure: Failure| match is_guess {
            true => {
                let name = format.name();
                failure.hint(format!(
                    "it was read as {name}; `--format` names another: neutral, openai or anthropic"
                ))
            }
            false => failure,
        };
        let mut calls = Calls::default();
        let mut entries: Vec<Entry<'t>> = Vec::with_capacity(fields.len());
        for (raw, fields) in source.messages.iter().copied().zip(fields) {
            let read = format.read(&fields, &mut calls).map_err(|what| hinted(source.wrong(what, raw.get())));
            let (turn, message) = read?;
            entries.push(Entry { raw, fields, turn, message });
        }
        let system = source.system.filter(|_| format == Format::Anthropic).map(|raw| {
            let system = serde_json::from_str(raw.get()).map_err(|err| err.to_string());
            system.and_then(|it| anthropic::read_system(&it)).map_err(|what| source.wrong(what, raw.get()))
        });
        let (leading, turns) = grouped(&entries);
        Ok(Self { format, entries, system: system.transpose()?, leading, turns, source })
    }

    /// Returns the format of its messages.
    pub(crate) fn format(&self) -> Format {
        self.format
    }

    /// Returns the model named by a request.
    pub(crate) fn model(&self) -> Option<&str> {
        self.source.model.as_deref()
    }

    fn json(&self, made: Made) -> Json<'t> {
        match made {
            Made::Same(number) => Cow::Borrowed(self.entries[number].raw),
            Made::New(fields) => Cow::Owned(to_raw_value(&fields).expect("a JSON object has texts as keys")),
        }
    }
}

/// Returns the indices of the messages before the first turn, and sketches of the turns.
fn grouped(entries: &[Entry<'_>]) -> (Vec<usize>, Vec<Turn>) {
    let sketches =
        entries.iter().enumerate().map(|(number, it)| (it.turn.clone(), sketch(number, &it.message)));
    let grouped = group_turns(sketches);
    let leading = grouped.system.iter().filter_map(trace::number).collect();
    (leading, grouped.turns)
}

/// Reads the earlier turns of a conversation: one neutral message per line.
pub(crate) fn history(text: &str, name: &str) -> Result<Vec<Turn>, Failure> {
    let source = Source::read_lines(text, name)?;
    let mut messages = Vec::with_capacity(source.messages.len());
    for raw in &source.messages {
        let message = neutral::read(&source.fields(raw)?, Unknown::Refused);
        messages.push(message.map_err(|what| source.wrong(what, raw.get()))?);
    }
    let grouped = group_turns(messages);
    let mut turns = grouped.turns;
    if !grouped.system.is_empty() {
        // A pass has its own system message; these messages are part of the conversation, so they join the first turn.
        let id = turns.first().map_or_else(|| "t1".into(), |it| it.id().clone());
        let said = turns.first().map_or(&[] as &[_], |it| it.messages());
        let messages = grouped.system.into_iter().chain(said.iter().map(|it| (**it).clone())).collect();
        turns.splice(..turns.len().min(1), [Turn::new(id, messages)]);
    }
    Ok(turns)
}

impl Made {
    fn of(value: Value) -> Self {
        match value {
            Value::Object(fields) => Made::New(fields),
            other => Made::New(Map::from_iter([("content".to_owned(), other)])),
        }
    }
}

impl Calls {
    /// Records the calls of the next message.
    fn ask<'c>(&mut self, calls: impl IntoIterator<Item = &'c ToolCall>) {
        self.open.clear();
        for call in calls {
            self.names.insert(call.id.clone(), call.name.clone());
            self.open.insert(call.id.clone());
        }
    }

    fn is_open(&self, id: &str) -> bool {
        self.open.contains(id)
    }

    /// Returns the name of the tool that was called with an id, or an empty string.
    fn name(&self, id: &str) -> String {
        self.names.get(id).cloned().unwrap_or_default()
    }
}
