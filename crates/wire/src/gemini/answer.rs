//! Decodes and encodes answers that are not streamed.
//!
//! Converts between a `GenerateContentResponse` and an [`Answer`].

use contexture_message::{Answer, Message, Part, Role, StopReason};
use serde_json::{Map, Value, json};

use super::citations;
use super::decode_parts::{Ids, Parts};
use super::encode_parts::ModelParts;
use super::usage::{read_stop, read_usage, write_stop, write_usage};
use crate::digest::digest;
use crate::loss::Losses;
use crate::read::Place;
use crate::{DecodeError, Decoded, Encoded, Target};

/// Decodes an answer.
pub(crate) fn decode_answer(target: &Target, body: &Value) -> Result<Decoded<Answer>, DecodeError> {
    let doc = Place::root_object(body)?;
    doc.ignore(&["createTime"]);
    let id = doc.name("responseId");
    let prefix = id.clone().unwrap_or_else(|| format!("call_{}", digest(&body.to_string())));
    let mut parts = Parts::new(&target.provider, Ids::new(prefix));
    let blocked = is_blocked(&doc)?;
    let mut candidates = doc.get_objects("candidates")?.into_iter();
    let (message, stop) = match candidates.next() {
        Some(candidate) => candidate_message(candidate, &mut parts)?,
        None if blocked => (Message::parts(Role::Assistant, Vec::new()), StopReason::Refused),
        None => return Err(DecodeError::new("candidates", "is missing")),
    };
    for other in candidates {
        parts.losses.add(other.at(), "left out: an answer is one candidate");
    }
    let calls = message.content.iter().any(|it| matches!(it, Part::ToolCall(_)));
    let value = Answer {
        message,
        stop: if calls && stop == StopReason::End { StopReason::ToolCalls } else { stop },
        usage: doc.get("usageMetadata").map(|it| read_usage(&it)).unwrap_or_default(),
        model: doc.name("modelVersion"),
        id,
    };
    doc.report(&mut parts.losses);
    Ok(Decoded { value, losses: parts.losses.into_vec() })
}

/// Returns whether the provider refused the prompt itself.
pub(super) fn is_blocked(doc: &Place<'_>) -> Result<bool, DecodeError> {
    let Some(feedback) = doc.get_object("promptFeedback")? else { return Ok(false) };
    Ok(feedback.get_string("blockReason")?.is_some())
}

fn candidate_message(doc: Place<'_>, parts: &mut Parts) -> Result<(Message, StopReason), DecodeError> {
    // These fields are measurements, not content.
    doc.ignore(&["index", "tokenCount", "avgLogprobs", "safetyRatings", "finishMessage"]);
    let stop = doc.get_string("finishReason")?.map_or(StopReason::End, |it| read_stop(&it));
    let read = match doc.get_object("content")? {
        None => Vec::new(),
        Some(content) => {
            content.ignore(&["role"]);
            let read = parts.list(&content)?;
            content.report(&mut parts.losses);
            read
        }
    };
    let mut message = Message::parts(Role::Assistant, read);
    let provider = parts.provider().to_owned();
    citations::read(&provider, &doc, &mut parts.losses)?.into_iter().for_each(|it| message.cite(it));
    doc.report(&mut parts.losses);
    Ok((message, stop))
}

/// Encodes an answer.
pub(crate) fn encode_answer(target: &Target, answer: &Answer) -> Encoded {
    let mut losses = Losses::default();
    let parts = model_parts(target, &answer.message.content, &mut losses);
    citations::report_foreign(target, &answer.message, &mut losses);
    Encoded { body: last_response(target, answer, parts), losses: losses.into_vec() }
}

/// Encodes the parts of an answer.
pub(super) fn model_parts(target: &Target, parts: &[Part], losses: &mut Losses) -> Vec<Value> {
    let mut written = ModelParts::new(target, true);
    for (index, part) in parts.iter().enumerate() {
        written.push(part, &format!("message.content[{index}]"), losses);
    }
    written.flush();
    written.written
}

/// Returns the response that ends an answer: the only one, or the last one of a stream.
pub(super) fn last_response(target: &Target, answer: &Answer, parts: Vec<Value>) -> Value {
    let mut candidate = Map::new();
    candidate.insert("content".to_owned(), json!({"parts": parts, "role": "model"}));
    candidate.insert("finishReason".to_owned(), write_stop(&answer.stop).into());
    candidate.insert("index".to_owned(), 0.into());
    candidate.extend(citations::metadata(target, &answer.message));
    let mut body = Map::new();
    body.insert("candidates".to_owned(), json!([candidate]));
    body.insert("usageMetadata".to_owned(), write_usage(&answer.usage));
    body.insert("modelVersion".to_owned(), answer.model.as_deref().unwrap_or(&target.model).into());
    body.extend(answer.id.as_ref().map(|it| ("responseId".to_owned(), it.as_str().into())));
    Value::Object(body)
}
