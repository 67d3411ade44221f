//! A turn as the chunks of a streamed chat completion.
//!
//! Text is sent as it arrives. Calls are sent at the end, once it is known which of them the client runs. If an answer
//! may still be repeated, because it must fit a schema, its text is deferred too: sent text can't be taken back.

use contexture_agent::Event;
use contexture_message::Delta;
use contexture_wire::{Frame, StreamEncoder};
use serde_json::Value;

use super::answer::{CompletionMeta, CompletionResult, StreamedText};

/// Writes the chunks of one completion.
#[derive(Debug)]
pub(crate) struct ChunkWriter {
    meta: CompletionMeta,
    encoder: StreamEncoder,
    include_usage: bool,
    /// Whether text waits for the end.
    defers_text: bool,
    begun: bool,
    pub(crate) streamed: StreamedText,
}

impl ChunkWriter {
    pub(crate) fn new(meta: CompletionMeta, include_usage: bool, defers_text: bool) -> Self {
        let encoder = StreamEncoder::new(&meta.target());
        Self { meta, encoder, include_usage, defers_text, begun: false, streamed: StreamedText::default() }
    }

    /// Writes the chunk of an event, if the client should see it.
    pub(crate) fn event(&mut self, event: &Event) -> String {
        self.streamed.add_event(event);
        match event {
            Event::TextDelta { text } if !self.defers_text => self.push(&Delta::Text(text.clone())),
            Event::ThinkingDelta { text } if !self.defers_text => self.push(&Delta::Thinking(text.clone())),
            _ => String::new(),
        }
    }

    /// Writes the final chunks.
    pub(crate) fn end(&mut self, result: &CompletionResult) -> String {
        let mut text = String::new();
        if self.defers_text && !result.streamed.text.is_empty() {
            text += &self.push(&Delta::Text(result.streamed.text.clone()));
        }
        for (index, call) in result.calls.iter().enumerate() {
            let (id, name) = (call.id.clone(), call.name.clone());
            text += &self.push(&Delta::Call { index, id, name });
            text += &self.push(&Delta::Arguments { index, json: arguments(&call.arguments) });
        }
        if !self.begun {
            text += &self.push(&Delta::Text(String::new()));
        }
        let frames = self.encoder.push(&Delta::Done(Box::new(result.answer(&self.meta))));
        text + &self.frames(frames, Some(result))
    }

    fn push(&mut self, delta: &Delta) -> String {
        self.begun = true;
        let frames = self.encoder.push(delta);
        self.frames(frames, None)
    }

    fn frames(&self, frames: Vec<Frame>, result: Option<&CompletionResult>) -> String {
        frames.into_iter().filter_map(|it| self.frame(it, result)).map(|it| it.to_sse()).collect()
    }

    /// Adds the metadata to a chunk; usage is removed unless the client asked for it.
    fn frame(&self, frame: Frame, result: Option<&CompletionResult>) -> Option<Frame> {
        let Ok(mut chunk) = serde_json::from_str::<Value>(&frame.data) else { return Some(frame) };
        let is_usage = chunk["choices"].as_array().is_some_and(Vec::is_empty);
        if !self.include_usage {
            if is_usage {
                return None;
            }
            chunk.as_object_mut()?.remove("usage");
        }
        self.meta.put(&mut chunk);
        if let Some(result) = result.filter(|_| !is_usage) {
            result.add_approvals(&mut chunk);
        }
        Some(Frame::data(chunk.to_string()))
    }
}

/// Arguments that were not JSON are on record as the text that they were.
fn arguments(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        value => value.to_string(),
    }
}
