//! Encodes streamed answers.
//!
//! Turns [`Delta`]s into the events of a message, each as early as possible. The rule, in full:
//!
//! 1. Text, citations, thinking and calls are written immediately; a block stops when the next one starts. An empty
//!    [`Delta::Text`] ends a text block, so that the next text starts another.
//! 2. Signatures are only known at the end. So thinking blocks stay open until [`Delta::Done`], which writes their
//!    signatures and stops. Clients match blocks by their index.
//! 3. Parts of the answer that had no delta (redacted thinking, or everything if `Done` is the only delta) are
//!    written then. An empty [`Delta::Thinking`] starts a new thinking block.
//!
//! The stream starts with the id and the model, although both are only known at the end. So the id is generated from
//! the first delta, unless `Done` is the only one, and the model is the target's.

use contexture_message::{Answer, Citation, Delta, Part, Thinking, ToolCall};
use serde_json::{Map, Value, json};

use super::answer::{blocks_of, header};
use super::citations;
use super::usage::{write_stop, write_usage};
use crate::assembly::arguments_text;
use crate::calls::plain_id;
use crate::digest::digest;
use crate::loss::Losses;
use crate::{Frame, Target};

/// Encodes one streamed answer.
#[derive(Debug)]
pub(crate) struct StreamEncoder {
    target: Target,
    started: bool,
    blocks: Vec<Live>,
}

/// A block that has started.
#[derive(Debug)]
struct Live {
    kind: Kind,
    /// The content written so far: text, thinking, or JSON.
    text: String,
    open: bool,
}

#[derive(Debug, PartialEq)]
enum Kind {
    Text,
    Thinking,
    Call { index: usize, id: String },
}

impl StreamEncoder {
    pub(crate) fn new(target: &Target) -> Self {
        Self { target: target.clone(), started: false, blocks: Vec::new() }
    }

    pub(crate) fn push(&mut self, delta: &Delta) -> Vec<Frame> {
        let mut frames = Vec::new();
        self.start(delta, &mut frames);
        match delta {
            Delta::Text(text) if text.is_empty() => {
                if self.is_in_text() {
                    self.stop_last(&mut frames);
                }
            }
            Delta::Text(text) => {
                self.begin(Kind::Text, json!({"type": "text", "text": ""}), &mut frames);
                self.more(self.blocks.len() - 1, text, &mut frames);
            }
            Delta::Citation(citation) => self.citation(citation, &mut frames),
            Delta::Thinking(text) => self.thinking(text, &mut frames),
            Delta::Call { index, id, name } => {
                let block = json!({"type": "tool_use", "id": plain_id(id), "name": name, "input": {}});
                self.begin(Kind::Call { index: *index, id: id.clone() }, block, &mut frames);
            }
            Delta::Arguments { index, json } => {
                if let Some(at) = self.find(|it| matches!(it, Kind::Call { index: own, .. } if own == index))
                {
                    self.more(at, json, &mut frames);
                }
            }
            Delta::Done(answer) => self.done(answer, &mut frames),
        }
        frames
    }

    fn start(&mut self, delta: &Delta, frames: &mut Vec<Frame>) {
        if std::mem::replace(&mut self.started, true) {
            return;
        }
        let made_up = || format!("msg_{}", digest(&serde_json::to_string(delta).unwrap_or_default()));
        let (id, model) = match delta {
            Delta::Done(answer) => (answer.id.clone().unwrap_or_else(made_up), answer.model.clone()),
            Delta::Text(_)
            | Delta::Citation(_)
            | Delta::Thinking(_)
            | Delta::Call { .. }
            | Delta::Arguments { .. } => (made_up(), None),
        };
        let mut message = header(&self.target, id, model);
        message.insert("content".to_owned(), json!([]));
        message.insert("stop_reason".to_owned(), Value::Null);
        message.insert("stop_sequence".to_owned(), Value::Null);
        message.insert("usage".to_owned(), json!({"input_tokens": 0, "output_tokens": 0}));
        frames.push(event("message_start", json!({"message": message})));
    }

    fn is_in_text(&self) -> bool {
        matches!(self.blocks.last(), Some(last) if last.open && last.kind == Kind::Text)
    }

    /// Writes a citation of the text block that is open. One that comes before the text of its block starts the block.
    /// Another provider's citations have no form here.
    fn citation(&mut self, citation: &Citation, frames: &mut Vec<Frame>) {
        let own = citations::own(&self.target, std::slice::from_ref(citation), "", &mut Losses::default());
        for citation in own {
            self.begin(Kind::Text, json!({"type": "text", "text": ""}), frames);
            let delta = json!({"type": "citations_delta", "citation": citation});
            let index = self.blocks.len() - 1;
            frames.push(event("content_block_delta", json!({"index": index, "delta": delta})));
        }
    }

    /// Writes thinking. An empty piece starts a new block, so that two consecutive thinking parts stay separate.
    fn thinking(&mut self, text: &str, frames: &mut Vec<Frame>) {
        let is_new = text.is_empty() || !matches!(self.blocks.last(), Some(it) if it.kind == Kind::Thinking);
        if is_new {
            self.stop_last(frames);
            self.open(Kind::Thinking, json!({"type": "thinking", "thinking": "", "signature": ""}), frames);
        }
        if !text.is_empty() {
            self.more(self.blocks.len() - 1, text, frames);
        }
    }

    /// Starts a block, unless one of that kind is open already.
    fn begin(&mut self, kind: Kind, block: Value, frames: &mut Vec<Frame>) {
        let goes_on = matches!(self.blocks.last(), Some(last) if last.open && last.kind == kind);
        if !goes_on {
            self.stop_last(frames);
            self.open(kind, block, frames);
        }
    }

    fn open(&mut self, kind: Kind, block: Value, frames: &mut Vec<Frame>) {
        frames
            .push(event("content_block_start", json!({"index": self.blocks.len(), "content_block": block})));
        self.blocks.push(Live { kind, text: String::new(), open: true });
    }

    /// Stops the current block, unless it is thinking, which waits for its signature.
    fn stop_last(&mut self, frames: &mut Vec<Frame>) {
        let is_thinking = matches!(self.blocks.last(), Some(it) if it.kind == Kind::Thinking);
        if let Some(last) = self.blocks.len().checked_sub(1)
            && !is_thinking
        {
            self.stop(last, frames);
        }
    }

    fn stop(&mut self, at: usize, frames: &mut Vec<Frame>) {
        if std::mem::replace(&mut self.blocks[at].open, false) {
            frames.push(event("content_block_stop", json!({"index": at})));
        }
    }

    fn more(&mut self, at: usize, text: &str, frames: &mut Vec<Frame>) {
        let block = &mut self.blocks[at];
        block.text.push_str(text);
        let delta = match block.kind {
            Kind::Text => json!({"type": "text_delta", "text": text}),
            Kind::Thinking => json!({"type": "thinking_delta", "thinking": text}),
            Kind::Call { .. } => json!({"type": "input_json_delta", "partial_json": text}),
        };
        frames.push(event("content_block_delta", json!({"index": at, "delta": delta})));
    }

    fn find(&self, is: impl Fn(&Kind) -> bool) -> Option<usize> {
        self.blocks.iter().position(|it| is(&it.kind))
    }

    fn done(&mut self, answer: &Answer, frames: &mut Vec<Frame>) {
        if self.blocks.is_empty() {
            self.whole(&answer.message.content, frames);
        } else {
            self.sign(&answer.message.content, frames);
            let not_streamed = self.not_streamed(&answer.message.content, frames);
            (0..self.blocks.len()).for_each(|it| self.stop(it, frames));
            self.whole(&not_streamed, frames);
        }
        let delta = json!({"stop_reason": write_stop(&answer.stop), "stop_sequence": null});
        let end = json!({"delta": delta, "usage": write_usage(&answer.usage)});
        frames.push(event("message_delta", end));
        frames.push(event("message_stop", json!({})));
    }

    /// Signs the thinking blocks whose text matches the answer. Others stay unsigned: a signature over a different
    /// text would be rejected when it is sent back.
    fn sign(&mut self, parts: &[Part], frames: &mut Vec<Frame>) {
        let thoughts = parts.iter().filter_map(|it| match it {
            Part::Thinking(thinking) if !thinking.redacted => Some(thinking),
            Part::Thinking(_)
            | Part::Text { .. }
            | Part::Image(_)
            | Part::File(_)
            | Part::Evidence(_)
            | Part::ToolCall(_)
            | Part::ToolResult(_) => None,
        });
        let mut from = 0;
        for thought in thoughts {
            let is_told = |it: &Live| it.kind == Kind::Thinking && it.text == thought.text;
            let Some(at) = self.blocks[from..].iter().position(is_told).map(|it| from + it) else { continue };
            from = at + 1;
            if let Some(signature) = own_signature(&self.target, thought) {
                let delta = json!({"type": "signature_delta", "signature": signature});
                frames.push(event("content_block_delta", json!({"index": at, "delta": delta})));
            }
            self.stop(at, frames);
        }
    }

    /// Returns the parts that had no delta, and writes the arguments of calls that had none.
    fn not_streamed(&mut self, parts: &[Part], frames: &mut Vec<Frame>) -> Vec<Part> {
        let mut not_streamed = Vec::new();
        for part in parts {
            match part {
                Part::ToolCall(call) => match self.find(|it| is_call(it, call)) {
                    Some(at) if self.blocks[at].text.is_empty() => {
                        self.more(at, &arguments_text(&call.arguments), frames);
                    }
                    Some(_) => {}
                    None => not_streamed.push(part.clone()),
                },
                Part::Thinking(it) if it.redacted => not_streamed.push(part.clone()),
                Part::Thinking(_)
                | Part::Text { .. }
                | Part::Image(_)
                | Part::File(_)
                | Part::Evidence(_)
                | Part::ToolResult(_) => {}
            }
        }
        not_streamed
    }

    /// Writes complete blocks.
    fn whole(&mut self, parts: &[Part], frames: &mut Vec<Frame>) {
        for mut block in blocks_of(&self.target, parts, &mut Losses::default()) {
            let index = self.blocks.len();
            let deltas = take_deltas(&mut block);
            frames.push(event("content_block_start", json!({"index": index, "content_block": block})));
            for delta in deltas {
                frames.push(event("content_block_delta", json!({"index": index, "delta": delta})));
            }
            frames.push(event("content_block_stop", json!({"index": index})));
            self.blocks.push(Live { kind: Kind::Text, text: String::new(), open: false });
        }
    }
}

fn is_call(kind: &Kind, call: &ToolCall) -> bool {
    matches!(kind, Kind::Call { id, .. } if *id == call.id)
}

fn own_signature<'a>(target: &Target, thinking: &'a Thinking) -> Option<&'a str> {
    let own = thinking.provider.as_ref() == Some(&target.provider);
    thinking.signature.as_deref().filter(|it| own && !it.is_empty())
}

/// Empties a complete block and returns the deltas that fill it again.
fn take_deltas(block: &mut Value) -> Vec<Value> {
    let take = |block: &mut Value, key: &str, empty: Value| {
        block.get_mut(key).map(|it| std::mem::replace(it, empty)).unwrap_or_default()
    };
    let kind = block.get("type").and_then(Value::as_str).unwrap_or_default().to_owned();
    match kind.as_str() {
        "text" => {
            let text = json!({"type": "text_delta", "text": take(block, "text", "".into())});
            let citations = block.as_object_mut().and_then(|it| it.shift_remove("citations"));
            let citations = citations.and_then(|it| it.as_array().cloned()).unwrap_or_default().into_iter();
            let citations = citations.map(|it| json!({"type": "citations_delta", "citation": it}));
            [text].into_iter().chain(citations).collect()
        }
        "thinking" => {
            let thinking = take(block, "thinking", "".into());
            let signature = take(block, "signature", "".into());
            let thinking = json!({"type": "thinking_delta", "thinking": thinking});
            vec![thinking, json!({"type": "signature_delta", "signature": signature})]
        }
        "tool_use" => {
            let input = take(block, "input", json!({})).to_string();
            vec![json!({"type": "input_json_delta", "partial_json": input})]
        }
        _ => Vec::new(), // Withheld thinking is whole when it starts.
    }
}

fn event(kind: &str, fields: Value) -> Frame {
    let mut data = Map::from_iter([("type".to_owned(), Value::from(kind))]);
    if let Value::Object(fields) = fields {
        data.extend(fields);
    }
    Frame { event: Some(kind.to_owned()), data: Value::Object(data).to_string() }
}
