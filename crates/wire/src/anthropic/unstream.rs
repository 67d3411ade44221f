//! Reads streamed answers.
//!
//! In come the events of a message, out come [`Delta`]s. A call's arguments are whole when its block stops; the answer is
//! whole at `message_stop`, and a stream that ends before was cut. A thinking block announces itself with an empty
//! [`Delta::Thinking`], so that whoever writes the stream again knows where it stands. Blocks and events that we don't
//! know are skipped.

use std::collections::BTreeMap;

use contexture_message::{Delta, Message};

use super::answer::{RawUsage, read_stop};
use crate::assembly::{Assembly, cut};
use crate::document::{Doc, parse_frame};
use crate::{DecodeError, Dialect, Frame, StreamError, Target, classify};

/// Reads one streamed answer.
#[derive(Debug)]
pub(crate) struct StreamDecoder {
    assembly: Assembly,
    usage: RawUsage,
    blocks: BTreeMap<u64, Kind>,
    done: bool,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Text,
    Thinking,
    Call,
    /// A withheld thought, which is whole when it starts, or something we don't know.
    Closed,
}

impl StreamDecoder {
    pub(crate) fn new(target: &Target) -> Self {
        Self {
            assembly: Assembly::new(&target.provider),
            usage: RawUsage::default(),
            blocks: BTreeMap::new(),
            done: false,
        }
    }

    pub(crate) fn push(&mut self, frame: &Frame) -> Result<Vec<Delta>, StreamError> {
        if self.done || frame.data.trim().is_empty() {
            return Ok(Vec::new());
        }
        let body = parse_frame(&frame.data)?;
        let mut doc = Doc::new("", body.clone())?;
        let kind = doc.string("type")?.or_else(|| frame.event.clone()).unwrap_or_default();
        let deltas = match kind.as_str() {
            "message_start" => self.start(doc)?,
            "content_block_start" => self.block_start(doc)?,
            "content_block_delta" => self.block_delta(doc)?,
            "content_block_stop" => self.block_stop(doc)?,
            "message_delta" => self.message_delta(doc)?,
            "message_stop" => self.stop(),
            "error" => return Err(classify(Dialect::Anthropic, 0, &body).into()),
            _ => Vec::new(),
        };
        Ok(deltas)
    }

    pub(crate) fn finish(&mut self) -> Result<Vec<Delta>, StreamError> {
        match self.done {
            true => Ok(Vec::new()),
            false => Err(cut().into()),
        }
    }

    pub(crate) fn partial(&self) -> Message {
        self.assembly.partial()
    }

    fn start(&mut self, mut doc: Doc) -> Result<Vec<Delta>, DecodeError> {
        let Some(mut message) = doc.doc("message")? else { return Ok(Vec::new()) };
        self.assembly.id = message.string("id")?;
        self.assembly.model = message.string("model")?;
        self.read_usage(&mut message)?;
        Ok(Vec::new())
    }

    fn read_usage(&mut self, doc: &mut Doc) -> Result<(), DecodeError> {
        if let Some(usage) = doc.doc("usage")? {
            self.usage.update(usage)?;
            self.assembly.usage = self.usage.usage();
        }
        Ok(())
    }

    fn block_start(&mut self, mut doc: Doc) -> Result<Vec<Delta>, DecodeError> {
        let index = index(&mut doc)?;
        let at = doc.at("content_block");
        let mut block = doc.doc("content_block")?.ok_or_else(|| DecodeError::new(at, "missing"))?;
        let (kind, deltas) = match block.needed_string("type")?.as_str() {
            "text" => {
                self.assembly.begin_text();
                let text = block.string("text")?.unwrap_or_default();
                (Kind::Text, Vec::from_iter(self.assembly.text(&text)))
            }
            "thinking" => (Kind::Thinking, self.thinking_start(&mut block)?),
            "redacted_thinking" => {
                let data = block.needed_string("data")?;
                (Kind::Closed, Vec::from_iter(self.assembly.thought("", Some(data), true)))
            }
            "tool_use" => (Kind::Call, self.call_start(index, &mut block)?),
            _ => (Kind::Closed, Vec::new()),
        };
        self.blocks.insert(index, kind);
        Ok(deltas)
    }

    fn thinking_start(&mut self, block: &mut Doc) -> Result<Vec<Delta>, DecodeError> {
        self.assembly.begin_thinking();
        let text = block.string("thinking")?.unwrap_or_default();
        let signature = block.string("signature")?.unwrap_or_default();
        let announced = Delta::Thinking(String::new());
        let deltas = [announced].into_iter().chain(self.assembly.thinking(&text)).collect();
        if !signature.is_empty() {
            self.assembly.sign(&signature);
        }
        Ok(deltas)
    }

    /// The input is empty here and comes in pieces, but nothing forbids it to be whole already.
    fn call_start(&mut self, index: u64, block: &mut Doc) -> Result<Vec<Delta>, DecodeError> {
        let (id, name) = (block.needed_string("id")?, block.needed_string("name")?);
        let key = index.to_string();
        let mut deltas = vec![self.assembly.call(&key, &id, &name)];
        let input = block.take("input").filter(|it| it.as_object().is_none_or(|it| !it.is_empty()));
        deltas.extend(input.and_then(|it| self.assembly.arguments(&key, &it.to_string())));
        Ok(deltas)
    }

    fn block_delta(&mut self, mut doc: Doc) -> Result<Vec<Delta>, DecodeError> {
        let index = index(&mut doc)?;
        let at = doc.at("delta");
        let mut delta = doc.doc("delta")?.ok_or_else(|| DecodeError::new(at, "missing"))?;
        let kind = self.blocks.get(&index).copied();
        let piece = match (delta.needed_string("type")?.as_str(), kind) {
            (_, Some(Kind::Closed)) => None,
            ("text_delta", _) => self.assembly.text(&delta.needed_string("text")?),
            ("thinking_delta", _) => self.assembly.thinking(&delta.needed_string("thinking")?),
            ("signature_delta", _) => {
                let signature = delta.needed_string("signature")?;
                if !signature.is_empty() {
                    self.assembly.sign_nth(self.nth_thinking(index), &signature);
                }
                None
            }
            ("input_json_delta", _) => {
                self.assembly.arguments(&index.to_string(), &delta.needed_string("partial_json")?)
            }
            _ => None, // Citations, and whatever comes next.
        };
        Ok(Vec::from_iter(piece))
    }

    /// Returns which of the thinking blocks that were not withheld it is.
    fn nth_thinking(&self, index: u64) -> usize {
        self.blocks.range(..index).filter(|(_, kind)| **kind == Kind::Thinking).count()
    }

    fn block_stop(&mut self, mut doc: Doc) -> Result<Vec<Delta>, DecodeError> {
        let index = index(&mut doc)?;
        match self.blocks.get(&index) {
            Some(Kind::Call) => self.assembly.close_call(&index.to_string()),
            Some(Kind::Thinking) => self.assembly.close_thinking(),
            Some(Kind::Text | Kind::Closed) | None => {}
        }
        Ok(Vec::new())
    }

    fn message_delta(&mut self, mut doc: Doc) -> Result<Vec<Delta>, DecodeError> {
        if let Some(mut delta) = doc.doc("delta")? {
            let stop = delta.string("stop_reason")?.map(|it| read_stop(&it));
            self.assembly.stop = stop.or(self.assembly.stop.take());
        }
        self.read_usage(&mut doc)?;
        Ok(Vec::new())
    }

    fn stop(&mut self) -> Vec<Delta> {
        self.done = true;
        vec![Delta::Done(Box::new(self.assembly.answer()))]
    }
}

fn index(doc: &mut Doc) -> Result<u64, DecodeError> {
    let at = doc.at("index");
    doc.count("index")?.ok_or_else(|| DecodeError::new(at, "missing"))
}
