//! Decodes streamed answers.
//!
//! Turns chunks of a `GenerateContentResponse` into [`Delta`]s. Calls arrive whole. There is no end mark: the answer
//! is complete when the body ends after a `finishReason` or a refusal of the prompt.

use contexture_message::{Citation, Delta, Message, StopReason};

use super::answer::is_blocked;
use super::citations;
use super::decode_parts::{inline, linked};
use super::usage::{read_stop, read_usage};
use crate::assembly::{Assembly, cut};
use crate::citations::citations_of;
use crate::digest::digest;
use crate::loss::Losses;
use crate::read::{Place, parse_frame};
use crate::{DecodeError, Dialect, Frame, StreamError, Target};

/// Decodes one streamed answer.
#[derive(Debug)]
pub(crate) struct StreamDecoder {
    assembly: Assembly,
    n_calls: usize,
    /// Citations count bytes of the whole text, so they wait for it.
    citations: Vec<Citation>,
    done: bool,
}

impl StreamDecoder {
    pub(crate) fn new(target: &Target) -> Self {
        Self { assembly: Assembly::new(&target.provider), n_calls: 0, citations: Vec::new(), done: false }
    }

    pub(crate) fn push(&mut self, frame: &Frame) -> Result<Vec<Delta>, StreamError> {
        if self.done || frame.data.trim().is_empty() {
            return Ok(Vec::new());
        }
        let body = parse_frame(Dialect::Gemini, frame)?;
        Ok(self.piece(&Place::root_object(&body)?, &frame.data)?)
    }

    pub(crate) fn finish(&mut self) -> Result<Vec<Delta>, StreamError> {
        if self.done {
            return Ok(Vec::new());
        }
        if self.assembly.stop.is_none() {
            return Err(cut().into());
        }
        self.done = true;
        let mut answer = self.assembly.answer();
        self.citations.drain(..).for_each(|it| answer.message.cite(it));
        let mut deltas: Vec<Delta> = citations_of(&answer.message).cloned().map(Delta::Citation).collect();
        deltas.push(Delta::Done(Box::new(answer)));
        Ok(deltas)
    }

    pub(crate) fn partial(&self) -> Message {
        self.assembly.partial()
    }

    fn piece(&mut self, doc: &Place<'_>, data: &str) -> Result<Vec<Delta>, DecodeError> {
        let id = doc.name("responseId");
        self.assembly.id = id.or(self.assembly.id.take());
        let model = doc.name("modelVersion");
        self.assembly.model = model.or(self.assembly.model.take());
        if let Some(usage) = doc.get("usageMetadata") {
            self.assembly.usage = read_usage(&usage);
        }
        if is_blocked(doc)? {
            self.assembly.stop = Some(StopReason::Refused);
        }
        match doc.get_objects("candidates")?.into_iter().next() {
            Some(candidate) => self.candidate(candidate, data),
            None => Ok(Vec::new()),
        }
    }

    fn candidate(&mut self, doc: Place<'_>, data: &str) -> Result<Vec<Delta>, DecodeError> {
        let mut deltas = Vec::new();
        if let Some(content) = doc.get_object("content")? {
            for part in content.get_objects("parts")? {
                deltas.extend(self.part(&part, data)?);
            }
        }
        for citation in citations::read(self.assembly.provider(), &doc, &mut Losses::default())? {
            // Each chunk may repeat what the chunks before it had.
            if !self.citations.contains(&citation) {
                self.citations.push(citation);
            }
        }
        let stop = doc.get_string("finishReason")?.map(|it| read_stop(&it));
        self.assembly.stop = stop.or(self.assembly.stop.take());
        Ok(deltas)
    }

    fn part(&mut self, doc: &Place<'_>, data: &str) -> Result<Vec<Delta>, DecodeError> {
        let signature = doc.get_string("thoughtSignature")?;
        if let Some(call) = doc.get_object("functionCall")? {
            return self.call(call, signature, data);
        }
        let Some(text) = doc.get_string("text")? else {
            self.media(doc, signature)?;
            return Ok(Vec::new());
        };
        let delta = if doc.flag("thought")? {
            let delta = self.assembly.thinking(&text);
            if let Some(signature) = signature {
                self.assembly.sign(&signature);
                self.assembly.close_thinking();
            }
            delta
        } else {
            let delta = self.assembly.text(&text);
            if let Some(signature) = signature {
                self.assembly.sign_text(signature);
            }
            delta
        };
        Ok(Vec::from_iter(delta))
    }

    /// Decodes images and files, which arrive whole; skips other kinds of parts.
    fn media(&mut self, doc: &Place<'_>, signature: Option<String>) -> Result<(), DecodeError> {
        let losses = &mut Losses::default();
        let part = match (doc.get_object("inlineData")?, doc.get_object("fileData")?) {
            (Some(data), _) => inline(data, losses)?,
            (None, Some(data)) => linked(data, losses)?,
            (None, None) => return Ok(()),
        };
        if signature.is_some() {
            self.assembly.thought("", signature, false);
        }
        self.assembly.media(part);
        Ok(())
    }

    fn call(
        &mut self,
        doc: Place<'_>,
        signature: Option<String>,
        data: &str,
    ) -> Result<Vec<Delta>, DecodeError> {
        let name = doc.need_string("name")?;
        let key = self.n_calls.to_string();
        self.n_calls += 1;
        let id = match (doc.get_string("id")?.filter(|it| !it.is_empty()), &self.assembly.id) {
            (Some(id), _) => id,
            (None, Some(answer)) => format!("{answer}_{key}"),
            (None, None) => format!("call_{}_{key}", digest(data)),
        };
        if signature.is_some() {
            self.assembly.thought("", signature, false);
        }
        let mut deltas = vec![self.assembly.call(&key, &id, &name)];
        let arguments = doc.get("args").map(|it| it.value.to_string()).unwrap_or_else(|| "{}".to_owned());
        deltas.extend(self.assembly.arguments(&key, &arguments));
        self.assembly.close_call(&key);
        Ok(deltas)
    }
}
