//! Puts a streamed answer together, whatever the dialect.
//!
//! A decoder tells the assembly what a frame says and gets the [`Delta`]s to hand on. Text and thinking that follow
//! text and thinking are joined to one part; a tool call is a part of its own, found again by the key that the dialect
//! gives it (an index, an id).

use contexture_message::{Answer, Delta, Message, Part, Role, StopReason, Thinking, ToolCall, Usage};
use serde_json::{Map, Value};

use crate::DecodeError;

/// An answer while it arrives.
#[derive(Debug, Default)]
pub(crate) struct Assembly {
    provider: String,
    pieces: Vec<Piece>,
    n_calls: usize,
    pub(crate) usage: Usage,
    pub(crate) model: Option<String>,
    pub(crate) id: Option<String>,
    pub(crate) stop: Option<StopReason>,
}

#[derive(Debug)]
enum Piece {
    Text(String),
    /// A part that comes whole, such as an image.
    Media(Part),
    Thinking {
        part: Thinking,
        open: bool,
    },
    Call {
        key: String,
        index: usize,
        id: String,
        name: String,
        json: String,
        whole: bool,
    },
}

impl Assembly {
    pub(crate) fn new(provider: &str) -> Self {
        Self { provider: provider.to_owned(), ..Self::default() }
    }

    /// More text.
    pub(crate) fn text(&mut self, more: &str) -> Option<Delta> {
        if more.is_empty() {
            return None;
        }
        match self.pieces.last_mut() {
            Some(Piece::Text(text)) => text.push_str(more),
            Some(Piece::Media(_) | Piece::Thinking { .. } | Piece::Call { .. }) | None => {
                self.pieces.push(Piece::Text(more.to_owned()))
            }
        }
        Some(Delta::Text(more.to_owned()))
    }

    /// An image or a file, which no delta tells: it is in the whole answer.
    pub(crate) fn media(&mut self, part: Part) {
        self.pieces.push(Piece::Media(part));
    }

    /// A new text part begins, even right behind another one.
    pub(crate) fn begin_text(&mut self) {
        self.pieces.push(Piece::Text(String::new()));
    }

    /// A new thinking part begins, even right behind another one.
    pub(crate) fn begin_thinking(&mut self) {
        let part = Thinking { provider: Some(self.provider.clone()), ..Thinking::default() };
        self.pieces.push(Piece::Thinking { part, open: true });
    }

    /// More readable thinking.
    pub(crate) fn thinking(&mut self, more: &str) -> Option<Delta> {
        if more.is_empty() {
            return None;
        }
        self.open_thinking().text.push_str(more);
        Some(Delta::Thinking(more.to_owned()))
    }

    /// Sets the signature of the thinking part that is arriving.
    pub(crate) fn sign(&mut self, more: &str) {
        let part = self.open_thinking();
        part.signature.get_or_insert_default().push_str(more);
    }

    /// Signs the thinking part with that number, withheld ones not counted, wherever it stands; nothing if there is none.
    pub(crate) fn sign_nth(&mut self, nth: usize, more: &str) {
        let own = self.pieces.iter_mut().filter_map(|it| match it {
            Piece::Thinking { part, .. } if !part.redacted => Some(part),
            Piece::Thinking { .. } | Piece::Text(_) | Piece::Media(_) | Piece::Call { .. } => None,
        });
        if let Some(part) = own.into_iter().nth(nth) {
            part.signature.get_or_insert_default().push_str(more);
        }
    }

    /// Puts a signature without thinking before the text that is arriving, or at the end if none is.
    pub(crate) fn sign_text(&mut self, signature: String) {
        let part = Thinking {
            signature: Some(signature),
            provider: Some(self.provider.clone()),
            ..Thinking::default()
        };
        let piece = Piece::Thinking { part, open: false };
        match self.pieces.last() {
            Some(Piece::Text(_)) => self.pieces.insert(self.pieces.len() - 1, piece),
            Some(Piece::Thinking { .. } | Piece::Media(_) | Piece::Call { .. }) | None => {
                self.pieces.push(piece);
            }
        }
    }

    /// Ends the thinking part that is arriving: what follows is another one.
    pub(crate) fn close_thinking(&mut self) {
        if let Some(Piece::Thinking { open, .. }) = self.pieces.last_mut() {
            *open = false;
        }
    }

    /// Adds a whole thinking part, such as a withheld one.
    pub(crate) fn thought(&mut self, text: &str, signature: Option<String>, redacted: bool) -> Option<Delta> {
        let part =
            Thinking { text: text.to_owned(), signature, provider: Some(self.provider.clone()), redacted };
        self.pieces.push(Piece::Thinking { part, open: false });
        (!text.is_empty()).then(|| Delta::Thinking(text.to_owned()))
    }

    fn open_thinking(&mut self) -> &mut Thinking {
        if !matches!(self.pieces.last(), Some(Piece::Thinking { open: true, .. })) {
            self.begin_thinking();
        }
        match self.pieces.last_mut() {
            Some(Piece::Thinking { part, .. }) => part,
            _ => unreachable!("a thinking piece was pushed if the last was none"),
        }
    }

    /// A tool call begins.
    pub(crate) fn call(&mut self, key: &str, id: &str, name: &str) -> Delta {
        let index = self.n_calls;
        self.n_calls += 1;
        let (key, id, name) = (key.to_owned(), id.to_owned(), name.to_owned());
        self.pieces.push(Piece::Call {
            key,
            index,
            id: id.clone(),
            name: name.clone(),
            json: String::new(),
            whole: false,
        });
        Delta::Call { index, id, name }
    }

    /// Whether a call with that key has begun.
    pub(crate) fn has_call(&self, key: &str) -> bool {
        self.pieces.iter().any(|it| matches!(it, Piece::Call { key: own, .. } if own == key))
    }

    /// Whether arguments of the call with that key have come.
    pub(crate) fn has_arguments(&self, of: &str) -> bool {
        let has = |it: &Piece| matches!(it, Piece::Call { key, json, .. } if key == of && !json.is_empty());
        self.pieces.iter().any(has)
    }

    /// More of a call's arguments; nothing if there is no such call.
    pub(crate) fn arguments(&mut self, of: &str, more: &str) -> Option<Delta> {
        let found = self.pieces.iter_mut().rev().find_map(|it| match it {
            Piece::Call { key, index, json, .. } if key == of => Some((*index, json)),
            Piece::Call { .. } | Piece::Text(_) | Piece::Media(_) | Piece::Thinking { .. } => None,
        });
        let (index, json) = found?;
        json.push_str(more);
        (!more.is_empty()).then(|| Delta::Arguments { index, json: more.to_owned() })
    }

    /// Says that a call's arguments are whole.
    pub(crate) fn close_call(&mut self, of: &str) {
        for piece in &mut self.pieces {
            if let Piece::Call { key, whole, .. } = piece
                && key == of
            {
                *whole = true;
            }
        }
    }

    /// Returns the whole answer. Calls turn an unknown or ordinary end into [`StopReason::ToolCalls`].
    pub(crate) fn answer(&self) -> Answer {
        let stop = match self.stop.clone().unwrap_or(StopReason::End) {
            StopReason::End if self.n_calls > 0 => StopReason::ToolCalls,
            stop => stop,
        };
        Answer {
            message: Message::parts(Role::Assistant, self.parts(|_| true)),
            stop,
            usage: self.usage,
            model: self.model.clone(),
            id: self.id.clone(),
        }
    }

    /// Returns what may be kept of an answer that was cut: text, signed thinking, calls that arrived whole.
    pub(crate) fn partial(&self) -> Message {
        let keep = |it: &Piece| match it {
            Piece::Text(_) | Piece::Media(_) => true,
            Piece::Thinking { part, .. } => part.signature.is_some(),
            Piece::Call { whole, .. } => *whole,
        };
        Message::parts(Role::Assistant, self.parts(keep))
    }

    fn parts(&self, keep: impl Fn(&Piece) -> bool) -> Vec<Part> {
        let kept = self.pieces.iter().filter(|it| keep(it));
        let parts = kept.filter_map(|it| match it {
            Piece::Text(text) if text.is_empty() => None,
            Piece::Text(text) => Some(Part::text(text)),
            Piece::Media(part) => Some(part.clone()),
            Piece::Thinking { part, .. } => Some(Part::Thinking(part.clone())),
            Piece::Call { id, name, json, .. } => Some(Part::ToolCall(ToolCall {
                id: id.clone(),
                name: name.clone(),
                arguments: parse_arguments(json),
            })),
        });
        parts.collect()
    }
}

/// Returns the error for a stream that ended too early.
pub(crate) fn cut() -> DecodeError {
    DecodeError::new("stream", "the stream ended before the answer was whole")
}

/// Reads the arguments of a call. What is not JSON is kept as text: whoever runs the tool tells the model.
pub(crate) fn parse_arguments(json: &str) -> Value {
    match json.trim() {
        "" => Value::Object(Map::new()),
        text => serde_json::from_str(text).unwrap_or_else(|_| Value::String(json.to_owned())),
    }
}

/// Writes the arguments of a call as JSON text; the reverse of [`parse_arguments`].
pub(crate) fn arguments_text(arguments: &Value) -> String {
    match arguments {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}
