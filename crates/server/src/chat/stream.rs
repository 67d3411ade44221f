//! A turn as the chunks of a streamed chat completion.
//!
//! Text goes out as it comes. Calls go out at the end, once it is known which of them the client runs. Where an answer
//! may still be made again, because it must fit a schema, its text waits for the end too: nothing that was sent can be
//! taken back.

use contexture_agent::Event;
use contexture_message::Delta;
use contexture_wire::{Frame, StreamEncoder};
use serde_json::Value;

use super::answer::{Said, Spoken, Stamp};
use super::errors::ChatError;

/// Writes the chunks of one completion.
#[derive(Debug)]
pub(crate) struct Chunks {
    stamp: Stamp,
    encoder: StreamEncoder,
    include_usage: bool,
    /// Whether text waits for the end.
    holds: bool,
    begun: bool,
    pub(crate) spoken: Spoken,
}

impl Chunks {
    pub(crate) fn new(stamp: Stamp, include_usage: bool, holds: bool) -> Self {
        let encoder = StreamEncoder::new(&stamp.target());
        Self { stamp, encoder, include_usage, holds, begun: false, spoken: Spoken::default() }
    }

    /// Writes what an event says, if it says anything to the client.
    pub(crate) fn event(&mut self, event: &Event) -> String {
        self.spoken.hear(event);
        match event {
            Event::TextDelta { text } if !self.holds => self.push(&Delta::Text(text.clone())),
            Event::ThinkingDelta { text } if !self.holds => self.push(&Delta::Thinking(text.clone())),
            _ => String::new(),
        }
    }

    /// Writes the end.
    pub(crate) fn end(&mut self, said: &Said) -> String {
        let mut text = String::new();
        if self.holds && !said.spoken.text.is_empty() {
            text += &self.push(&Delta::Text(said.spoken.text.clone()));
        }
        for (index, call) in said.calls.iter().enumerate() {
            let (id, name) = (call.id.clone(), call.name.clone());
            text += &self.push(&Delta::Call { index, id, name });
            text += &self.push(&Delta::Arguments { index, json: arguments(&call.arguments) });
        }
        if !self.begun {
            text += &self.push(&Delta::Text(String::new()));
        }
        let frames = self.encoder.push(&Delta::Done(Box::new(said.answer(&self.stamp))));
        text + &self.frames(frames, Some(said))
    }

    /// Writes an error that came after the first chunk.
    pub(crate) fn error(err: &ChatError) -> String {
        Frame::data(err.document().to_string()).to_sse()
    }

    fn push(&mut self, delta: &Delta) -> String {
        self.begun = true;
        let frames = self.encoder.push(delta);
        self.frames(frames, None)
    }

    fn frames(&self, frames: Vec<Frame>, said: Option<&Said>) -> String {
        frames.into_iter().filter_map(|it| self.frame(it, said)).map(|it| it.to_sse()).collect()
    }

    /// Puts the stamp on a chunk; without being asked for, usage is not told.
    fn frame(&self, frame: Frame, said: Option<&Said>) -> Option<Frame> {
        let Ok(mut chunk) = serde_json::from_str::<Value>(&frame.data) else { return Some(frame) };
        let is_usage = chunk["choices"].as_array().is_some_and(Vec::is_empty);
        if !self.include_usage {
            if is_usage {
                return None;
            }
            chunk.as_object_mut()?.remove("usage");
        }
        self.stamp.put(&mut chunk);
        if let Some(said) = said.filter(|_| !is_usage) {
            said.add_approvals(&mut chunk);
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
