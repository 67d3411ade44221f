//! Decodes and encodes answers that are not streamed.
//!
//! Converts between a message of the Messages API and an [`Answer`].

use contexture_message::{Answer, Message, Part, Role, StopReason, Thinking};
use serde_json::{Map, Value, json};

use super::decode_parts::Blocks;
use super::usage::{RawUsage, read_stop, write_stop, write_usage};
use super::{citations, encode_parts};
use crate::digest::digest;
use crate::loss::Losses;
use crate::read::Place;
use crate::{DecodeError, Decoded, Encoded, Target, reference};

/// Decodes an answer.
pub(crate) fn decode_answer(target: &Target, body: &Value) -> Result<Decoded<Answer>, DecodeError> {
    let doc = Place::root_object(body)?;
    doc.ignore(&["type", "role", "stop_sequence"]);
    let mut blocks = Blocks::new(&target.provider);
    let parts = blocks.content(&doc.need("content")?)?.into_iter().map(|(part, _)| part);
    let parts: Vec<Part> = parts.collect();
    let mut usage = RawUsage::default();
    usage.update(&doc);
    let calls = parts.iter().any(|it| matches!(it, Part::ToolCall(_)));
    let stop = doc.get_string("stop_reason")?.map_or(StopReason::End, |it| read_stop(&it));
    let value = Answer {
        message: Message::parts(Role::Assistant, parts),
        stop: if calls && stop == StopReason::End { StopReason::ToolCalls } else { stop },
        usage: usage.usage(),
        model: doc.name("model"),
        id: doc.name("id"),
    };
    doc.report(&mut blocks.losses);
    Ok(Decoded { value, losses: blocks.losses.into_vec() })
}

/// Encodes an answer.
pub(crate) fn encode_answer(target: &Target, answer: &Answer) -> Encoded {
    let mut losses = Losses::default();
    let content = blocks_of(target, &answer.message.content, &mut losses);
    let mut body =
        header(target, answer.id.clone().unwrap_or_else(|| made_up_id(answer)), answer.model.clone());
    body.insert("content".to_owned(), Value::Array(content));
    body.insert("stop_reason".to_owned(), write_stop(&answer.stop).into());
    body.insert("stop_sequence".to_owned(), Value::Null);
    body.insert("usage".to_owned(), write_usage(&answer.usage));
    Encoded { body: Value::Object(body), losses: losses.into_vec() }
}

/// Derives an id from the answer's content: clients expect one.
fn made_up_id(answer: &Answer) -> String {
    let content = serde_json::to_string(&answer.message).unwrap_or_default();
    format!("msg_{}", digest(&content))
}

/// Returns the fields at the start of every message.
pub(super) fn header(target: &Target, id: String, model: Option<String>) -> Map<String, Value> {
    Map::from_iter([
        ("id".to_owned(), id.into()),
        ("type".to_owned(), "message".into()),
        ("role".to_owned(), "assistant".into()),
        ("model".to_owned(), model.unwrap_or_else(|| target.model.clone()).into()),
    ])
}

/// Encodes the parts of an answer as blocks.
pub(super) fn blocks_of(target: &Target, parts: &[Part], losses: &mut Losses) -> Vec<Value> {
    let mut blocks = Vec::new();
    for (index, part) in parts.iter().enumerate() {
        let at = format!("message.content[{index}]");
        match part {
            Part::Text { text, .. } if text.is_empty() => {}
            Part::Text { text, citations } => {
                let own = citations::own(target, citations, &at, losses);
                blocks.push(citations::cited(encode_parts::text(text), own));
            }
            Part::Evidence(it) => {
                losses.add(at, "said as a text: the assistant shows no search results");
                blocks.push(encode_parts::text(&reference::evidence(it)));
            }
            Part::Image(_) | Part::File(_) => {
                losses.add(at, "said as a reference: the assistant says no images or files");
                blocks.push(encode_parts::text(&reference::part(part)));
            }
            Part::Thinking(it) => blocks.extend(thinking(target, it, &at, losses)),
            Part::ToolCall(it) => blocks.push(encode_parts::tool_use(it, &it.name, &at, losses)),
            Part::ToolResult(_) => losses.add(at, "left out: the assistant gives no results"),
        }
    }
    blocks
}

/// Encodes thinking. Another provider's thinking is included, but its signature is not valid here.
fn thinking(target: &Target, thinking: &Thinking, at: &str, losses: &mut Losses) -> Option<Value> {
    if let Ok(block) = encode_parts::thinking(target, thinking) {
        return Some(block);
    }
    if thinking.provider.as_ref() != Some(&target.provider) {
        losses.add(at, "the signature was left out: another provider made it");
    }
    (!thinking.text.is_empty())
        .then(|| json!({"type": "thinking", "thinking": thinking.text, "signature": ""}))
}
