//! Assembles a streamed answer, for all dialects.
//!
//! A decoder feeds the content of each frame into the assembly and gets back the [`Delta`]s to emit. Consecutive
//! pieces of text are joined into one part, and so are consecutive pieces of thinking. Each tool call is a separate
//! part, identified by the key that the dialect uses for it (an index, an id).

use contexture_message::{
    Answer, Citation, Delta, Message, Part, Role, StopReason, Thinking, ToolCall, Usage,
};
use serde_json::{Map, Value};

use crate::DecodeError;

/// A partially received answer.
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
    Text {
        text: String,
        citations: Vec<Citation>,
    },
    /// A part that arrives whole, such as an image.
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

    /// Returns the provider that the answer comes from.
    pub(crate) fn provider(&self) -> &str {
        &self.provider
    }

    /// Appends text.
    pub(crate) fn text(&mut self, more: &str) -> Option<Delta> {
        if more.is_empty() {
            return None;
        }
        match self.pieces.last_mut() {
            Some(Piece::Text { text, .. }) => text.push_str(more),
            Some(Piece::Media(_) | Piece::Thinking { .. } | Piece::Call { .. }) | None => {
                self.pieces.push(Piece::Text { text: more.to_owned(), citations: Vec::new() })
            }
        }
        Some(Delta::Text(more.to_owned()))
    }

    /// Adds an image or a file. There is no delta for it; it only appears in the whole answer.
    pub(crate) fn media(&mut self, part: Part) {
        self.pieces.push(Piece::Media(part));
    }

    /// Starts a new text part, even directly after another one. An empty delta says so there.
    pub(crate) fn begin_text(&mut self) -> Option<Delta> {
        let follows = matches!(self.pieces.last(), Some(Piece::Text { text, .. }) if !text.is_empty());
        self.pieces.push(Piece::Text { text: String::new(), citations: Vec::new() });
        follows.then(|| Delta::Text(String::new()))
    }

    /// Returns the text part that is being received, if there is one.
    pub(crate) fn current_text(&self) -> Option<&str> {
        match self.pieces.last() {
            Some(Piece::Text { text, .. }) => Some(text),
            Some(Piece::Media(_) | Piece::Thinking { .. } | Piece::Call { .. }) | None => None,
        }
    }

    /// Adds a citation to the text part that is being received. Does nothing if there is none.
    pub(crate) fn cite(&mut self, citation: Citation) -> Option<Delta> {
        let Some(Piece::Text { citations, .. }) = self.pieces.last_mut() else { return None };
        citations.push(citation.clone());
        Some(Delta::Citation(citation))
    }

    /// Starts a new thinking part, even directly after another one.
    pub(crate) fn begin_thinking(&mut self) {
        let part = Thinking { provider: Some(self.provider.clone()), ..Thinking::default() };
        self.pieces.push(Piece::Thinking { part, open: true });
    }

    /// Appends readable thinking.
    pub(crate) fn thinking(&mut self, more: &str) -> Option<Delta> {
        if more.is_empty() {
            return None;
        }
        self.open_thinking().text.push_str(more);
        Some(Delta::Thinking(more.to_owned()))
    }

    /// Appends to the signature of the current thinking part.
    pub(crate) fn sign(&mut self, more: &str) {
        let part = self.open_thinking();
        part.signature.get_or_insert_default().push_str(more);
    }

    /// Appends to the signature of the `nth` thinking part, not counting redacted ones. Does nothing if there is
    /// none.
    pub(crate) fn sign_nth(&mut self, nth: usize, more: &str) {
        let own = self.pieces.iter_mut().filter_map(|it| match it {
            Piece::Thinking { part, .. } if !part.redacted => Some(part),
            Piece::Thinking { .. } | Piece::Text { .. } | Piece::Media(_) | Piece::Call { .. } => None,
        });
        if let Some(part) = own.into_iter().nth(nth) {
            part.signature.get_or_insert_default().push_str(more);
        }
    }

    /// Inserts a signature without thinking before the current text part, or at the end if there is none.
    pub(crate) fn sign_text(&mut self, signature: String) {
        let part = Thinking {
            signature: Some(signature),
            provider: Some(self.provider.clone()),
            ..Thinking::default()
        };
        let piece = Piece::Thinking { part, open: false };
        match self.pieces.last() {
            Some(Piece::Text { .. }) => self.pieces.insert(self.pieces.len() - 1, piece),
            Some(Piece::Thinking { .. } | Piece::Media(_) | Piece::Call { .. }) | None => {
                self.pieces.push(piece);
            }
        }
    }

    /// Ends the current thinking part: more thinking starts a new part.
    pub(crate) fn close_thinking(&mut self) {
        if let Some(Piece::Thinking { open, .. }) = self.pieces.last_mut() {
            *open = false;
        }
    }

    /// Adds a whole thinking part, such as a redacted one.
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

    /// Starts a tool call.
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

    /// Returns whether a call with that key has started.
    pub(crate) fn has_call(&self, key: &str) -> bool {
        self.pieces.iter().any(|it| matches!(it, Piece::Call { key: own, .. } if own == key))
    }

    /// Returns whether any arguments of the call with that key have arrived.
    pub(crate) fn has_arguments(&self, of: &str) -> bool {
        let has = |it: &Piece| matches!(it, Piece::Call { key, json, .. } if key == of && !json.is_empty());
        self.pieces.iter().any(has)
    }

    /// Appends to a call's arguments; returns `None` if there is no such call.
    pub(crate) fn arguments(&mut self, of: &str, more: &str) -> Option<Delta> {
        let found = self.pieces.iter_mut().rev().find_map(|it| match it {
            Piece::Call { key, index, json, .. } if key == of => Some((*index, json)),
            Piece::Call { .. } | Piece::Text { .. } | Piece::Media(_) | Piece::Thinking { .. } => None,
        });
        let (index, json) = found?;
        json.push_str(more);
        (!more.is_empty()).then(|| Delta::Arguments { index, json: more.to_owned() })
    }

    /// Marks a call's arguments as complete.
    pub(crate) fn close_call(&mut self, of: &str) {
        for piece in &mut self.pieces {
            if let Piece::Call { key, whole, .. } = piece
                && key == of
            {
                *whole = true;
            }
        }
    }

    /// Returns the whole answer. If it has calls, an unknown or ordinary stop becomes [`StopReason::ToolCalls`].
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

    /// Returns what can be kept of a truncated answer: text, media, signed thinking and complete calls.
    pub(crate) fn partial(&self) -> Message {
        let keep = |it: &Piece| match it {
            Piece::Text { .. } | Piece::Media(_) => true,
            Piece::Thinking { part, .. } => part.signature.is_some(),
            Piece::Call { whole, .. } => *whole,
        };
        Message::parts(Role::Assistant, self.parts(keep))
    }

    fn parts(&self, keep: impl Fn(&Piece) -> bool) -> Vec<Part> {
        let kept = self.pieces.iter().filter(|it| keep(it));
        let parts = kept.filter_map(|it| match it {
            Piece::Text { text, .. } if text.is_empty() => None,
            Piece::Text { text, citations } => {
                Some(Part::Text { text: text.clone(), citations: citations.clone() })
            }
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

/// Returns the error for a stream that ended early.
pub(crate) fn cut() -> DecodeError {
    DecodeError::new("stream", "the stream ended before the answer was whole")
}

/// Parses the arguments of a call. Invalid JSON is kept as text: running the tool then reports it to the model.
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
