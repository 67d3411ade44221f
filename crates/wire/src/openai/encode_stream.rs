//! Encodes streamed Chat Completions answers.

use contexture_message::{Answer, Delta, Part};
use serde_json::{Map, Value, json};

use super::citations::{Form, annotations};
use super::usage::{write_stop, write_usage};
use crate::assembly::arguments_text;
use crate::loss::Losses;
use crate::{Frame, Target};

/// Encodes one streamed answer. The answer's id and model are only known with the last delta; until then chunks have
/// no id and carry the requested model.
#[derive(Debug)]
pub(crate) struct StreamEncoder {
    model: String,
    target: Target,
    id: String,
    begun: bool,
    /// The text so far, and where its current part began: annotations count characters of the whole.
    text: String,
    part_start: usize,
}

impl StreamEncoder {
    pub(crate) fn new(target: &Target) -> Self {
        Self {
            model: target.model.clone(),
            target: target.clone(),
            id: String::new(),
            begun: false,
            text: String::new(),
            part_start: 0,
        }
    }

    pub(crate) fn push(&mut self, delta: &Delta) -> Vec<Frame> {
        match delta {
            Delta::Text(text) => {
                if text.is_empty() {
                    self.part_start = self.text.len();
                }
                self.text.push_str(text);
                vec![self.said(json!({"content": text}))]
            }
            Delta::Citation(citation) => {
                let place = (self.text.as_str(), self.part_start);
                let (one, losses) = (std::slice::from_ref(citation), &mut Losses::default());
                let annotations = annotations(&self.target, Form::Wrapped, one, place, "", losses);
                vec![self.said(json!({"annotations": annotations}))]
            }
            Delta::Thinking(text) => vec![self.said(json!({"reasoning_content": text}))],
            Delta::Call { index, id, name } => vec![self.said(json!({"tool_calls": [{
                "index": index, "id": id, "type": "function", "function": {"name": name, "arguments": ""},
            }]}))],
            Delta::Arguments { index, json } => {
                vec![self.said(json!({"tool_calls": [{"index": index, "function": {"arguments": json}}]}))]
            }
            Delta::Done(answer) => self.done(answer),
        }
    }

    /// Ends the stream. If nothing was streamed before, writes the whole answer.
    fn done(&mut self, answer: &Answer) -> Vec<Frame> {
        self.id = answer.id.clone().unwrap_or_default();
        self.model = answer.model.clone().unwrap_or_else(|| self.model.clone());
        let mut frames = Vec::new();
        if !self.begun {
            frames.extend(pieces(answer).iter().flat_map(|it| self.push(it)));
        }
        let finish = write_stop(&answer.stop, &mut Losses::default());
        let choice = json!({"index": 0, "delta": {}, "logprobs": null, "finish_reason": finish});
        frames.push(self.frame(json!([choice]), None));
        frames.push(self.frame(json!([]), Some(write_usage(answer.usage))));
        frames.push(Frame::data("[DONE]"));
        frames
    }

    fn said(&mut self, mut delta: Value) -> Frame {
        if !std::mem::replace(&mut self.begun, true) {
            delta["role"] = json!("assistant");
        }
        self.frame(json!([{"index": 0, "delta": delta, "logprobs": null, "finish_reason": null}]), None)
    }

    fn frame(&self, choices: Value, usage: Option<Value>) -> Frame {
        let mut chunk = Map::new();
        chunk.insert("id".to_owned(), json!(self.id));
        chunk.insert("object".to_owned(), json!("chat.completion.chunk"));
        chunk.insert("created".to_owned(), json!(0));
        chunk.insert("model".to_owned(), json!(self.model));
        chunk.insert("choices".to_owned(), choices);
        chunk.insert("usage".to_owned(), json!(usage));
        Frame::data(Value::Object(chunk).to_string())
    }
}

/// Returns the deltas for a whole answer.
pub(crate) fn pieces(answer: &Answer) -> Vec<Delta> {
    let mut pieces = Vec::new();
    let mut n_calls = 0;
    for part in &answer.message.content {
        match part {
            Part::Text { text, citations } => {
                // An empty piece keeps two texts apart whose citations would be mixed up.
                let follows = matches!(pieces.last(), Some(Delta::Text(_) | Delta::Citation(_)));
                let is_cited = !citations.is_empty() || matches!(pieces.last(), Some(Delta::Citation(_)));
                pieces.extend((follows && is_cited).then(|| Delta::Text(String::new())));
                pieces.push(Delta::Text(text.clone()));
                pieces.extend(citations.iter().cloned().map(Delta::Citation));
            }
            Part::Thinking(thinking) if thinking.text.is_empty() => {}
            Part::Thinking(thinking) => pieces.push(Delta::Thinking(thinking.text.clone())),
            Part::ToolCall(call) => {
                let (index, id, name) = (n_calls, call.id.clone(), call.name.clone());
                n_calls += 1;
                pieces.push(Delta::Call { index, id, name });
                pieces.push(Delta::Arguments { index, json: arguments_text(&call.arguments) });
            }
            Part::Image(_) | Part::File(_) | Part::Evidence(_) | Part::ToolResult(_) => {}
        }
    }
    pieces
}
