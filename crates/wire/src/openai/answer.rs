//! Encodes and decodes Chat Completions answers that are not streamed.
//!
//! An answer has one field each for thinking (`reasoning_content`, as in compatible servers), text and calls; they
//! are read in this order. Parts in another order, or several of a kind, are merged and reported. There is no clock
//! here: `created` is 0.

use contexture_message::{Answer, Message, Part, Role, StopReason, Thinking, ToolCall};
use serde_json::{Map, Value, json};

use super::citations::{self, Form};
use super::usage::{read_stop, read_usage, write_stop, write_usage};
use crate::assembly::{arguments_text, parse_arguments};
use crate::loss::Losses;
use crate::read::Place;
use crate::{DecodeError, Decoded, Encoded, Target};

/// Encodes an answer.
pub(crate) fn encode_answer(target: &Target, answer: &Answer) -> Encoded {
    let mut losses = Losses::default();
    let message = message(target, answer, &mut losses);
    let finish = write_stop(&answer.stop, &mut losses);
    let body = json!({
        "id": answer.id.as_deref().unwrap_or_default(),
        "object": "chat.completion",
        "created": 0,
        "model": answer.model.as_ref().unwrap_or(&target.model),
        "choices": [{"index": 0, "message": message, "logprobs": null, "finish_reason": finish}],
        "usage": write_usage(answer.usage),
    });
    Encoded { body, losses: losses.into_vec() }
}

fn message(target: &Target, answer: &Answer, losses: &mut Losses) -> Value {
    let (mut thinking, mut text, mut calls) = (None::<String>, None::<String>, Vec::new());
    let mut annotations = Vec::new();
    for (idx, part) in answer.message.content.iter().enumerate() {
        let at = format!("message.content[{idx}]");
        match part {
            Part::Thinking(part) => {
                if text.is_some() || !calls.is_empty() || thinking.is_some() {
                    losses.add(&at, "all thinking is sent as one, in front");
                }
                if part.signature.is_some() || part.provider.as_ref() != Some(&target.provider) {
                    losses.add(&at, "only the text of thinking is sent");
                }
                thinking.get_or_insert_default().push_str(&part.text);
            }
            Part::Text { text: more, citations } => {
                if text.is_some() || !calls.is_empty() {
                    losses.add(&at, "all text is sent as one, in front of the calls");
                }
                let whole: &mut String = text.get_or_insert_default();
                let from = whole.len();
                whole.push_str(more);
                let place = (whole.as_str(), from);
                annotations.extend(citations::annotations(
                    target,
                    Form::Wrapped,
                    citations,
                    place,
                    &at,
                    losses,
                ));
            }
            Part::ToolCall(call) => calls.push(tool_call(call)),
            Part::Image(_) | Part::File(_) | Part::Evidence(_) | Part::ToolResult(_) => {
                losses.add(&at, "is not allowed in an answer, left out");
            }
        }
    }
    let mut message = Map::new();
    message.insert("role".to_owned(), json!("assistant"));
    message.insert("content".to_owned(), json!(text));
    message.insert("refusal".to_owned(), Value::Null);
    if !annotations.is_empty() {
        message.insert("annotations".to_owned(), Value::Array(annotations));
    }
    if let Some(thinking) = thinking {
        message.insert("reasoning_content".to_owned(), json!(thinking));
    }
    if !calls.is_empty() {
        message.insert("tool_calls".to_owned(), Value::Array(calls));
    }
    Value::Object(message)
}

fn tool_call(call: &ToolCall) -> Value {
    let function = json!({"name": call.name, "arguments": arguments_text(&call.arguments)});
    json!({"id": call.id, "type": "function", "function": function})
}

/// Decodes an answer.
pub(crate) fn decode_answer(target: &Target, body: &Value) -> Result<Decoded<Answer>, DecodeError> {
    let body = Place::root(body);
    if let Some(error) = body.get("error") {
        return Err(DecodeError::new(error.at(), format!("the answer is an error: {}", error.value)));
    }
    let mut losses = Losses::default();
    let choices = body.need("choices")?.list()?;
    let Some(choice) = choices.first() else {
        return Err(DecodeError::new("choices", "is empty"));
    };
    for other in &choices[1..] {
        losses.add(other.at(), "only the first choice is read");
    }
    let said = choice.need("message")?;
    let id = body.name("id");
    let mut spoken = Message::parts(Role::Assistant, answer_parts(target, id.as_deref(), &said)?);
    let text = spoken.joined_text();
    for annotation in said.get_list("annotations")? {
        citations::read(target, &annotation, &text, &mut losses).into_iter().for_each(|it| spoken.cite(it));
    }
    let refused = said.get_str("refusal")?.is_some_and(|it| !it.is_empty());
    let has_calls = spoken.content.iter().any(|it| matches!(it, Part::ToolCall(_)));
    let stop = match read_stop(choice.get_str("finish_reason")?.unwrap_or("stop")) {
        StopReason::End if refused => StopReason::Refused,
        StopReason::End if has_calls => StopReason::ToolCalls,
        stop => stop,
    };
    let answer = Answer {
        message: spoken,
        stop,
        usage: body.get("usage").map(|it| read_usage(&it)).unwrap_or_default(),
        model: body.name("model"),
        id,
    };
    Ok(Decoded { value: answer, losses: losses.into_vec() })
}

fn answer_parts(target: &Target, id: Option<&str>, said: &Place<'_>) -> Result<Vec<Part>, DecodeError> {
    let mut parts = Vec::new();
    let (mut thinking, mut text) = (reasoning(said).unwrap_or_default().to_owned(), String::new());
    for said in content(said)? {
        match said {
            Said::Thinking(more) => thinking.push_str(more),
            Said::Text(more) => text.push_str(more),
        }
    }
    if !thinking.is_empty() {
        let (text, provider) = (thinking, Some(target.provider.clone()));
        parts.push(Part::Thinking(Thinking { text, provider, ..Thinking::default() }));
    }
    for text in [text, said.get_str("refusal")?.unwrap_or_default().to_owned()] {
        parts.extend((!text.is_empty()).then(|| Part::text(text)));
    }
    for call in said.get_list("tool_calls")? {
        let idx = parts.len();
        parts.push(call_part(&call, call.get_str("id")?.unwrap_or_default(), || made_id(id, idx))?);
    }
    if let Some(function) = said.get("function_call") {
        parts.push(function_part(&function, made_id(id, 0))?);
    }
    Ok(parts)
}

/// Returns the readable thinking of a message or chunk, as compatible servers write it.
pub(super) fn reasoning<'a>(place: &Place<'a>) -> Option<&'a str> {
    let found = ["reasoning_content", "reasoning"].iter().find_map(|it| place.get(it)?.value.as_str());
    found.filter(|it| !it.is_empty())
}

/// A piece of a message's content.
pub(super) enum Said<'a> {
    Thinking(&'a str),
    Text(&'a str),
}

/// Returns the content of a message or chunk. Some servers write a list of parts, and Mistral puts its thinking
/// there, as a nested list.
pub(super) fn content<'a>(place: &Place<'a>) -> Result<Vec<Said<'a>>, DecodeError> {
    let Some(content) = place.get("content") else { return Ok(Vec::new()) };
    if !content.value.is_array() {
        return Ok(vec![Said::Text(content.str()?)]);
    }
    let mut said = Vec::new();
    for part in content.list()? {
        if let Some(thinking) = part.get("thinking").filter(|it| it.value.is_array()) {
            let texts = thinking.list()?;
            let texts = texts.iter().filter_map(|it| it.get("text")?.value.as_str());
            said.extend(texts.map(Said::Thinking));
        }
        said.extend(part.get_str("text")?.map(Said::Text));
    }
    Ok(said)
}

fn call_part(call: &Place<'_>, id: &str, made: impl Fn() -> String) -> Result<Part, DecodeError> {
    let id = if id.is_empty() { made() } else { id.to_owned() };
    if let Some(custom) = call.get("custom") {
        let (name, arguments) = (custom.need("name")?.str()?, custom.need("input")?.str()?);
        return Ok(Part::ToolCall(ToolCall { id, name: name.to_owned(), arguments: arguments.into() }));
    }
    function_part(&call.need("function")?, id)
}

fn function_part(function: &Place<'_>, id: String) -> Result<Part, DecodeError> {
    let name = function.need("name")?.str()?.to_owned();
    let arguments = match function.get("arguments") {
        // Some servers send the arguments as an object instead of a string.
        Some(it) if it.value.is_object() => it.value.clone(),
        Some(it) => parse_arguments(it.str()?),
        None => parse_arguments(""),
    };
    Ok(Part::ToolCall(ToolCall { id, name, arguments }))
}

/// Generates an id for a call that has none: results must refer to their call. It is derived from the answer's id, so
/// that the ids of different answers do not collide.
pub(crate) fn made_id(answer: Option<&str>, idx: usize) -> String {
    let kept = |it: &char| it.is_ascii_alphanumeric() || matches!(it, '-' | '_');
    let mut tail: Vec<char> = answer.unwrap_or_default().chars().filter(kept).collect();
    let tail: String = tail.split_off(tail.len().saturating_sub(24)).into_iter().collect();
    format!("call_{tail}_{idx}")
}
