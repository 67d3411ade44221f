//! Decodes streamed answers.
//!
//! Turns the events of a message into [`Delta`]s. A call's arguments are complete when its block stops; the answer is
//! complete at `message_stop`, and a stream that ends earlier was truncated. A thinking block starts with an empty
//! [`Delta::Thinking`], so that a stream encoder knows where it begins. Unknown blocks and events are skipped.

use std::collections::BTreeMap;

use contexture_message::{Delta, Message};
use serde_json::Value;

use super::citations;
use super::usage::{RawUsage, read_stop};
use crate::assembly::{Assembly, cut};
use crate::read::{Place, parse_frame};
use crate::{DecodeError, Dialect, Frame, StreamError, Target};

/// Decodes one streamed answer.
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
    /// Redacted thinking, which arrives whole, or an unknown block.
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
        let body = parse_frame(Dialect::Anthropic, frame)?;
        let doc = Place::root_object(&body)?;
        let kind = doc.get_string("type")?.or_else(|| frame.event.clone()).unwrap_or_default();
        let deltas = match kind.as_str() {
            "message_start" => self.start(&doc)?,
            "content_block_start" => self.block_start(&doc)?,
            "content_block_delta" => self.block_delta(&doc)?,
            "content_block_stop" => self.block_stop(&doc)?,
            "message_delta" => self.message_delta(&doc)?,
            "message_stop" => self.stop(),
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

    fn start(&mut self, doc: &Place<'_>) -> Result<Vec<Delta>, DecodeError> {
        let Some(message) = doc.get_object("message")? else { return Ok(Vec::new()) };
        self.assembly.id = message.name("id");
        self.assembly.model = message.name("model");
        self.read_usage(&message);
        Ok(Vec::new())
    }

    fn read_usage(&mut self, doc: &Place<'_>) {
        self.usage.update(doc);
        self.assembly.usage = self.usage.usage();
    }

    fn block_start(&mut self, doc: &Place<'_>) -> Result<Vec<Delta>, DecodeError> {
        let index = index(doc)?;
        let block = doc.need_object("content_block")?;
        let (kind, deltas) = match block.need_string("type")?.as_str() {
            "text" => {
                let begun = self.assembly.begin_text();
                let text = block.get_string("text")?.unwrap_or_default();
                let mut deltas = Vec::from_iter(begun);
                deltas.extend(self.assembly.text(&text));
                for citation in block.get_list("citations")? {
                    deltas.extend(self.cite(citation.value));
                }
                (Kind::Text, deltas)
            }
            "thinking" => (Kind::Thinking, self.thinking_start(&block)?),
            "redacted_thinking" => {
                let data = block.need_string("data")?;
                (Kind::Closed, Vec::from_iter(self.assembly.thought("", Some(data), true)))
            }
            "tool_use" => (Kind::Call, self.call_start(index, &block)?),
            _ => (Kind::Closed, Vec::new()),
        };
        self.blocks.insert(index, kind);
        Ok(deltas)
    }

    fn thinking_start(&mut self, block: &Place<'_>) -> Result<Vec<Delta>, DecodeError> {
        self.assembly.begin_thinking();
        let text = block.get_string("thinking")?.unwrap_or_default();
        let signature = block.get_string("signature")?.unwrap_or_default();
        let announced = Delta::Thinking(String::new());
        let deltas = [announced].into_iter().chain(self.assembly.thinking(&text)).collect();
        if !signature.is_empty() {
            self.assembly.sign(&signature);
        }
        Ok(deltas)
    }

    /// Starts a call. Its input normally arrives in later pieces, but may already be complete here.
    fn call_start(&mut self, index: u64, block: &Place<'_>) -> Result<Vec<Delta>, DecodeError> {
        let (id, name) = (block.need_string("id")?, block.need_string("name")?);
        let key = index.to_string();
        let mut deltas = vec![self.assembly.call(&key, &id, &name)];
        let input = block.get_value("input").filter(|it| it.as_object().is_none_or(|it| !it.is_empty()));
        deltas.extend(input.and_then(|it| self.assembly.arguments(&key, &it.to_string())));
        Ok(deltas)
    }

    fn block_delta(&mut self, doc: &Place<'_>) -> Result<Vec<Delta>, DecodeError> {
        let index = index(doc)?;
        let delta = doc.need_object("delta")?;
        let kind = self.blocks.get(&index).copied();
        let piece = match (delta.need_string("type")?.as_str(), kind) {
            (_, Some(Kind::Closed)) => None,
            ("text_delta", _) => self.assembly.text(&delta.need_string("text")?),
            ("thinking_delta", _) => self.assembly.thinking(&delta.need_string("thinking")?),
            ("signature_delta", _) => {
                let signature = delta.need_string("signature")?;
                if !signature.is_empty() {
                    self.assembly.sign_nth(self.nth_thinking(index), &signature);
                }
                None
            }
            ("input_json_delta", _) => {
                self.assembly.arguments(&index.to_string(), &delta.need_string("partial_json")?)
            }
            ("citations_delta", _) => self.cite(delta.need("citation")?.value),
            _ => None, // Whatever comes next.
        };
        Ok(Vec::from_iter(piece))
    }

    fn cite(&mut self, citation: &Value) -> Option<Delta> {
        let citation = citations::read(self.assembly.provider(), citation);
        self.assembly.cite(citation)
    }

    /// Returns the block's position among the thinking blocks, not counting redacted ones.
    fn nth_thinking(&self, index: u64) -> usize {
        self.blocks.range(..index).filter(|(_, kind)| **kind == Kind::Thinking).count()
    }

    fn block_stop(&mut self, doc: &Place<'_>) -> Result<Vec<Delta>, DecodeError> {
        let index = index(doc)?;
        match self.blocks.get(&index) {
            Some(Kind::Call) => self.assembly.close_call(&index.to_string()),
            Some(Kind::Thinking) => self.assembly.close_thinking(),
            Some(Kind::Text | Kind::Closed) | None => {}
        }
        Ok(Vec::new())
    }

    fn message_delta(&mut self, doc: &Place<'_>) -> Result<Vec<Delta>, DecodeError> {
        if let Some(delta) = doc.get_object("delta")? {
            let stop = delta.get_string("stop_reason")?.map(|it| read_stop(&it));
            self.assembly.stop = stop.or(self.assembly.stop.take());
        }
        self.read_usage(doc);
        Ok(Vec::new())
    }

    fn stop(&mut self) -> Vec<Delta> {
        self.done = true;
        vec![Delta::Done(Box::new(self.assembly.answer()))]
    }
}

fn index(doc: &Place<'_>) -> Result<u64, DecodeError> {
    let index = doc.need("index")?;
    doc.count("index").ok_or_else(|| index.expected("a count"))
}
