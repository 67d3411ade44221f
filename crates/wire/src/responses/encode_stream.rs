//! Encodes streamed answers in the format of OpenAI Responses.
//!
//! Turns [`Delta`]s into typed events: each item is added, streamed and done before the next one. The response that
//! ends the stream is the whole answer, including what is only known with the last delta (signatures, the model, the
//! token counts). A stream must end with the id that it started with, so the answer's real id is only used if `Done`
//! is the only delta.

use contexture_message::{Answer, Citation, Delta};
use serde_json::{Map, Value, json};

use super::answer::{call_item, message_item, response, shell, text_part};
use super::reasoning;
use crate::loss::Losses;
use crate::openai::citations::{Form, annotations};
use crate::openai::encode_stream::pieces;
use crate::{Frame, Target};

/// The id of a response whose real id is not known yet.
const STREAM_ID: &str = "resp_0";

/// Encodes one streamed answer.
#[derive(Debug)]
pub(crate) struct StreamEncoder {
    // Boxed because the encoders of the other dialects are small.
    target: Box<Target>,
    id: String,
    n_events: u64,
    n_items: usize,
    /// The id of the current item.
    item_id: Value,
    open: Option<Open>,
}

/// The item that is being streamed, with its content so far.
#[derive(Debug)]
enum Open {
    Text { text: String, part_start: usize, annotations: Vec<Value> },
    Thinking(String),
    Call { index: usize, id: String, name: String, json: String },
}

impl Open {
    fn empty_text() -> Self {
        Open::Text { text: String::new(), part_start: 0, annotations: Vec::new() }
    }
}

impl StreamEncoder {
    pub(crate) fn new(target: &Target) -> Self {
        Self {
            target: Box::new(target.clone()),
            id: String::new(),
            n_events: 0,
            n_items: 0,
            item_id: Value::Null,
            open: None,
        }
    }

    pub(crate) fn push(&mut self, delta: &Delta) -> Vec<Frame> {
        let id = match delta {
            Delta::Done(answer) => answer.id.as_deref(),
            Delta::Text(_)
            | Delta::Citation(_)
            | Delta::Thinking(_)
            | Delta::Call { .. }
            | Delta::Arguments { .. } => None,
        };
        let mut frames = self.created(id);
        match delta {
            Delta::Text(more) => {
                match &mut self.open {
                    // An empty piece starts a new part, whose citations count from here.
                    Some(Open::Text { text, part_start, .. }) if more.is_empty() => *part_start = text.len(),
                    Some(Open::Text { .. }) => {}
                    _ => self.begin(Open::empty_text(), &mut frames),
                }
                self.say(more, &mut frames);
            }
            Delta::Citation(citation) => self.annotation(citation, &mut frames),
            Delta::Thinking(more) => {
                if !matches!(self.open, Some(Open::Thinking(_))) {
                    self.begin(Open::Thinking(String::new()), &mut frames);
                }
                self.say(more, &mut frames);
            }
            Delta::Call { index, id, name } => {
                let (id, name) = (id.clone(), name.clone());
                self.begin(Open::Call { index: *index, id, name, json: String::new() }, &mut frames);
            }
            // Later arguments of a call that was ended by another item only appear in the final response.
            Delta::Arguments { index, json } => {
                if matches!(&self.open, Some(Open::Call { index: open, .. }) if open == index) {
                    self.say(json, &mut frames);
                }
            }
            Delta::Done(answer) => self.done(answer, &mut frames),
        }
        frames
    }

    /// Returns the event that starts a stream, on the first call only.
    fn created(&mut self, id: Option<&str>) -> Vec<Frame> {
        if self.n_events > 0 {
            return Vec::new();
        }
        self.id = id.unwrap_or(STREAM_ID).to_owned();
        let response = shell(&self.id, &self.target.model, "in_progress");
        vec![self.event("response.created", json!({"response": response}))]
    }

    fn done(&mut self, answer: &Answer, frames: &mut Vec<Frame>) {
        if self.n_items == 0 && self.open.is_none() {
            frames.extend(pieces(answer).iter().flat_map(|it| self.push(it)));
        }
        self.end_item(frames);
        let mut response = response(&self.target, answer, &mut Losses::default());
        response["id"] = json!(self.id);
        let whole = response["status"] == "completed";
        let kind = if whole { "response.completed" } else { "response.incomplete" };
        frames.push(self.event(kind, json!({"response": response})));
    }

    /// Ends the current item and starts a new one.
    fn begin(&mut self, open: Open, frames: &mut Vec<Frame>) {
        self.end_item(frames);
        let idx = self.n_items;
        let item = item(&open, idx, "in_progress");
        self.item_id = item["id"].clone();
        frames.push(self.event("response.output_item.added", json!({"output_index": idx, "item": item})));
        match &open {
            Open::Text { .. } => {
                let part = text_part("", Vec::new());
                let fields = self.place(json!({"content_index": 0, "part": part}));
                frames.push(self.event("response.content_part.added", fields));
            }
            Open::Thinking(_) => {
                let part = json!({"type": "summary_text", "text": ""});
                let fields = self.place(json!({"summary_index": 0, "part": part}));
                frames.push(self.event("response.reasoning_summary_part.added", fields));
            }
            Open::Call { .. } => {}
        }
        self.open = Some(open);
    }

    /// Adds a piece to the current item.
    fn say(&mut self, more: &str, frames: &mut Vec<Frame>) {
        let (kind, fields) = match &mut self.open {
            Some(Open::Text { text, .. }) => {
                text.push_str(more);
                ("response.output_text.delta", json!({"content_index": 0, "delta": more, "logprobs": []}))
            }
            Some(Open::Thinking(text)) => {
                text.push_str(more);
                ("response.reasoning_summary_text.delta", json!({"summary_index": 0, "delta": more}))
            }
            Some(Open::Call { json, .. }) => {
                json.push_str(more);
                ("response.function_call_arguments.delta", json!({"delta": more}))
            }
            None => return,
        };
        let fields = self.place(fields);
        frames.push(self.event(kind, fields));
    }

    /// Writes a citation of the text that is open.
    fn annotation(&mut self, citation: &Citation, frames: &mut Vec<Frame>) {
        let Some(Open::Text { text, part_start, annotations: own }) = &mut self.open else { return };
        let (one, losses) = (std::slice::from_ref(citation), &mut Losses::default());
        let Some(annotation) =
            annotations(&self.target, Form::Flat, one, (text, *part_start), "", losses).pop()
        else {
            return;
        };
        own.push(annotation.clone());
        let index = own.len() - 1;
        let fields = json!({"content_index": 0, "annotation_index": index, "annotation": annotation});
        let fields = self.place(fields);
        frames.push(self.event("response.output_text.annotation.added", fields));
    }

    fn end_item(&mut self, frames: &mut Vec<Frame>) {
        let Some(open) = self.open.take() else { return };
        let ends = match &open {
            Open::Text { text, annotations, .. } => {
                let part = text_part(text, annotations.clone());
                vec![
                    ("response.output_text.done", json!({"content_index": 0, "text": text, "logprobs": []})),
                    ("response.content_part.done", json!({"content_index": 0, "part": part})),
                ]
            }
            Open::Thinking(text) => {
                let part = json!({"type": "summary_text", "text": text});
                vec![
                    ("response.reasoning_summary_text.done", json!({"summary_index": 0, "text": text})),
                    ("response.reasoning_summary_part.done", json!({"summary_index": 0, "part": part})),
                ]
            }
            Open::Call { name, json, .. } => {
                vec![("response.function_call_arguments.done", json!({"name": name, "arguments": json}))]
            }
        };
        for (kind, fields) in ends {
            let fields = self.place(fields);
            frames.push(self.event(kind, fields));
        }
        let item = item(&open, self.n_items, "completed");
        let fields = json!({"output_index": self.n_items, "item": item});
        frames.push(self.event("response.output_item.done", fields));
        self.n_items += 1;
    }

    /// Adds the id and index of the current item to an event's fields.
    fn place(&self, mut fields: Value) -> Value {
        fields["item_id"] = self.item_id.clone();
        fields["output_index"] = json!(self.n_items);
        fields
    }

    fn event(&mut self, kind: &str, fields: Value) -> Frame {
        let mut event = Map::new();
        event.insert("type".to_owned(), json!(kind));
        event.insert("sequence_number".to_owned(), json!(self.n_events));
        if let Value::Object(fields) = fields {
            event.extend(fields);
        }
        self.n_events += 1;
        Frame { event: Some(kind.to_owned()), data: Value::Object(event).to_string() }
    }
}

fn item(open: &Open, idx: usize, status: &str) -> Value {
    match open {
        Open::Text { text, .. } if text.is_empty() => message_item(idx, json!([]), status),
        Open::Text { text, annotations, .. } => {
            message_item(idx, json!([text_part(text, annotations.clone())]), status)
        }
        Open::Thinking(text) => reasoning::plain(&format!("rs_{idx}"), text),
        Open::Call { id, name, json, .. } => call_item(id, name, json, status),
    }
}
