//! Encodes streamed answers.
//!
//! Turns [`Delta`]s into chunks of a `GenerateContentResponse`. The rule, in full:
//!
//! 1. Text and thinking are written immediately.
//! 2. A call is written whole and with its signature, which is only known at the end. So from the first call on,
//!    everything waits for [`Delta::Done`].
//! 3. The last chunk holds the remaining parts, the signature of the last text (on an empty text, as Gemini does),
//!    the stop reason and the token counts. If `Done` is the only delta, it holds the whole answer.

use contexture_message::{Answer, Delta, Part, Thinking};
use serde_json::{Value, json};

use super::answer::{last_response, model_parts};
use crate::loss::Losses;
use crate::{Frame, Target};

/// Encodes one streamed answer.
#[derive(Debug)]
pub(crate) struct StreamEncoder {
    target: Target,
    /// Whether any chunk has been written.
    live: bool,
    /// Whether a call has started, so that everything waits for `Done`.
    waits: bool,
}

impl StreamEncoder {
    pub(crate) fn new(target: &Target) -> Self {
        Self { target: target.clone(), live: false, waits: false }
    }

    pub(crate) fn push(&mut self, delta: &Delta) -> Vec<Frame> {
        match delta {
            Delta::Text(text) => self.write(text, json!({"text": text})),
            Delta::Thinking(text) => self.write(text, json!({"text": text, "thought": true})),
            Delta::Call { .. } => {
                self.waits = true;
                Vec::new()
            }
            // Citations are written at the end, with the segments that they belong to.
            Delta::Citation(_) | Delta::Arguments { .. } => Vec::new(),
            Delta::Done(answer) => vec![Frame::data(self.last(answer).to_string())],
        }
    }

    fn write(&mut self, text: &str, part: Value) -> Vec<Frame> {
        if self.waits || text.is_empty() {
            return Vec::new();
        }
        self.live = true;
        let candidate = json!({"content": {"parts": [part], "role": "model"}, "index": 0});
        let body = json!({"candidates": [candidate], "modelVersion": self.target.model});
        vec![Frame::data(body.to_string())]
    }

    fn last(&self, answer: &Answer) -> Value {
        let parts = &answer.message.content;
        let n_streamed = if self.live { n_streamed(parts) } else { 0 };
        let signature = signature_of_text(&self.target, &parts[..n_streamed]).into_iter();
        let signature = signature.map(|it| json!({"text": "", "thoughtSignature": it}));
        let rest = model_parts(&self.target, &parts[n_streamed..], &mut Losses::default());
        last_response(&self.target, answer, signature.chain(rest).collect())
    }
}

/// Returns the number of parts that were written immediately: all before the first call and its signature.
fn n_streamed(parts: &[Part]) -> usize {
    let call = parts.iter().position(|it| matches!(it, Part::ToolCall(_))).unwrap_or(parts.len());
    match parts[..call].last() {
        Some(Part::Thinking(it)) if is_signature(it) => call - 1,
        Some(_) | None => call,
    }
}

fn is_signature(thinking: &Thinking) -> bool {
    thinking.text.is_empty() && thinking.signature.is_some()
}

fn signature_of_text<'a>(target: &Target, parts: &'a [Part]) -> Option<&'a str> {
    match parts {
        [.., Part::Thinking(it), Part::Text { .. }]
            if is_signature(it) && it.provider.as_ref() == Some(&target.provider) =>
        {
            it.signature.as_deref()
        }
        _ => None,
    }
}
