//! Decodes streamed Chat Completions answers.
//!
//! Turns the chunks of a stream into [`Delta`]s. Servers write tool calls in different ways, so:
//!
//! 1. A piece belongs to the call with its index; without an index, to the call with its id, or else to the last one.
//! 2. A call starts when its name is known. A different id together with a name starts another call, even under the
//!    same index.
//! 3. Calls are complete once the stop reason arrives, except for the last one if the model ran out of tokens.
//!
//! Content may be a list of parts, and a chunk may hold a whole `message` instead of a `delta`.
//!
//! The answer is complete at `[DONE]`, or when the body ends after a finish reason.

use contexture_message::{Delta, Message, StopReason};
use serde_json::Value;

use super::answer::{Said, content, made_id, reasoning};
use super::citations;
use super::text_chunk::TextChunk;
use super::usage::{read_stop, read_usage};
use crate::assembly::{Assembly, cut};
use crate::citations::citations_of;
use crate::loss::Losses;
use crate::read::{Place, parse_frame};
use crate::{DecodeError, Dialect, Frame, StreamError, Target};

/// Decodes one streamed answer.
#[derive(Debug)]
pub(crate) struct StreamDecoder {
    assembly: Assembly,
    target: Target,
    calls: Vec<Call>,
    /// Annotations count characters of the whole text, so they wait for it.
    annotations: Vec<Value>,
    refused: bool,
    done: bool,
}

/// A tool call of which at least one piece has arrived; its key in the assembly is its position.
#[derive(Debug, Default)]
struct Call {
    index: Option<u64>,
    id: String,
    begun: bool,
    /// Arguments that arrived before the name.
    waiting: String,
}

impl StreamDecoder {
    pub(crate) fn new(target: &Target) -> Self {
        let assembly = Assembly::new(&target.provider);
        let (calls, annotations) = (Vec::new(), Vec::new());
        Self { assembly, target: target.clone(), calls, annotations, refused: false, done: false }
    }

    pub(crate) fn push(&mut self, frame: &Frame) -> Result<Vec<Delta>, StreamError> {
        let data = frame.data.trim();
        if self.done || data.is_empty() {
            return Ok(Vec::new());
        }
        if data == "[DONE]" {
            return Ok(self.end());
        }
        if let Some(chunk) = TextChunk::read(frame) {
            return Ok(self.text_chunk(&chunk).into_iter().collect());
        }
        let chunk = parse_frame(Dialect::Openai, frame)?;
        Ok(self.chunk(&Place::root(&chunk))?)
    }

    pub(crate) fn finish(&mut self) -> Result<Vec<Delta>, StreamError> {
        match (self.done, &self.assembly.stop) {
            (true, _) => Ok(Vec::new()),
            (false, Some(_)) => Ok(self.end()),
            (false, None) => Err(cut().into()),
        }
    }

    pub(crate) fn partial(&self) -> Message {
        self.assembly.partial()
    }

    fn text_chunk(&mut self, chunk: &TextChunk<'_>) -> Option<Delta> {
        name(&mut self.assembly.id, chunk.id);
        name(&mut self.assembly.model, chunk.model);
        self.assembly.text(chunk.text())
    }

    fn chunk(&mut self, chunk: &Place<'_>) -> Result<Vec<Delta>, DecodeError> {
        self.assembly.id = chunk.name("id").or(self.assembly.id.take());
        self.assembly.model = chunk.name("model").or(self.assembly.model.take());
        if let Some(usage) = chunk.get("usage") {
            self.assembly.usage = read_usage(&usage);
        }
        let mut deltas = Vec::new();
        let choices = chunk.get_list("choices")?;
        let first = choices.iter().find(|it| it.count("index").unwrap_or_default() == 0);
        if let Some(choice) = first {
            // Some servers send the whole message in a single chunk.
            if let Some(delta) = choice.get("delta").or_else(|| choice.get("message")) {
                self.delta(&delta, &mut deltas)?;
            }
            if let Some(word) = choice.get_str("finish_reason")?.filter(|it| !it.is_empty()) {
                deltas.extend(self.stopped(read_stop(word)));
            }
        }
        Ok(deltas)
    }

    fn delta(&mut self, delta: &Place<'_>, deltas: &mut Vec<Delta>) -> Result<(), DecodeError> {
        deltas.extend(reasoning(delta).and_then(|it| self.assembly.thinking(it)));
        for said in content(delta)? {
            deltas.extend(match said {
                Said::Thinking(text) => self.assembly.thinking(text),
                Said::Text(text) => self.assembly.text(text),
            });
        }
        if let Some(refusal) = delta.get_str("refusal")?.filter(|it| !it.is_empty()) {
            self.refused = true;
            deltas.extend(self.assembly.text(refusal));
        }
        for annotation in delta.get_list("annotations")? {
            // Some servers repeat all of them in a last chunk.
            if !self.annotations.contains(annotation.value) {
                self.annotations.push(annotation.value.clone());
            }
        }
        for piece in delta.get_list("tool_calls")? {
            let index = piece.get("index").and_then(|it| it.value.as_u64());
            let id = piece.get_str("id")?.unwrap_or_default();
            if let Some(function) = piece.get("function") {
                self.call(index, id, &function, deltas)?;
            }
        }
        match delta.get("function_call") {
            Some(function) => self.call(None, "", &function, deltas),
            None => Ok(()),
        }
    }

    fn call(
        &mut self,
        index: Option<u64>,
        id: &str,
        function: &Place<'_>,
        deltas: &mut Vec<Delta>,
    ) -> Result<(), DecodeError> {
        let name = function.get_str("name")?.unwrap_or_default();
        let arguments = match function.get("arguments") {
            Some(it) if it.value.is_object() => it.value.to_string(),
            Some(it) => it.str()?.to_owned(),
            None => String::new(),
        };
        let call_idx = self.find_call(index, id, name);
        let call = &mut self.calls[call_idx];
        if call.id.is_empty() {
            call.id = id.to_owned();
        }
        call.waiting.push_str(&arguments);
        if call.begun || !name.is_empty() {
            deltas.extend(self.release(call_idx, name));
        }
        Ok(())
    }

    /// Returns the position of the call that a piece belongs to, adding a new call if the piece starts one.
    fn find_call(&mut self, index: Option<u64>, id: &str, name: &str) -> usize {
        let found = match index {
            Some(_) => self.calls.iter().rposition(|it| it.index == index),
            None if id.is_empty() => self.calls.len().checked_sub(1),
            None => self.calls.iter().rposition(|it| it.id == id),
        };
        let same = |it: &Call| {
            let other_id = !id.is_empty() && !it.id.is_empty() && it.id != id;
            let begins = !name.is_empty() && it.begun && (other_id || (index.is_none() && id.is_empty()));
            !begins
        };
        if let Some(call_idx) = found
            && same(&self.calls[call_idx])
        {
            return call_idx;
        }
        self.calls.push(Call { index, ..Call::default() });
        self.calls.len() - 1
    }

    /// Starts the call if it has not started, and emits its buffered arguments.
    fn release(&mut self, call_idx: usize, name: &str) -> Vec<Delta> {
        let mut deltas = Vec::new();
        let key = call_idx.to_string();
        let call = &mut self.calls[call_idx];
        if !call.begun {
            call.begun = true;
            if call.id.is_empty() {
                call.id = made_id(self.assembly.id.as_deref(), call_idx);
            }
            deltas.push(self.assembly.call(&key, &call.id, name));
        }
        let waiting = std::mem::take(&mut call.waiting);
        deltas.extend(self.assembly.arguments(&key, &waiting));
        deltas
    }

    fn stopped(&mut self, stop: StopReason) -> Vec<Delta> {
        let nameless: Vec<usize> = (0..self.calls.len()).filter(|it| !self.calls[*it].begun).collect();
        let deltas = nameless.into_iter().flat_map(|it| self.release(it, "")).collect();
        let n_cut = usize::from(stop == StopReason::MaxTokens);
        (0..self.calls.len().saturating_sub(n_cut)).for_each(|it| self.assembly.close_call(&it.to_string()));
        self.assembly.stop = Some(match stop {
            StopReason::End if self.refused => StopReason::Refused,
            stop => stop,
        });
        deltas
    }

    fn end(&mut self) -> Vec<Delta> {
        self.done = true;
        let mut answer = self.assembly.answer();
        let text = answer.joined_text();
        for annotation in &self.annotations {
            let place = Place::root(annotation);
            let citation = citations::read(&self.target, &place, &text, &mut Losses::default());
            citation.into_iter().for_each(|it| answer.message.cite(it));
        }
        let mut deltas: Vec<Delta> = citations_of(&answer.message).cloned().map(Delta::Citation).collect();
        deltas.push(Delta::Done(Box::new(answer)));
        deltas
    }
}

/// Replaces a name, unless the new one is empty. All chunks have the same names.
fn name(known: &mut Option<String>, new: &str) {
    if !new.is_empty() && known.as_deref() != Some(new) {
        *known = Some(new.to_owned());
    }
}
