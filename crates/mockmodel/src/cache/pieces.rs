//! A body as the pieces that a cache compares.
//!
//! In comes the JSON of a request, out come its blocks in the order in which the provider lays out the prompt: tools, then
//! the instructions, then the messages. A piece has two texts: what it is compared by (the whole block but its mark) and
//! what the model reads of it, which is what is counted.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use contexture_message::TokenCounter;
use serde_json::Value;

/// A block of a prompt.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Piece {
    /// What makes it the same as another: who speaks, and the block as JSON.
    pub(super) identity: String,
    /// What the model reads.
    pub(super) reads: String,
    /// Its `cache_control`, if it has one.
    pub(super) mark: Option<Mark>,
}

/// A mark on a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mark {
    /// Lives for the usual time.
    Short,
    /// Lives for an hour.
    Hour,
}

impl Piece {
    /// Returns a piece that is there to be compared only.
    pub(super) fn named(identity: String) -> Self {
        Self { identity, ..Self::default() }
    }

    fn of(who: &str, block: &Value) -> Self {
        let mut reads = String::new();
        read(block, &mut reads);
        let mark = block.get("cache_control").filter(|it| !it.is_null()).map(mark);
        let identity = match (block, mark) {
            (Value::Object(fields), Some(_)) => {
                let mut fields = fields.clone();
                fields.shift_remove("cache_control");
                format!("{who} {}", Value::Object(fields))
            }
            // A string is the short form of a text block: both are the same prompt.
            (Value::String(text), _) => {
                format!("{who} {}", serde_json::json!({"type": "text", "text": text}))
            }
            _ => format!("{who} {block}"),
        };
        Self { identity, reads, mark }
    }
}

fn mark(control: &Value) -> Mark {
    match control.get("ttl").and_then(Value::as_str) {
        Some("1h") => Mark::Hour,
        _ => Mark::Short,
    }
}

/// Writes what the model reads of a block: its texts, line by line. What a schema or arguments say is read as JSON.
fn read(value: &Value, reads: &mut String) {
    match value {
        Value::String(text) => {
            reads.push_str(text);
            reads.push('\n');
        }
        Value::Array(values) => values.iter().for_each(|it| read(it, reads)),
        Value::Object(fields) => {
            for (name, value) in fields {
                match name.as_str() {
                    "type" | "cache_control" => {}
                    "input" | "input_schema" | "parameters" | "schema" => {
                        read(&value.to_string().into(), reads)
                    }
                    _ => read(value, reads),
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Returns the blocks of a field that holds a text or a list.
fn blocks(who: &str, field: Option<&Value>) -> Vec<Piece> {
    match field {
        None | Some(Value::Null) => Vec::new(),
        Some(Value::Array(blocks)) => blocks.iter().map(|it| Piece::of(who, it)).collect(),
        Some(block) => vec![Piece::of(who, block)],
    }
}

/// Returns the pieces of a body of the Messages API: tools, system, messages, block by block.
pub(super) fn of_anthropic(body: &Value) -> Vec<Piece> {
    let mut pieces = blocks("tool", body.get("tools"));
    pieces.extend(blocks("system", body.get("system")));
    let n_before = pieces.len();
    for message in body.get("messages").and_then(Value::as_array).into_iter().flatten() {
        let who = message.get("role").and_then(Value::as_str).unwrap_or_default();
        pieces.extend(blocks(who, message.get("content")));
    }
    // Anthropic: "changes to `tool_choice` or to the thinking parameters invalidate the messages", and leave tools and
    // system alone. The first block of the messages stands for all behind it.
    if let Some(first) = pieces.get_mut(n_before) {
        let parameters =
            ["tool_choice", "thinking"].map(|it| body.get(it).unwrap_or(&Value::Null).to_string());
        first.identity.push_str(&format!(" under {}", parameters.join(" ")));
    }
    pieces
}

/// Returns the pieces of a body of Chat Completions or Responses: tools, the schema of the answer, messages.
pub(super) fn of_openai(body: &Value) -> Vec<Piece> {
    let mut pieces = blocks("tool", body.get("tools"));
    // OpenAI: "the schema serves as a prefix to the system message".
    let format = body.get("response_format").or_else(|| body.pointer("/text/format"));
    pieces.extend(blocks("format", format));
    pieces.extend(blocks("system", body.get("instructions")));
    pieces.extend(blocks("message", body.get("messages")));
    pieces.extend(blocks("message", body.get("input")));
    pieces
}

/// All pieces that were ever seen, by number, so that each is counted once and two are compared by number.
pub(super) struct Known {
    counter: Arc<dyn TokenCounter>,
    numbers: HashMap<String, usize>,
    pieces: Vec<KnownPiece>,
}

struct KnownPiece {
    reads: String,
    tokens: u64,
}

impl Known {
    pub(super) fn new(counter: Arc<dyn TokenCounter>) -> Self {
        Self { counter, numbers: HashMap::new(), pieces: Vec::new() }
    }

    /// Returns the number of a piece.
    pub(super) fn number(&mut self, piece: &Piece) -> usize {
        if let Some(number) = self.numbers.get(piece.identity.as_str()) {
            return *number;
        }
        let tokens = match piece.reads.as_str() {
            "" => 0,
            // Providers frame what they read: a few tokens for each block.
            text => u64::from(self.counter.count(text).0 + self.counter.profile().framing.message),
        };
        let number = self.pieces.len();
        self.numbers.insert(piece.identity.clone(), number);
        self.pieces.push(KnownPiece { reads: piece.reads.clone(), tokens });
        number
    }

    /// Returns what a piece costs.
    pub(super) fn tokens(&self, number: usize) -> u64 {
        self.pieces[number].tokens
    }

    /// Returns how many tokens of a piece are at the beginning of one of the others too.
    pub(super) fn common_tokens(&self, piece: usize, others: impl Iterator<Item = usize>) -> u64 {
        let own = &self.pieces[piece];
        let lengths = others.map(|it| common_bytes(&own.reads, &self.pieces[it].reads));
        match lengths.max().unwrap_or(0) {
            0 => 0,
            end => u64::from(self.counter.count(&own.reads[..end]).0).min(own.tokens),
        }
    }
}

/// Returns the length of the common beginning, at a character boundary.
fn common_bytes(a: &str, b: &str) -> usize {
    let mut end = a.bytes().zip(b.bytes()).take_while(|(a, b)| a == b).count();
    while !a.is_char_boundary(end) {
        end -= 1;
    }
    end
}

impl fmt::Debug for Known {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Known").field("pieces", &self.pieces.len()).finish_non_exhaustive()
    }
}
