//! Reads and writes answers that are not streamed.
//!
//! In comes a `GenerateContentResponse`, out comes an [`Answer`], and the other way round. Gemini counts thinking besides
//! what it wrote, and what its own tools put into the prompt besides the prompt; our output and input are all of it.

use contexture_message::{Answer, Message, Part, Role, StopReason, Usage};
use serde_json::{Map, Value, json};

use super::decode::{Ids, Parts};
use super::parts::ModelParts;
use crate::digest::digest;
use crate::document::Doc;
use crate::loss::Losses;
use crate::{DecodeError, Decoded, Encoded, Target};

/// Reads an answer.
pub(crate) fn decode_answer(target: &Target, body: &Value) -> Result<Decoded<Answer>, DecodeError> {
    let mut doc = Doc::new("", body.clone())?;
    doc.take("createTime");
    let id = doc.string("responseId")?;
    let prefix = id.clone().unwrap_or_else(|| format!("call_{}", digest(&body.to_string())));
    let mut parts = Parts::new(&target.provider, Ids::new(prefix));
    let blocked = is_blocked(&mut doc)?;
    let mut candidates = doc.docs("candidates")?.into_iter();
    let (content, stop) = match candidates.next() {
        Some(candidate) => candidate_parts(candidate, &mut parts)?,
        None if blocked => (Vec::new(), StopReason::Refused),
        None => return Err(DecodeError::new("candidates", "missing")),
    };
    for other in candidates {
        parts.losses.add(other.place(), "left out: an answer is one candidate");
    }
    let calls = content.iter().any(|it| matches!(it, Part::ToolCall(_)));
    let value = Answer {
        message: Message::parts(Role::Assistant, content),
        stop: if calls && stop == StopReason::End { StopReason::ToolCalls } else { stop },
        usage: doc.doc("usageMetadata")?.map(read_usage).transpose()?.unwrap_or_default(),
        model: doc.string("modelVersion")?,
        id,
    };
    doc.report(&mut parts.losses);
    Ok(Decoded { value, losses: parts.losses.into_vec() })
}

/// Whether the prompt itself was refused.
pub(super) fn is_blocked(doc: &mut Doc) -> Result<bool, DecodeError> {
    let Some(mut feedback) = doc.doc("promptFeedback")? else { return Ok(false) };
    Ok(feedback.string("blockReason")?.is_some())
}

fn candidate_parts(mut doc: Doc, parts: &mut Parts) -> Result<(Vec<Part>, StopReason), DecodeError> {
    // What is measured and not said.
    for key in ["index", "tokenCount", "avgLogprobs", "safetyRatings", "finishMessage"] {
        doc.take(key);
    }
    let stop = doc.string("finishReason")?.map_or(StopReason::End, |it| read_stop(&it));
    let read = match doc.doc("content")? {
        None => Vec::new(),
        Some(mut content) => {
            content.take("role");
            let read = parts.list(&mut content)?;
            content.report(&mut parts.losses);
            read
        }
    };
    doc.report(&mut parts.losses);
    Ok((read, stop))
}

/// Returns why the model stopped.
pub(super) fn read_stop(word: &str) -> StopReason {
    match word {
        "STOP" => StopReason::End,
        "MAX_TOKENS" => StopReason::MaxTokens,
        "SAFETY"
        | "RECITATION"
        | "BLOCKLIST"
        | "PROHIBITED_CONTENT"
        | "SPII"
        | "IMAGE_SAFETY"
        | "IMAGE_PROHIBITED_CONTENT"
        | "IMAGE_RECITATION" => StopReason::Refused,
        other => StopReason::Other(other.to_owned()),
    }
}

fn write_stop(stop: &StopReason) -> &str {
    match stop {
        StopReason::End | StopReason::ToolCalls | StopReason::StopText => "STOP",
        StopReason::MaxTokens => "MAX_TOKENS",
        StopReason::Refused => "SAFETY",
        StopReason::Paused => "OTHER",
        StopReason::Other(word) => word,
    }
}

/// Reads token counts.
pub(super) fn read_usage(mut doc: Doc) -> Result<Usage, DecodeError> {
    let mut count = |key: &str| doc.count(key).map(Option::unwrap_or_default);
    let thoughts = count("thoughtsTokenCount")?;
    Ok(Usage {
        input_tokens: count("promptTokenCount")?.saturating_add(count("toolUsePromptTokenCount")?),
        cache_read_tokens: count("cachedContentTokenCount")?,
        cache_write_tokens: 0,
        output_tokens: count("candidatesTokenCount")?.saturating_add(thoughts),
        reasoning_tokens: thoughts,
    })
}

fn write_usage(usage: &Usage) -> Value {
    let mut json = Map::new();
    json.insert("promptTokenCount".to_owned(), usage.input_tokens.into());
    if usage.cache_read_tokens > 0 {
        json.insert("cachedContentTokenCount".to_owned(), usage.cache_read_tokens.into());
    }
    let written = usage.output_tokens.saturating_sub(usage.reasoning_tokens);
    json.insert("candidatesTokenCount".to_owned(), written.into());
    if usage.reasoning_tokens > 0 {
        json.insert("thoughtsTokenCount".to_owned(), usage.reasoning_tokens.into());
    }
    json.insert("totalTokenCount".to_owned(), usage.total().into());
    Value::Object(json)
}

/// Writes an answer.
pub(crate) fn encode_answer(target: &Target, answer: &Answer) -> Encoded {
    let mut losses = Losses::default();
    let parts = model_parts(target, &answer.message.content, &mut losses);
    Encoded { body: last_response(target, answer, parts), losses: losses.into_vec() }
}

/// Returns the parts of an answer.
pub(super) fn model_parts(target: &Target, parts: &[Part], losses: &mut Losses) -> Vec<Value> {
    let mut written = ModelParts::new(target, true);
    for (index, part) in parts.iter().enumerate() {
        written.push(part, &format!("message.content[{index}]"), losses);
    }
    written.flush();
    written.written
}

/// Returns a response that ends an answer: the only one, or the last of a stream.
pub(super) fn last_response(target: &Target, answer: &Answer, parts: Vec<Value>) -> Value {
    let candidate = json!({
        "content": {"parts": parts, "role": "model"},
        "finishReason": write_stop(&answer.stop),
        "index": 0,
    });
    let mut body = Map::new();
    body.insert("candidates".to_owned(), json!([candidate]));
    body.insert("usageMetadata".to_owned(), write_usage(&answer.usage));
    body.insert("modelVersion".to_owned(), answer.model.as_deref().unwrap_or(&target.model).into());
    body.extend(answer.id.as_ref().map(|it| ("responseId".to_owned(), it.as_str().into())));
    Value::Object(body)
}
