//! A turn as the chunks of a streamed chat completion.
//!
//! Text is sent as it arrives. Calls are sent at the end, once it is known which of them the client runs. If an answer
//! may still be repeated, because it must fit a schema, its text is deferred too: sent text can't be taken back.

use contexture_agent::{Event, Outcome};
use contexture_message::Delta;
use contexture_wire::{Frame, StreamEncoder};
use serde_json::Value;
use tokio_util::sync::DropGuard;

use super::answer::{CompletionMeta, CompletionResult, StreamedText};
use super::errors::document;
use crate::Problem;
use crate::events::follower::{Told, What};
use crate::routes::follow::Scope;
use crate::running_turns::{TurnHandle, TurnKey};

/// One turn as a chat completion, to its end.
pub(super) struct CompletionScope {
    turn_key: TurnKey,
    handle: TurnHandle,
    /// Stops the turn when the connection is dropped before its end.
    guard: Option<DropGuard>,
    chunks: ChunkWriter,
    /// The outcome of the turn, once it is known.
    outcome: Option<Result<Outcome, Problem>>,
}

impl CompletionScope {
    pub(super) fn new(
        turn_key: TurnKey,
        handle: TurnHandle,
        guard: Option<DropGuard>,
        chunks: ChunkWriter,
    ) -> Self {
        Self { turn_key, handle, guard, chunks, outcome: None }
    }

    /// Whether anything was written.
    pub(super) fn has_begun(&self) -> bool {
        self.chunks.has_begun
    }

    /// Waits for the result of the turn, and returns what can write it.
    pub(super) async fn into_result(mut self) -> Result<(CompletionResult, ChunkWriter), Problem> {
        let outcome = match self.outcome.take() {
            Some(outcome) => outcome,
            None => self.handle.outcome().await,
        };
        self.guard.take().map(DropGuard::disarm);
        Ok((CompletionResult::of(&outcome?, self.chunks.streamed.clone()), self.chunks))
    }
}

impl Scope for CompletionScope {
    fn ends_with_turn(&self) -> bool {
        true
    }

    fn may_run_elsewhere(&self) -> bool {
        false
    }

    async fn settled(&mut self) {
        if self.outcome.is_some() {
            return std::future::pending().await;
        }
        self.outcome = Some(self.handle.outcome().await);
        self.guard.take().map(DropGuard::disarm);
    }

    fn ended(&mut self, frames: &mut String) -> bool {
        match &self.outcome {
            None => return false,
            // The response has its own way to tell it.
            Some(_) if !self.has_begun() => {}
            Some(Ok(outcome)) => {
                let result = CompletionResult::of(outcome, self.chunks.streamed.clone());
                *frames += &self.chunks.end(&result);
            }
            // It came after the first chunk.
            Some(Err(problem)) => *frames += &Frame::data(document(problem).to_string()).to_sse(),
        }
        true
    }

    fn has_failed(&self) -> bool {
        matches!(self.outcome, Some(Err(_)))
    }

    fn tell(&mut self, told: Told, frames: &mut String) -> bool {
        if let What::Turn(turn, event) = told.what
            && (&told.thread, turn) == (&self.turn_key.thread, self.turn_key.turn)
        {
            *frames += &self.chunks.event(&event);
        }
        false
    }
}

/// Writes the chunks of one completion.
#[derive(Debug)]
pub(crate) struct ChunkWriter {
    meta: CompletionMeta,
    encoder: StreamEncoder,
    include_usage: bool,
    /// Whether text waits for the end.
    defers_text: bool,
    has_begun: bool,
    pub(crate) streamed: StreamedText,
}

impl ChunkWriter {
    pub(crate) fn new(meta: CompletionMeta, include_usage: bool, defers_text: bool) -> Self {
        let encoder = StreamEncoder::new(&meta.target());
        Self {
            meta,
            encoder,
            include_usage,
            defers_text,
            has_begun: false,
            streamed: StreamedText::default(),
        }
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
        if !self.has_begun {
            text += &self.push(&Delta::Text(String::new()));
        }
        let frames = self.encoder.push(&Delta::Done(Box::new(result.answer(&self.meta))));
        text + &self.frames(frames, Some(result))
    }

    fn push(&mut self, delta: &Delta) -> String {
        self.has_begun = true;
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
