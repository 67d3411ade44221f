//! Decodes streamed OpenAI Responses answers.
//!
//! Turns typed events into [`Delta`]s. Items are identified by their position in the output. A completed item fills
//! in what was not streamed, so servers that send few events work too. A `reasoning` item is signed when it is done.
//! The response that ends the stream is the answer, if it is present and has all signatures; otherwise the answer is
//! assembled from the events.

use contexture_message::{Answer, Delta, Message, Part, StopReason};
use serde_json::Value;

use super::answer::read_response;
use super::reasoning;
use super::usage::{read_stop, read_usage};
use crate::assembly::{Assembly, cut};
use crate::loss::Losses;
use crate::openai::citations;
use crate::read::{Place, parse_frame};
use crate::{DecodeError, Dialect, Frame, StreamError, Target, classify};

/// Decodes one streamed answer.
#[derive(Debug)]
pub(crate) struct StreamDecoder {
    target: Target,
    assembly: Assembly,
    /// Whether any text or thinking of the current item has arrived.
    said: bool,
    refused: bool,
    done: bool,
}

impl StreamDecoder {
    pub(crate) fn new(target: &Target) -> Self {
        let assembly = Assembly::new(&target.provider);
        Self { target: target.clone(), assembly, said: false, refused: false, done: false }
    }

    pub(crate) fn push(&mut self, frame: &Frame) -> Result<Vec<Delta>, StreamError> {
        let data = frame.data.trim();
        if self.done || data.is_empty() || data == "[DONE]" {
            return Ok(Vec::new());
        }
        let event = parse_frame(Dialect::OpenaiResponses, frame)?;
        let event = Place::root(&event);
        let kind = event.get_str("type")?.or(frame.event.as_deref()).unwrap_or_default();
        if kind == "response.failed" {
            return Err(classify(Dialect::OpenaiResponses, 0, event.value).into());
        }
        Ok(self.event(kind, &event)?)
    }

    pub(crate) fn finish(&mut self) -> Result<Vec<Delta>, StreamError> {
        if self.done {
            return Ok(Vec::new());
        }
        Err(cut().into())
    }

    pub(crate) fn partial(&self) -> Message {
        self.assembly.partial()
    }

    fn event(&mut self, kind: &str, event: &Place<'_>) -> Result<Vec<Delta>, DecodeError> {
        match kind {
            "response.created" | "response.in_progress" => {
                self.response(event)?;
                Ok(Vec::new())
            }
            "response.output_item.added" => self.begin(event),
            "response.content_part.added" => Ok(Vec::from_iter(self.assembly.begin_text())),
            "response.output_text.delta" => self.text(event),
            // The second name is the one in the API reference, the first is what servers send.
            "response.output_text.annotation.added" | "response.output_text_annotation.added" => {
                Ok(self.annotation(event).into_iter().collect())
            }
            "response.refusal.delta" => {
                self.refused = true;
                self.text(event)
            }
            "response.reasoning_summary_part.added" if event.count("summary_index") > Some(0) => {
                Ok(self.assembly.thinking("\n\n").into_iter().collect())
            }
            "response.reasoning_summary_text.delta" | "response.reasoning_text.delta" => {
                self.said = true;
                Ok(self.assembly.thinking(event.need("delta")?.str()?).into_iter().collect())
            }
            "response.function_call_arguments.delta" => {
                let more = event.need("delta")?.str()?;
                Ok(self.assembly.arguments(&key(event), more).into_iter().collect())
            }
            "response.function_call_arguments.done" => {
                let whole = event.get_str("arguments")?.unwrap_or_default();
                Ok(self.arguments_done(&key(event), whole))
            }
            "response.output_item.done" => self.item_done(event),
            "response.completed" | "response.incomplete" => self.end(event),
            // The item events above carry all content; other events only repeat or announce it.
            _ => Ok(Vec::new()),
        }
    }

    /// Reads the id, model and token counts of the response.
    fn response(&mut self, event: &Place<'_>) -> Result<(), DecodeError> {
        let Some(response) = event.get("response") else { return Ok(()) };
        self.assembly.id = response.name("id").or(self.assembly.id.take());
        self.assembly.model = response.name("model").or(self.assembly.model.take());
        if let Some(usage) = response.get("usage") {
            self.assembly.usage = read_usage(&usage);
        }
        Ok(())
    }

    fn begin(&mut self, event: &Place<'_>) -> Result<Vec<Delta>, DecodeError> {
        self.said = false;
        let item = event.need("item")?;
        if item.get_str("type")? != Some("function_call") {
            return Ok(Vec::new());
        }
        let mut deltas = self.begin_call(event, &item)?;
        let first = item.get_str("arguments")?.unwrap_or_default();
        deltas.extend(self.assembly.arguments(&key(event), first));
        Ok(deltas)
    }

    fn begin_call(&mut self, event: &Place<'_>, item: &Place<'_>) -> Result<Vec<Delta>, DecodeError> {
        let (id, name) = (item.need("call_id")?.str()?, item.need("name")?.str()?);
        Ok(vec![self.assembly.call(&key(event), id, name)])
    }

    fn text(&mut self, event: &Place<'_>) -> Result<Vec<Delta>, DecodeError> {
        self.said = true;
        Ok(self.assembly.text(event.need("delta")?.str()?).into_iter().collect())
    }

    fn annotation(&mut self, event: &Place<'_>) -> Option<Delta> {
        self.cite(&event.get("annotation")?)
    }

    fn cite(&mut self, annotation: &Place<'_>) -> Option<Delta> {
        let text = self.assembly.current_text()?;
        let citation = citations::read(&self.target, annotation, text, &mut Losses::default())?;
        self.assembly.cite(citation)
    }

    /// Completes a call. The event repeats the arguments, which are used if none were streamed.
    fn arguments_done(&mut self, key: &str, whole: &str) -> Vec<Delta> {
        let rest = if self.assembly.has_arguments(key) { "" } else { whole };
        let deltas = self.assembly.arguments(key, rest).into_iter().collect();
        self.assembly.close_call(key);
        deltas
    }

    fn item_done(&mut self, event: &Place<'_>) -> Result<Vec<Delta>, DecodeError> {
        let item = event.need("item")?;
        let mut deltas = Vec::new();
        match item.get_str("type")?.unwrap_or_default() {
            "message" if !self.said => {
                for part in item.get_list("content")? {
                    deltas.extend(self.assembly.begin_text());
                    self.refused |= part.get("refusal").is_some();
                    let text = part.get_str("text")?.or(part.get_str("refusal")?).unwrap_or_default();
                    deltas.extend(self.assembly.text(text));
                    for annotation in part.get_list("annotations")? {
                        deltas.extend(self.cite(&annotation));
                    }
                }
            }
            "function_call" => {
                if !self.assembly.has_call(&key(event)) {
                    deltas.extend(self.begin_call(event, &item)?);
                }
                let whole = item.get_str("arguments")?.unwrap_or_default();
                deltas.extend(self.arguments_done(&key(event), whole));
            }
            "reasoning" => deltas.extend(self.thought(item.value)),
            // A message that was streamed already, or an item of the provider's built-in tools.
            _ => {}
        }
        self.said = false;
        Ok(deltas)
    }

    fn thought(&mut self, item: &Value) -> Option<Delta> {
        let signature = reasoning::signature(item);
        if !self.said {
            let thinking = reasoning::read(&self.target, item)?;
            return self.assembly.thought(&thinking.text, signature, false);
        }
        if let Some(signature) = signature {
            self.assembly.sign(&signature);
        }
        self.assembly.close_thinking();
        None
    }

    fn end(&mut self, event: &Place<'_>) -> Result<Vec<Delta>, DecodeError> {
        self.response(event)?;
        let response = event.need("response")?;
        self.assembly.stop = Some(match read_stop(&response)? {
            StopReason::End if self.refused => StopReason::Refused,
            stop => stop,
        });
        self.done = true;
        let streamed = self.assembly.answer();
        let whole = read_response(&self.target, &response, &mut Losses::default()).ok();
        let whole = whole.filter(|it| !it.message.content.is_empty() && n_signed(it) >= n_signed(&streamed));
        Ok(vec![Delta::Done(Box::new(whole.unwrap_or(streamed)))])
    }
}

/// Returns the key of an item: its position, or its id if there is no position.
fn key(event: &Place<'_>) -> String {
    let index = event.value.get("output_index").and_then(Value::as_u64).map(|it| it.to_string());
    let id = || event.value.get("item_id").or_else(|| event.value.pointer("/item/id"));
    index.or_else(|| id()?.as_str().map(str::to_owned)).unwrap_or_default()
}

fn n_signed(answer: &Answer) -> usize {
    let signed = |it: &&Part| matches!(it, Part::Thinking(thinking) if thinking.signature.is_some());
    answer.message.content.iter().filter(signed).count()
}
